"""The limits of HTTP at their edges: what may come slowly, how large a head may be, and who else may speak.

Real time passes here only where a timeout of the server itself is what is shown.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from leaseway_server.core.commands import Read
from leaseway_server.web.http_protocol import HEAD_BYTES
from support.clock import ManualClock
from support.matrix import NONE, Caller, Line, bearer
from support.plain_http import exchange, request
from support.process import server_process
from support.raw import TEXT, raw_socket
from support.server import TestServer, open_queue, running_server

SOON: Final = 0.3
"""The server's `request_timeout` in these tests, in seconds."""
QUICK: Final = f'[server]\n[server.limits]\nrequest_timeout = "{SOON * 1000:.0f}ms"\n{open_queue()}'


def port_of(server: TestServer) -> int:
    return int(server.base_url.rpartition(":")[2])


# ── Slow ──

POST: Final = request(
    "POST /demo/items", "localhost", "Content-Type: application/json", "Content-Length: 10", close=False
)
HEALTH: Final = request("GET /_health", "x", close=False)
SLOW: Final = {
    "silence": b"",
    "a byte": b"G",
    "blank lines": b"\r\n\r\n",
    "half a line": b"GET /_health HT",
    "half a head": b"GET /_health HTTP/1.1\r\nHost: x\r\nA",
    "no body": POST,
    "half a body": POST + b'{"ite',
    "half a chunk": request("POST /demo/items", "localhost", "Transfer-Encoding: chunked", close=False) + b"5\r\n{",
    "a trailer": request("POST /demo/items", "localhost", "Transfer-Encoding: chunked", close=False) + b"0\r\nA: 1",
    "half a handshake": b"GET /demo/work HTTP/1.1\r\nUpgrade: websocket\r\n",
    "half a second request": HEALTH + b"GET /",
}


async def test_what_does_not_come_in_time_is_answered_and_cut(tmp_path: Path) -> None:
    async with running_server(tmp_path, QUICK) as server:
        answers = await asyncio.gather(*(exchange(port_of(server), data) for data in SLOW.values()))
    for name, answered in zip(SLOW, answers, strict=True):
        assert answered.statuses[-1:] == [408], (name, answered)
        assert SOON - 0.05 <= answered.seconds < 3, (name, answered)


@pytest.mark.parametrize(
    ("name", "drip"),
    [("half a head", b"a" * 99), ("half a body", b"a" * 3), ("blank lines", b"\r\n" * 99)],
    ids=["head", "body", "blank lines"],
)
async def test_a_drip_is_no_life(name: str, drip: bytes, tmp_path: Path) -> None:
    """A byte now and then does not buy time."""
    async with running_server(tmp_path, QUICK) as server:
        answered = await exchange(port_of(server), SLOW[name], drip=drip, pause=SOON / 4)
    assert answered.status == 408
    assert answered.seconds < 5 * SOON


async def test_blank_lines_between_requests_buy_no_time(tmp_path: Path) -> None:
    async with running_server(tmp_path, QUICK) as server:
        answered = await exchange(port_of(server), HEALTH, drip=b"\r\n" * 50, pause=SOON / 4)
    assert answered.statuses == [200, 408]
    assert answered.seconds < 5 * SOON


async def test_who_waits_for_an_answer_is_not_slow(tmp_path: Path) -> None:
    """A request that is here may wait as long as it asked to; a connection may serve many, one after the other."""
    async with running_server(tmp_path, QUICK) as server, Line(server.base_url) as line:
        asked = asyncio.get_running_loop().time()
        empty = await line.ask("POST", "/demo/claim", body={"waitMs": int(SOON * 2_000)})
        assert (empty.status, empty.json["type"]) == (200, "empty")
        assert asyncio.get_running_loop().time() - asked > SOON
        stream = line._streams
        for _ in range(50):
            posted = await line.ask("POST", "/demo/items", body={"item": "x" * 20_000})
            assert posted.status == 201
            assert (await line.ask("GET", f"/demo/items/{posted.json['id']}")).status == 200
        assert line._streams is stream, "all that was one connection"


async def test_a_socket_is_not_cut_by_the_timeout_of_requests(tmp_path: Path) -> None:
    async with running_server(tmp_path, QUICK) as server, raw_socket(f"{server.ws_url}/demo/work") as socket:
        socket.say({"claim": {"waitMs": int(SOON * 2_000)}})
        assert (await socket.hear())["type"] == "empty"


# ── Large ──


def head_of(size: int, line: str = "GET /_health", headers: int = 1) -> bytes:
    """A request whose target and headers have so many bytes, and which has so many headers to fill it."""
    own = len(line.split()[1]) + len("HostxConnectionclose") + headers
    left = size - own
    values = [left // headers + (number < left % headers) for number in range(headers)]
    return request(line, "x", *(f"A: {'a' * value}" for value in values))


async def test_how_large_a_head_may_be(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        for data, status in (
            (head_of(HEAD_BYTES), 200),
            (head_of(HEAD_BYTES + 1), 431),
            (head_of(HEAD_BYTES, headers=1_000), 200),
            (head_of(HEAD_BYTES + 1, headers=1_000), 431),
            (request(f"GET /_health?{'x' * (HEAD_BYTES - 100)}", "x"), 200),
            (request(f"GET /_health?{'x' * HEAD_BYTES}", "x"), 431),
            (request("GET /_health", "x", f"{'A' * (HEAD_BYTES + 1)}: 1"), 431),
        ):
            assert (await exchange(port_of(server), data)).status == status, data[:50]


CHUNKED: Final = request(
    "POST /demo/items", "localhost", "Transfer-Encoding: chunked", "Content-Type: application/json"
)
ENDLESS: Final = {
    "a target": (b"GET /", b"a"),
    "a header's value": (b"GET /_health HTTP/1.1\r\nHost: x\r\nA: ", b"a"),
    "a header's name": (b"GET /_health HTTP/1.1\r\nHost: x\r\n", b"A"),
    "headers": (b"GET /_health HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n"),
    "blank lines": (b"", b"\r\n"),
    "a method": (b"", b"G"),
    "a trailer": (CHUNKED + b"0\r\nA: ", b"a"),
    "a chunk's extension": (CHUNKED + b"5;", b"a"),
    "a body": (CHUNKED + b"7fffffff\r\n", b"a"),
}


async def test_what_never_ends_is_not_kept(tmp_path: Path) -> None:
    """Each part of a request, 32 MB of it: the connection is ended early, and nothing of it stays in memory."""
    async with server_process(tmp_path, open_queue()) as server:
        port = int(server.base_url.rpartition(":")[2])
        before = server.memory()
        for name, (begun, more) in ENDLESS.items():
            sent = await sent_until_cut(port, begun, more * (100_000 // len(more)))
            assert sent <= 20 * 2**20, name
        assert server.memory() - before < 16 * 2**20
        async with Line(server.base_url) as line:
            assert (await line.ask("GET", "/_ready")).status == 200


async def sent_until_cut(port: int, begun: bytes, more: bytes) -> int:
    """Sends it again and again until the other side ends the connection. Gives the bytes that were sent."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begun)
    sent = 0
    try:
        async with asyncio.timeout(10):
            while sent < 32 * 2**20 and not writer.transport.is_closing():
                writer.write(more)
                sent += len(more)
                await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return sent


# ── Many ──


async def test_a_refused_connection_is_told_before_it_says_anything(tmp_path: Path) -> None:
    """Its place was never taken; and who left, whatever it had said, has none."""
    toml = f"[server]\n[server.limits]\ntrusted_proxies = []\nconnections_per_address = 2\n{open_queue()}"
    async with running_server(tmp_path, toml) as server:
        site = server.running.site
        assert site is not None
        for data in (b"", b"GET", HEALTH, POST, b"nonsense\r\n\r\n", head_of(HEAD_BYTES + 1)):
            writers = []
            for _ in range(2):
                _, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
                writer.write(data)
                writers.append(writer)
            if data in (b"", b"GET", POST):
                for _ in range(3):
                    answered = await exchange(port_of(server), b"")
                    assert answered.status == 429
                    assert answered.seconds < 2
            for writer in writers:
                writer.transport.abort()
            async with asyncio.timeout(10):
                while len(site.connections_of_address):  # noqa: ASYNC110  Nothing tells when the server has seen it.
                    await asyncio.sleep(0)


TWO: Final = f"""[server]
allowed_origins = ["https://app.example.com"]
[server.limits]
connections_per_address = 2
{open_queue()}"""
WAITS: Final = {"waitMs": 60_000}


def via(address: str, *more: str) -> Caller:
    """A request that the trusted proxy forwards."""
    return Caller(headers=(f"X-Forwarded-For: {address}", *more))


async def test_requests_under_way_behind_a_proxy_count_for_their_client(tmp_path: Path) -> None:
    """With its sockets, for nobody else. Each end gives its place back: an answer, a cut, a body that never came."""
    clock = ManualClock()
    async with running_server(tmp_path, TWO, clock=clock) as server, AsyncExitStack() as stack:
        site = server.running.site
        assert site is not None
        taken = site.connections_of_address._taken
        lines = [await stack.enter_async_context(Line(server.base_url)) for _ in range(3)]
        *busy, line = lines

        async def look(caller: Caller) -> int:
            return (await line.ask("GET", f"/demo/items/{NONE}", caller)).status

        async def knock(address: str) -> int:
            async with raw_socket(f"{server.ws_url}/demo/work", via(address).named_headers) as socket:
                socket.say({"hello": {}})
                frame = await socket.next()
                return 0 if frame.opcode == TEXT else frame.close_code

        for end in ("answer", "cut", "body"):
            assert (await look(via("192.0.2.1")), await knock("192.0.2.1")) == (404, 0)
            await counted(taken, 0)
            if end == "body":
                for each in busy:
                    await each.begin(POST.replace(b"localhost", b"localhost\r\nX-Forwarded-For: 192.0.2.1"))
                held = []
            else:
                asking = (each.ask("POST", "/demo/claim", via("192.0.2.1"), WAITS) for each in busy)
                held = [asyncio.create_task(each) for each in asking]
            await counted(taken, 2)
            await counted(site.waiting_claims._taken, len(held))
            refused = await line.ask(
                "GET", "/_health", via("198.51.100.7, 192.0.2.1", "Origin: https://app.example.com")
            )
            assert (refused.status, refused.json["code"]) == (429, "limit")
            assert refused.header("access-control-allow-origin") == "https://app.example.com"
            assert await knock("192.0.2.1") == 1013
            assert (await look(via("192.0.2.2")), await knock("192.0.2.2")) == (404, 0)
            if end == "answer":
                clock.advance(60_000)
                assert [(await each).json["type"] for each in held] == ["empty"] * 2
            else:
                for each in busy:
                    each.cut()
                for task in held:
                    task.cancel()
                await asyncio.gather(*held, return_exceptions=True)
            await counted(taken, 0)


@pytest.mark.parametrize(
    ("trusted", "caller"),
    [
        (["127.0.0.1"], Caller()),
        (["127.0.0.1"], via("127.0.0.1")),
        (["127.0.0.1", "10.0.0.0/8"], via("10.0.0.5")),
        ([], via("192.0.2.1")),
    ],
)
async def test_no_request_counts_beside_its_own_connection(trusted: list[str], caller: Caller, tmp_path: Path) -> None:
    """Nor those of a proxy itself, such as its question whether we are ready."""
    toml = f"[server]\n[server.limits]\nconnections_per_address = 1\ntrusted_proxies = {trusted}\n{open_queue()}"
    clock = ManualClock()
    async with running_server(tmp_path, toml, clock=clock) as server, AsyncExitStack() as stack:
        site = server.running.site
        assert site is not None
        lines = [await stack.enter_async_context(Line(server.base_url)) for _ in range(3 if trusted else 1)]
        asking = (line.ask("POST", "/demo/claim", caller, WAITS) for line in lines)
        held = [asyncio.create_task(each) for each in asking]
        await counted(site.waiting_claims._taken, len(lines))
        await server.engine("demo").ask(Read(()))  # They were said before: now they wait.
        assert sum(site.connections_of_address._taken.values()) == (0 if trusted else 1)
        clock.advance(60_000)
        assert [(await each).status for each in held] == [200] * len(lines)


async def test_claims_that_wait_over_http_are_waiting_claims(tmp_path: Path) -> None:
    """Counted with those of the token's sockets, and given back with the answer, and where its client left."""
    toml = "[server]\n[server.limits]\nwaiting_claims_per_token = 2\n[queues.members]\n"
    clock = ManualClock()
    async with (
        running_server(tmp_path, toml, users={"ann": [], "bob": []}, clock=clock) as server,
        Line(server.base_url) as line,
        Line(server.base_url) as waiting,
    ):
        site = server.running.site
        assert site is not None
        ann, bob = bearer(server.tokens["ann"]), bearer(server.tokens["bob"])
        wait = {"waitMs": 60_000}
        async with raw_socket(f"{server.ws_url}/members/work", ann.named_headers) as socket:
            socket.say({"claim": wait})
            assert (await socket.ask({"hello": {}}))["type"] == "hello"
            for leaves in (False, True):
                held = asyncio.create_task(waiting.ask("POST", "/members/claim", ann, wait))
                await counted(site.waiting_claims._taken, 2)
                refused = await line.ask("POST", "/members/claim", ann, wait)
                assert (refused.status, refused.json["code"]) == (429, "limit")
                assert (await socket.ask({"claim": wait}))["code"] == "limit"
                assert (await line.ask("POST", "/members/claim", ann, {})).status == 200, "it does not wait"
                if leaves:
                    held.cancel()
                    waiting.cut()
                    await counted(site.waiting_claims._taken, 1)
                    break
                clock.advance(60_000)
                assert (await held).json["type"] == (await socket.hear())["type"] == "empty"
                socket.say({"claim": wait})
                assert (await socket.ask({"hello": {}}))["type"] == "hello"
            assert (await line.ask("POST", "/members/claim", bob, {})).status == 200
            for large in ({"a": list(range(10))}, {"a": "x" * 1_000}):  # Each counts as two, or three, as on a socket.
                refused = await line.ask("POST", "/members/claim", ann, wait | {"criteria": large})
                assert (refused.status, refused.json["code"]) == (429, "limit")
                assert (await line.ask("POST", "/members/claim", ann, {"criteria": large})).status == 200
        await counted(site.waiting_claims._taken, 0)


async def counted(taken: dict[str, int], number: int) -> None:
    """Waits until so many are taken."""
    async with asyncio.timeout(10):
        while sum(taken.values()) != number:  # noqa: ASYNC110  Nothing tells when the server has seen it.
            await asyncio.sleep(0)


# ── max_pending ──


@pytest.mark.protocol("5.9", "5.68")
async def test_what_is_requeued_needs_no_place(tmp_path: Path) -> None:
    """A queue that is full takes back all that was claimed from it, and then nothing until so much is claimed."""
    async with (
        running_server(tmp_path, open_queue(max_pending="2")) as server,
        Line(server.base_url) as line,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):

        async def fill() -> int:
            """Posts until no more is taken, over HTTP; gives how many were."""
            for number in range(10):
                answer = await line.ask("POST", "/demo/items", body={"item": number})
                if answer.status != 201:
                    assert (answer.status, answer.json["code"]) == (429, "limit")
                    assert (await monitor.ask({"post": {"item": 1}}))["code"] == "limit"
                    return number
            raise AssertionError("it is never full")

        assert await fill() == 2
        async with raw_socket(f"{server.ws_url}/demo/work") as doomed:
            items = [await doomed.ask({"claim": {}}) for _ in range(2)]
            assert await fill() == 2
        items += [await work.ask({"claim": {}}) for _ in range(2)]
        for item in items[2:]:
            for verb in ("release", "fail"):
                more = {"error": {"message": "no"}} if verb == "fail" else {}
                assert (await work.ask({verb: {"id": item["id"], **more}}))["accepted"] is (verb == "release")
        assert await fill() == 0
        claimed = 0
        while (await work.ask({"claim": {}}))["type"] == "item":
            claimed += 1
        assert claimed == 4
        assert await fill() == 2


# ── Tokens that are not valid ──


@pytest.mark.protocol("2.13")
async def test_failures_are_forgiven_one_by_one_and_what_is_valid_costs_nothing(tmp_path: Path) -> None:
    """Over HTTP and at sockets alike, tokens and tickets; nobody else waits for it."""
    toml = f"[server]\n[server.limits]\nfailed_tokens_per_minute = 6\n{open_queue()}[queues.members]\n"
    clock = ManualClock()
    async with (
        running_server(tmp_path, toml, users={"ann": ["post"]}, clock=clock) as server,
        Line(server.base_url) as line,
    ):
        good, bad = bearer(server.tokens["ann"]), bearer("lw_guess")

        async def ask(caller: Caller, address: str = "192.0.2.1", queue: str = "members") -> int:
            headers = [f"X-Forwarded-For: {address}"]
            return (await line.ask("POST", f"/{queue}/items", caller, {"item": 1}, headers)).status

        async def knock(query: str) -> int:
            async with raw_socket(f"{server.ws_url}/demo/work?{query}", {"X-Forwarded-For": "192.0.2.1"}) as socket:
                return await socket.closed()

        for _ in range(20):
            assert await ask(good) == 201
            assert await ask(good, queue="none") == 404
            assert await ask(Caller()) == 401, "to send no token is no guess"
        assert [await ask(bad), await ask(bad, queue="demo"), await ask(bad, queue="none")] == [401] * 3
        assert [await knock("token=x"), await knock("ticket=x"), await knock("token=x&ticket=y")] == [4401] * 3
        for _ in range(3):
            clock.advance(9_999)
            assert [await ask(good), await ask(bad), await ask(bad, queue="none")] == [429] * 3
            assert [await knock("token=x"), await knock("ticket=x")] == [1013] * 2
            assert await ask(Caller(), queue="demo") == 201
            assert await ask(good, "192.0.2.2") == 201
            clock.advance(1)
            assert [await ask(good), await ask(bad)] == [201, 401]
        problem = await line.ask("GET", f"/members/items/{NONE}", bad, headers=["X-Forwarded-For: 192.0.2.1"])
        assert problem.json["code"] == "limit"
