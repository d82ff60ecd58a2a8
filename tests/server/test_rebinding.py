"""Pages under a name that is not ours: of a proxy with TLS before us, or of an attacker whose DNS points here (§2)."""

from pathlib import Path
from typing import Final

import pytest

from support.matrix import Answer, Caller, Closed, Line, talk
from support.server import TestServer, open_queue, running_server

FORWARDED: Final[list[tuple[str, ...]]] = [
    (),
    ("X-Forwarded-For: 192.0.2.1",),
    ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: task.example.com", "Via: 1.1 Caddy"),
]
"""What stands in the way of a page that wants to look as if a proxy sent it: nothing, it writes such headers itself."""


async def post(line: Line, host: str, origin: str, more: tuple[str, ...]) -> Answer:
    """A page of `origin` posts to its own host."""
    lines = ["POST /demo/items HTTP/1.1", f"Host: {host}", f"Origin: {origin}", *more]
    return await line.say(
        "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: 10", "", ""]).encode() + b'{"item":1}'
    )


async def knock(server: TestServer, host: str, origin: str, more: tuple[str, ...]) -> int:
    """It opens a socket; 0 where it may, else the close code."""
    caller = Caller(headers=(f"Host: {host}", f"Origin: {origin}", *more))
    heard = await talk(server.ws_url, "/demo/monitor", caller, [])
    return heard.code if isinstance(heard, Closed) else 0


@pytest.mark.parametrize("more", FORWARDED)
async def test_a_name_that_was_pointed_here_is_refused_whatever_its_page_writes(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        host = f"evil.example:{server.base_url.rpartition(':')[2]}"
        answer = await post(line, host, f"http://{host}", more)
        assert (answer.status, answer.json["code"]) == (403, "not-allowed")
        assert await knock(server, host, f"http://{host}", more) == 4403
        assert (await line.ask("POST", "/demo/claim", body={})).json["type"] == "empty"


@pytest.mark.parametrize("more", FORWARDED[1:])
async def test_a_proxy_with_tls_brings_the_pages_of_its_own_site(more: tuple[str, ...], tmp_path: Path) -> None:
    """Without being listed. Pages of other sites, also by the same name without TLS, are others."""
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        own = await post(line, "task.example.com", "https://task.example.com", more)
        assert (own.status, own.header("access-control-allow-origin")) == (201, None)
        assert await knock(server, "task.example.com", "https://task.example.com", more) == 0
        for other in ("http://task.example.com", "https://example.com", "https://task.example.com:8443", "null"):
            assert (await post(line, "task.example.com", other, more)).status == 403
            assert await knock(server, "task.example.com", other, more) == 4403


async def test_what_is_no_origin_is_refused_and_fails_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(tmp_path, open_queue()) as server, Line(server.base_url) as line:
        for host, origin in (("x", "http://["), ("[", "http://["), ("x", "//"), ("x", "ÿ" * 3_000)):
            assert (await post(line, host, origin, ())).status == 403
            assert await knock(server, host, "http://[", ()) == 4403
    assert not [record for record in caplog.records if record.exc_info]
