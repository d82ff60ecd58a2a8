"""Who guesses tokens cannot say that it comes from somewhere else (`faults.md`: forged X-Forwarded-For).

That guesses are limited, by address and in time, is told by `test_limits_http.py`.
"""

from pathlib import Path

import pytest

from support.clock import ManualClock
from support.matrix import Caller, Line, bearer
from support.server import running_server


def toml(trusted: str) -> str:
    return f"[server]\n[server.limits]\nfailed_tokens_per_minute = 5\ntrusted_proxies = {trusted}\n[queues.members]\n"


async def guesses(line: Line, forwarded: str, number: int = 6) -> int:
    """The status of the last of so many guesses, each with an `X-Forwarded-For` of its own (`{}` is its number)."""
    statuses = []
    for each in range(number):
        guess = Caller(headers=(*bearer("guess").headers, f"X-Forwarded-For: {forwarded.format(each)}"))
        statuses.append((await line.ask("POST", "/members/claim", guess, {})).status)
    assert set(statuses[:-1]) == {401}
    return statuses[-1]


@pytest.mark.parametrize(("trusted", "last"), [('["127.0.0.1"]', 401), ('["192.0.2.0/24"]', 429), ("[]", 429)])
async def test_a_forged_address_counts_only_where_the_proxy_is_trusted(trusted: str, last: int, tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, toml(trusted), clock=clock) as server, Line(server.base_url) as line:
        assert await guesses(line, "198.51.100.{}") == last


async def test_what_stands_before_the_proxys_word_does_not_count(tmp_path: Path) -> None:
    """The client itself wrote all of it but the last part."""
    clock = ManualClock()
    async with running_server(tmp_path, toml('["127.0.0.1"]'), clock=clock) as server, Line(server.base_url) as line:
        assert await guesses(line, "198.51.100.{}, 192.0.2.1") == 429
        assert await guesses(line, "192.0.2.1, 192.0.2.9", 2) == 401
