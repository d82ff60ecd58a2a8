"""A connection over real sockets: greeting, backoff, final refusals, and a token that shows nowhere."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Never

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from client.scripted_peer import A, Pauses, Peer, item, peer, resumed
from leaseway import connection
from leaseway.connection import (
    CEILING,
    FIRST_CEILING,
    URGENT_CEILING,
    Endpoint,
    Link,
    Outside,
    SocketClosed,
    reconnect_delay,
)
from leaseway.errors import AccessRefused, Forbidden, NoSuchQueue, Unauthorized
from leaseway.leases import Event
from leaseway.transport import dial
from leaseway.worker_state import WorkerState

CANARY = "canary-5d0f8e1c"


@asynccontextmanager
async def linked(url: str, outside: Outside, token: str | None = None) -> AsyncIterator[asyncio.Task[Never]]:
    """A worker's link that runs while the block does."""

    def deliver(events: list[Event]) -> None:
        pass

    link = Link(Endpoint.of(url, "work", token), WorkerState("box-1", 1), deliver, outside)
    running = asyncio.create_task(link.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize(
    ("url", "connects_to"),
    [
        ("ws://127.0.0.1:8787/resize", "ws://127.0.0.1:8787/resize/work"),
        ("http://127.0.0.1:8787/resize/", "ws://127.0.0.1:8787/resize/work"),
        ("https://task.example.com/resize", "wss://task.example.com/resize/work"),
        ("wss://task.example.com/under/resize", "wss://task.example.com/under/resize/work"),
        ("ws://[::1]:8787/resize", "ws://[::1]:8787/resize/work"),
    ],
)
def test_a_queues_url_becomes_a_sockets(url: str, connects_to: str) -> None:
    assert Endpoint.of(url, "work", None).url == connects_to


@pytest.mark.parametrize(
    "url",
    [
        "resize",
        "ftp://127.0.0.1/resize",
        "ws://127.0.0.1:8787",
        "ws:///resize",
        "ws://a..b/resize",
        "ws://127.0.0.1:port/resize",
        "ws://127.0.0.1:99999/resize",
        "ws://127.0.0.1:0/resize",
        "ws://[::1/resize",
        "ws://no host/resize",
        "ws://127.0.0.1/no queue",
        f"ws://127.0.0.1/resize?token={CANARY}",
        f"ws://{CANARY}@127.0.0.1/resize",
        f"ws://127.0.0.1/resize#{CANARY}",
    ],
)
def test_a_url_that_is_no_queues_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="a queue's address") as refused:
        Endpoint.of(url, "work", None)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("token", [f"{CANARY}\r\nX-Evil: 1", f"{CANARY} x", f"{CANARY}é"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII") as refused:
        Endpoint.of("ws://127.0.0.1/resize", "work", token)
    assert CANARY not in str(refused.value)


def test_backoff_is_full_jitter_between_nothing_and_a_doubling_ceiling() -> None:
    ceilings = [reconnect_delay(failures, 1.0, urgent=False) for failures in range(1, 9)]
    assert ceilings == [FIRST_CEILING, 1.0, 2.0, 4.0, 8.0, 16.0, CEILING, CEILING]
    assert reconnect_delay(5, 0.0, urgent=False) == 0.0
    assert reconnect_delay(5, 0.25, urgent=False) == 2.0
    assert reconnect_delay(100_000, 1.0, urgent=False) == CEILING


def test_backoff_is_short_while_leases_are_held() -> None:
    assert max(reconnect_delay(failures, 1.0, urgent=True) for failures in range(1, 99)) == URGENT_CEILING


@pytest.mark.protocol("2.4")
async def test_hello_is_the_first_message_and_the_token_a_header() -> None:
    async with peer() as server, linked(server.url, Outside(), CANARY):
        socket = await server.accept()
        assert socket.path == "/resize/work"
        assert socket.headers["Authorization"] == f"Bearer {CANARY}"
        assert "Sec-WebSocket-Extensions" not in socket.headers
        said = await socket.greet()
        assert said["cancel"]
        assert said["batch"]
        await socket.expect("claim")


async def test_an_open_queue_needs_no_header() -> None:
    async with peer() as server, linked(server.url, Outside()):
        assert "Authorization" not in (await server.accept()).headers


@pytest.mark.protocol("6.1", "6.3", "6.4", "6.5")
@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 1012, 1013])
async def test_a_closed_socket_is_dialled_again(code: int) -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        first = await server.accept()
        await first.greet()
        await first.close(code)
        await (await server.accept()).greet()
        assert pauses.asked == [FIRST_CEILING]


async def test_failures_in_a_row_wait_longer_and_a_steady_connection_forgives_them() -> None:
    pauses, now = Pauses(), 0.0
    outside = Outside(pause=pauses, chance=lambda: 1.0, clock=lambda: now)
    async with peer() as server, linked(server.url, outside):
        for _ in range(3):
            (await server.accept()).cut()
        socket = await server.accept()
        assert pauses.asked == [0.5, 1.0, 2.0]
        await socket.greet()
        now = 60.0
        socket.cut()
        await server.accept()
        assert pauses.asked == [0.5, 1.0, 2.0, 0.5]


@pytest.mark.protocol("6.6")
async def test_an_accept_that_is_closed_before_the_hello_is_no_success() -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        for _ in range(4):
            await (await server.accept()).close(1013)
        await server.accept()
        assert pauses.asked == [0.5, 1.0, 2.0, 4.0]


async def test_a_held_lease_brings_the_connection_back_soon() -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        socket = await server.accept()
        await socket.greet()
        await socket.say(item(await socket.expect("claim")))
        socket.cut()
        for _ in range(7):
            (await server.accept()).cut()
        socket = await server.accept()
        assert pauses.asked == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]
        await socket.greet()
        await socket.say(resumed(await socket.expect("resume")))


@pytest.mark.protocol("6.7")
@pytest.mark.parametrize(("code", "refused"), [(4401, Unauthorized), (4403, Forbidden), (4404, NoSuchQueue)])
async def test_a_final_refusal_ends_the_connection(code: int, refused: type[AccessRefused]) -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside(), CANARY) as running:
        await (await server.accept()).close(code)
        with pytest.raises(refused) as told:
            await running
        assert CANARY not in str(told.value)
        assert pauses.asked == []


async def test_a_token_that_is_revoked_ends_a_connection_that_stood() -> None:
    async with peer() as server, linked(server.url, Pauses().outside(), CANARY) as running:
        socket = await server.accept()
        await socket.greet()
        await socket.close(4401)
        with pytest.raises(Unauthorized):
            await running


@pytest.mark.parametrize(("status", "code"), [(401, 4401), (403, 4403), (404, 4404), (302, 1006), (503, 1006)])
async def test_a_refused_handshake_is_told_as_a_close_code(status: int, code: int) -> None:
    asked: list[str] = []

    def refuse(accepted: ServerConnection, request: Request) -> Response:
        asked.append(request.path)
        response = accepted.respond(status, "")
        response.headers["Location"] = "/elsewhere"
        return response

    async def never(accepted: ServerConnection) -> None:
        raise AssertionError("no handshake was to succeed")

    async with serve(never, "127.0.0.1", 0, process_request=refuse) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(SocketClosed) as closed:
            await dial(Endpoint(f"ws://127.0.0.1:{port}/resize/work", CANARY), 1000)
        assert closed.value.code == code
        assert asked == ["/resize/work"]


@asynccontextmanager
async def says(data: bytes) -> AsyncIterator[int]:
    """The port of a server that says this, whatever it hears, and closes."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("url", "data", "said"),
    [
        ("ws://127.0.0.1:1", b"", "nobody listens there"),
        ("ws://localhost:1", b"", "nobody listens there"),
        (
            "ws://127.0.0.1:{port}",
            b"220 mail.example ESMTP\r\n",
            "it does not speak HTTP; is the address to begin with",
        ),
        ("ws://127.0.0.1:{port}", b"", "the connection was lost before it answered"),
        (
            "wss://127.0.0.1:{port}",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "it does not speak TLS; is the address to begin",
        ),
        ("ws://127.0.0.1:{port}", b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "HTTP 502"),
    ],
)
async def test_what_hinders_a_connection_is_told_in_words(url: str, data: bytes, said: str) -> None:
    async with says(data) as port:
        with pytest.raises(SocketClosed) as closed:
            await dial(Endpoint(f"{url.format(port=port)}/resize/work"), 1000)
    assert closed.value.code == 1006
    assert str(closed.value).startswith(said)


async def test_a_name_that_is_not_found_and_a_route_that_there_is_not_are_told_in_words() -> None:
    """As the system calls them, which differs: yet neither as Python does, nor with a number."""
    for host in ("nowhere.invalid", "255.255.255.255"):
        with pytest.raises(SocketClosed) as closed:
            await dial(Endpoint(f"ws://{host}:1/resize/work"), 1000)
        assert re.fullmatch(r"[A-Z][a-z ]+", str(closed.value))


async def test_a_connection_that_is_cut_is_told_in_words() -> None:
    async with peer() as server:
        opening = asyncio.create_task(dial(Endpoint(f"{server.url}/work"), 1000))
        accepted = await server.accept()
        socket = await opening
        accepted.cut()
        with pytest.raises(SocketClosed, match=r"^the connection was lost$"):
            await socket.receive()


async def test_a_server_that_is_not_there_is_tried_again() -> None:
    pauses = Pauses()
    tried = asyncio.Event()

    async def pause(seconds: float) -> None:
        await pauses(seconds)
        if len(pauses.asked) == 3:
            tried.set()
        await asyncio.sleep(0)

    async with peer() as server:
        url = server.url
    async with linked(url, Outside(pause=pause, chance=lambda: 1.0)) as running:
        await tried.wait()
        assert not running.done()
        assert pauses.asked[:3] == [0.5, 1.0, 2.0]


async def test_a_server_with_larger_messages_is_dialled_anew_at_once() -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        first = await server.accept()
        await first.greet(4_000_000)
        assert await first.closed() == 1000
        second = await server.accept()
        await second.greet(4_000_000)
        claim = await second.expect("claim")
        await second.say(item(claim, A, item="x" * 3_000_000))
        second.cut()
        third = await server.accept()
        await third.greet(4_000_000)
        assert (await third.expect("resume"))["resume"]["leases"] == [{"id": A, "attempts": 1}]
        assert pauses.asked == [FIRST_CEILING]


@pytest.mark.parametrize("frame", ["no JSON", "[]", '{"type": "empty"}'])
async def test_a_server_that_does_not_answer_the_hello_is_left(frame: str) -> None:
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        socket = await server.accept()
        await socket.expect("hello")
        await socket._connection.send(frame)
        assert await socket.closed() == 1000
        await server.accept()
        assert pauses.asked == [FIRST_CEILING]


async def test_a_server_that_never_answers_the_hello_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELLO_WITHIN", 0.05)
    pauses = Pauses()
    async with peer() as server, linked(server.url, pauses.outside()):
        socket = await server.accept()
        await socket.expect("hello")
        assert await socket.closed() == 1000
        await server.accept()
        assert pauses.asked == [FIRST_CEILING]


async def test_the_token_is_in_no_log_line_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("leaseway.websocket").setLevel(logging.DEBUG)
    async with peer() as server, linked(server.url, Pauses().outside(), CANARY):
        await conversation_with_one_break(server)
    ours = "\n".join(line.getMessage() for line in caplog.records if line.name != "websockets.server")
    assert "no connection to" in ours
    assert CANARY not in ours
    assert CANARY not in repr(Endpoint.of("ws://127.0.0.1/resize", "work", CANARY))


async def conversation_with_one_break(server: Peer) -> None:
    """A socket that is greeted and cut, and the next one."""
    socket = await server.accept()
    await socket.greet()
    socket.cut()
    await (await server.accept()).greet()


class Frail:
    """A socket that greets, and breaks when it is told to."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self._greeting = [b'{"type":"hello","maxMessageBytes":1048576}']

    async def send(self, data: bytes) -> None:
        """Nobody hears it."""

    async def receive(self) -> bytes:
        """The greeting, then nothing until it breaks."""
        if self._greeting:
            return self._greeting.pop()
        await self.broken.wait()
        raise SocketClosed(1006, "it broke")

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("steps", range(10))
async def test_a_cancel_counts_in_whatever_moment_a_socket_breaks(steps: int) -> None:
    socket = Frail()

    async def dialled(_endpoint: Endpoint, _max_bytes: int) -> Frail:
        return socket

    async def for_ever(_seconds: float) -> None:
        await asyncio.Event().wait()

    link = Link(
        Endpoint.of("ws://127.0.0.1/demo", "work", None),
        WorkerState("box-1", 1),
        lambda _events: None,
        Outside(dial=dialled, pause=for_ever),
    )
    running = asyncio.create_task(link.run())
    await link.opened.wait()
    socket.broken.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running], timeout=10)
    assert running.cancelled()
