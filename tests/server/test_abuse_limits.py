"""Each limit has a clear answer, meets nobody else, and is given back when its user goes (PROTOCOL.md §2, §3, §6).

What standing at a limit costs the process is told by `test_abuse.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.matrix import Caller, Line, bearer
from support.raw import TEXT, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server


def toml(trusted: str = '["127.0.0.1"]', queue: str = "", **limits: str) -> str:
    """A server with the open queue `demo` and `members`; `limits` as TOML values."""
    lines = "\n".join(f"{name} = {value}" for name, value in limits.items())
    return f"[server]\n[server.limits]\ntrusted_proxies = {trusted}\n{lines}\n{open_queue()}{queue}\n[queues.members]\n"


def of(address: str, token: str = "") -> Caller:
    """A request that a proxy forwards for this address."""
    return Caller(headers=(*(bearer(token).headers if token else ()), f"X-Forwarded-For: {address}"))


async def code(server: TestServer, path: str, caller: Caller) -> int:
    """0 where the socket opens and is left again, else how it is closed."""
    async with raw_socket(server.ws_url + path, caller.named_headers) as socket:
        socket.say({"hello": {}})
        frame = await socket.next()
        return 0 if frame.opcode == TEXT else frame.close_code


@asynccontextmanager
async def opened(server: TestServer, path: str, callers: list[Caller]) -> AsyncIterator[list[RawSocket]]:
    """A socket for each, greeted."""
    async with AsyncExitStack() as stack:
        sockets = []
        for caller in callers:
            sockets.append(await stack.enter_async_context(raw_socket(server.ws_url + path, caller.named_headers)))
            sockets[-1].say({"hello": {}})
            assert (await sockets[-1].hear())["type"] == "hello"
        yield sockets


async def until_open(server: TestServer, path: str, caller: Caller) -> None:
    """Waits until the server has seen that others left."""
    async with asyncio.timeout(10):
        while await code(server, path, caller):
            pass


# ── Connections ──


async def test_connections_of_an_address(tmp_path: Path) -> None:
    async with running_server(tmp_path, toml(connections_per_address="3")) as server:
        async with opened(server, "/demo/monitor", [of("192.0.2.1")] * 3):
            assert await code(server, "/demo/work", of("192.0.2.1")) == 1013
            assert await code(server, "/demo/work", of("192.0.2.2")) == 0
        await until_open(server, "/demo/work", of("192.0.2.1"))


async def test_connections_of_an_address_that_say_nothing(tmp_path: Path) -> None:
    """Without a proxy the peer counts; what it says of itself does not."""
    async with running_server(tmp_path, toml(trusted="[]", connections_per_address="3")) as server:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                line = await stack.enter_async_context(Line(server.base_url))
                assert (await line.ask("GET", "/_health", of("192.0.2.1"))).status == 200
            async with Line(server.base_url) as line:
                assert (await line.ask("GET", "/_health", of("192.0.2.2"))).status == 429
        async with asyncio.timeout(10), Line(server.base_url) as line:
            while (await line.ask("GET", "/_health")).status != 200:
                pass


async def test_connections_of_a_token(tmp_path: Path) -> None:
    async with running_server(tmp_path, toml(connections_per_token="2"), users={"alice": [], "bob": []}) as server:
        alice = bearer(server.tokens["alice"])
        async with opened(server, "/members/work", [alice] * 2):
            assert await code(server, "/demo/monitor", alice) == 1013
            assert await code(server, "/members/work", bearer(server.tokens["bob"])) == 0
        await until_open(server, "/members/work", alice)


# ── Tokens that are not valid ──


async def test_failed_tokens_of_an_address(tmp_path: Path) -> None:
    """After some no token of that address is looked at; without one it may do what anyone may. A minute forgives."""
    clock = ManualClock()
    async with (
        running_server(
            tmp_path, toml(failed_tokens_per_minute="5"), users={"alice": ["post", "work"]}, clock=clock
        ) as server,
        Line(server.base_url) as line,
    ):
        guess, good = of("192.0.2.1", "guess"), of("192.0.2.1", server.tokens["alice"])
        body = {"id": "0123456789abcdef", "value": 1}
        answers = [(await line.ask("POST", "/members/result", guess, body)).status for _ in range(8)]
        assert answers == [401] * 5 + [429] * 3
        refused = await line.ask("POST", "/nowhere/result", good, body)
        assert (refused.status, refused.json["code"]) == (429, "limit")
        assert await code(server, "/members/work", good) == 1013
        assert (await line.ask("POST", "/demo/result", of("192.0.2.1"), body)).status == 200
        assert (await line.ask("POST", "/members/result", of("192.0.2.2", server.tokens["alice"]), body)).status == 200
        clock.advance(60_000)
        assert (await line.ask("POST", "/members/result", good, body)).status == 200


@pytest.mark.parametrize(("trusted", "last"), [('["127.0.0.1"]', 401), ('["192.0.2.0/24"]', 429), ("[]", 429)])
async def test_a_forged_address_counts_only_where_the_proxy_is_trusted(trusted: str, last: int, tmp_path: Path) -> None:
    """Each guess says that it comes from somewhere else. Behind a trusted proxy that is for the proxy to know."""
    config = toml(trusted=trusted, failed_tokens_per_minute="5")
    async with running_server(tmp_path, config, clock=ManualClock()) as server, Line(server.base_url) as line:
        for number in range(6):
            answer = await line.ask("POST", "/members/claim", of(f"198.51.100.{number}", "guess"), {})
        assert answer.status == last


async def test_what_stands_before_the_proxys_word_does_not_count(tmp_path: Path) -> None:
    """The client itself wrote all of X-Forwarded-For but its last part."""
    config = toml(failed_tokens_per_minute="5")
    async with running_server(tmp_path, config, clock=ManualClock()) as server, Line(server.base_url) as line:
        for number in range(6):
            answer = await line.ask("POST", "/members/claim", of(f"198.51.100.{number}, 192.0.2.1", "guess"), {})
        assert answer.status == 429
        assert (await line.ask("POST", "/members/claim", of("192.0.2.1, 192.0.2.9", "guess"), {})).status == 401


# ── Messages ──


@pytest.mark.parametrize(
    ("limits", "message", "number"),
    [
        ({"messages_per_second": "100"}, b'{"renew": {"id": "0123456789abcdef"}}', 1_000),
        ({"bytes_per_second": "104_858"}, b'{"renew": {"id": "0123456789abcdef"}, "x": "' + b"x" * 100_000 + b'"}', 10),
        ({"bad_messages": "7"}, b'{"no": "verb"}', 7),
    ],
)
async def test_messages_that_come_too_fast(limits: dict[str, str], message: bytes, number: int, tmp_path: Path) -> None:
    """So many are answered, ten seconds' worth; with the next the socket is closed, and another is not."""
    config = toml(**limits)
    async with (
        running_server(tmp_path, config, clock=ManualClock()) as server,
        raw_socket(f"{server.ws_url}/demo/work") as socket,
        raw_socket(f"{server.ws_url}/demo/work") as other,
    ):
        for _ in range(number):
            socket.frame(TEXT, message)
            await socket.hear()
        socket.frame(TEXT, message)
        assert await socket.closed() == 1008
        other.say({"hello": {}})
        assert (await other.hear())["type"] == "hello"


async def test_a_socket_that_never_reads_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With 1013, when it has taken nothing for `request_timeout` of what there was to say."""
    caplog.set_level(logging.INFO, "leaseway_server")
    config = toml(request_timeout='"300ms"')
    async with (
        running_server(tmp_path, config) as server,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
        raw_socket(f"{server.ws_url}/demo/monitor", receive_buffer=4_096) as stalled,
    ):
        monitor.say({"post": {"item": 1}})
        item_id = (await monitor.hear())["id"]
        stalled.say({"subscribe": [item_id]})
        worker.say({"claim": {}})
        assert (await worker.hear())["id"] == item_id
        closed: list[int] = []
        while not closed:
            worker.say({"progress": {"id": item_id, "value": "x" * 30_000}})
            assert (await worker.hear())["accepted"]
            closed = [vars(record)["code"] for record in caplog.records if record.getMessage() == "a socket closed"]
        assert closed == [1013]


# ── What waits ──


async def test_waiting_claims_of_a_token(tmp_path: Path) -> None:
    """Counted over its sockets; given back when one is answered, withdrawn or gone."""
    config = toml(waiting_claims_per_token="4")
    async with running_server(tmp_path, config, users={"alice": [], "bob": []}) as server:
        alice = bearer(server.tokens["alice"])
        waiting = {"claim": {"waitMs": 600_000}}
        async with opened(server, "/members/work", [alice, alice, bearer(server.tokens["bob"])]) as (
            first,
            second,
            bob,
        ):
            for socket in (first, second, bob):
                for _ in range(2):
                    socket.say(waiting)
                socket.say({"hello": {}})
                assert (await socket.hear())["type"] == "hello"
            for socket in (first, second):
                socket.say(waiting)
                assert (await socket.hear())["code"] == "limit"
            bob.say({"unclaim": True})
            assert [(await bob.hear())["type"] for _ in range(2)] == ["empty"] * 2
            first.say({"unclaim": True})
            assert [(await first.hear())["type"] for _ in range(2)] == ["empty"] * 2
            for _ in range(2):
                second.say(waiting)
            second.say(waiting)
            assert (await second.hear())["code"] == "limit"
            second.cut()
            async with asyncio.timeout(10):
                while True:  # Until the server has seen that it is gone.
                    first.say({"claim": {"waitMs": 1}})
                    if (await first.hear())["type"] == "empty":
                        break


async def test_posts_past_max_pending(tmp_path: Path) -> None:
    """Over HTTP and on the socket; what is claimed makes place, what is requeued needs none."""
    config = toml(queue="max_pending = 2\n")
    async with (
        running_server(tmp_path, config) as server,
        Line(server.base_url) as line,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
    ):
        answers = [await line.ask("POST", "/demo/items", Caller(), {"item": 1}) for _ in range(3)]
        assert [answer.status for answer in answers] == [201, 201, 429]
        assert answers[-1].json["code"] == "limit"
        monitor.say({"post": {"item": 1}})
        assert (await monitor.hear())["code"] == "limit"
        worker.say({"claim": {}})
        item = await worker.hear()
        monitor.say({"post": {"item": 1}})
        assert (await monitor.hear())["type"] == "posted"
        worker.say({"release": {"id": item["id"]}})
        assert (await worker.hear())["accepted"]
        assert (await line.ask("POST", "/demo/items", Caller(), {"item": 1})).status == 429


async def test_subscriptions_of_a_socket(tmp_path: Path) -> None:
    """Past the limit nothing is posted; what is unsubscribed makes place."""
    config = toml(subscriptions="2")
    async with running_server(tmp_path, config) as server, raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        ids = []
        for _ in range(2):
            monitor.say({"post": {"item": 1, "subscribe": True}})
            ids.append((await monitor.hear())["id"])
            assert (await monitor.hear())["type"] == "status"
        monitor.say({"post": {"item": 1, "subscribe": True}})
        assert (await monitor.hear())["code"] == "limit"
        monitor.say({"unsubscribe": ids[:1]})
        monitor.say({"post": {"item": 1, "subscribe": True}})
        assert (await monitor.hear())["type"] == "posted"
