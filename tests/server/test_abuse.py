"""What no client can do to the server, or to another client (PROTOCOL.md §7.4; `faults.md`, Resources).

All abuses of a group are done twice to a real process: the first time warms it. After each of the second time, when the
abuser is gone, the process has within 10 % the memory that it had before. Meanwhile a bystander's items go all their
way.
"""

import asyncio
import json
import os
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from support.matrix import Caller, Line, bearer
from support.process import ServerProcess, server_process
from support.raw import PING, TEXT, RawSocket, raw_socket
from support.server import OPEN_ACCESS, open_queue

MORE: Final = 0.10
"""So much more memory than before is taken for none."""
SHARE: Final = 1 if os.environ.get("LEASEWAY_ABUSE") == "whole" else 4
"""The suite does a part of what costs much time; `make campaign-abuse` does all, in the numbers of `faults.md`."""
REPEATS: Final = 3
ROUNDS: Final = 5
"""So many of the bystander's items go all their way while an abuse stands."""
SETTLE_SECONDS: Final = 5
PATIENCE: Final = 60.0
"""Seconds that the bystander has for each step: others may be busy with the rest of the tests."""
TOML: Final = f"""
[server]
ping_interval = "2m"
[server.limits]
connections_per_address = 20_000
failed_tokens_per_minute = 30
request_timeout = "4s"
{open_queue()}
[queues.full]
access = {OPEN_ACCESS}
max_pending = 100
[queues.members]
"""


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Bystander:
    """Somebody who works with the queue `demo` all the time: a monitor and a worker."""

    def __init__(self, monitor: RawSocket, worker: RawSocket) -> None:
        self._monitor = monitor
        self._worker = worker

    async def work(self, items: int = 1) -> None:
        """So many items are posted, claimed, finished, and seen finished."""
        for _ in range(items):
            self._monitor.say({"post": {"item": {"by": "stander"}, "subscribe": True}})
            self._worker.say({"claim": {"criteria": {"by": "stander"}, "waitMs": 60_000}})
            item = await self._worker.hear()
            self._worker.say({"result": {"id": item["id"], "value": 1}})
            assert (ack := await self._worker.hear()).get("accepted"), ack
            while (await self._monitor.hear()).get("status") != "finished":
                pass


@asynccontextmanager
async def bystander(server: ServerProcess) -> AsyncIterator[Bystander]:
    headers = bearer(server.add_tokens({"stander": []})["stander"]).named_headers
    async with (
        raw_socket(f"{server.ws_url}/demo/monitor", headers, patience=PATIENCE) as monitor,
        raw_socket(f"{server.ws_url}/demo/work", headers, patience=PATIENCE) as worker,
    ):
        yield Bystander(monitor, worker)


class Abuser:
    """One abuse, once. What it opened is cut when it leaves; the bystander works while it stands."""

    def __init__(self, server: ServerProcess, other: Bystander, stack: AsyncExitStack) -> None:
        self.server = server
        self.other = other
        self._stack = stack

    async def socket(self, path: str, receive_buffer: int | None = None) -> RawSocket:
        """A further socket."""
        return await self._stack.enter_async_context(
            raw_socket(self.server.ws_url + path, receive_buffer=receive_buffer)
        )

    async def sockets(self, path: str, number: int) -> list[RawSocket]:
        """Many, some at a time."""
        found: list[RawSocket] = []
        for _ in range(0, number, 50):
            found += await asyncio.gather(*(self.socket(path) for _ in range(50)))
        return found

    async def line(self) -> Line:
        """A connection for HTTP."""
        return await self._stack.enter_async_context(Line(self.server.base_url))

    async def connection(self, sent: bytes) -> asyncio.StreamReader:
        """A connection on which this was said, and no more."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.server.base_url.rpartition(":")[2]))
        self._stack.callback(lambda: writer.transport.abort())  # This keeps the writer, too.
        writer.write(sent)
        return reader


# ── The abuses ──


async def bad_messages(by: Abuser) -> None:
    """Each socket is closed after some."""
    for text in (b"no JSON", b'{"no": "verb"}', b'{"claim": 1}', b'{"result": {"id": 1}}'):
        socket = await by.socket("/demo/work")
        for _ in range(500):
            socket.frame(TEXT, text)
        await by.other.work(ROUNDS)
        assert await socket.closed() == 1008


async def pings(by: Abuser) -> None:
    """20,000 of the largest, whose pongs nobody reads."""
    socket = await by.socket("/demo/monitor", receive_buffer=4_096)
    for _ in range(200):
        for _ in range(100):
            socket.frame(PING, b"x" * 125)
        with suppress(ConnectionError, TimeoutError):  # Held back, or cut.
            async with asyncio.timeout(0.01):
                await socket.writer.drain()
    await by.other.work(ROUNDS)


async def fragments(by: Abuser) -> None:
    """A message that has no end."""
    socket = await by.socket("/demo/work")
    socket.frame(TEXT, b"[", fin=False)
    for _ in range(5_000):
        socket.frame(0, b"", fin=False)
    await by.other.work(ROUNDS)
    assert await socket.closed() in (1008, 1006)  # What was not read any more may cost us the close frame.


async def connections(by: Abuser) -> None:
    """1,000, or a part, that come and go: with a handshake, with half of one, with a request, with nothing."""
    for number in range(250 // SHARE):
        for sent in (b"", b"GET /demo/work HTTP/1.1\r\nUpgrade:", b"GET /_health HTTP/1.1\r\nHost: x\r\n\r\n"):
            await by.connection(sent)
        (await by.socket("/demo/work" if number % 2 else "/demo/monitor")).cut()
        if number % 50 == 0:
            await by.other.work()
    await by.other.work(ROUNDS)


async def tokens(by: Abuser) -> None:
    """Guessing: 1,000 tokens from as many addresses, and then from one, which is told to wait; others are not."""
    line = await by.line()
    for number in range(1_000):
        address = f"X-Forwarded-For: 2001:db8::{number:x}"
        guess = Caller(headers=(*bearer(secrets.token_urlsafe(32)).headers, address))
        assert (await line.ask("POST", "/members/claim", guess, {})).status == 401
    answers = [(await line.ask("POST", "/members/claim", bearer("guess"), {})).status for _ in range(60)]
    assert answers[-1] == 429
    assert answers.count(401) <= 40  # Some are forgiven meanwhile.
    await by.other.work(ROUNDS)


async def subscriptions(by: Abuser) -> None:
    """To 1,000,000 ids, or a part: 10,000 are looked up, the others are past the limit. None of them costs memory."""
    socket = await by.socket("/demo/monitor")
    for message in many_ids():
        socket.frame(TEXT, message)
        await socket.writer.drain()
    socket.say({"subscribe": [secrets.token_hex(8) for _ in range(10_001)]})
    socket.say({"hello": {}})
    while (message := await socket.hear())["type"] == "error":
        assert message["code"] == "limit"
    socket.say({"post": {"item": {"by": "abuser"}, "subscribe": True}})
    assert (await socket.hear())["type"] == "posted"
    await by.other.work(ROUNDS)


@cache
def many_ids() -> list[bytes]:
    """10,000 in each message."""
    return [
        json.dumps({"subscribe": [secrets.token_hex(8) for _ in range(10_000)]}).encode() for _ in range(100 // SHARE)
    ]


async def waiting_claims(by: Abuser) -> None:
    """10,000, and one more."""
    socket = await by.socket("/demo/work")
    claims = [{"claim": {"criteria": {"by": f"abuser {number}"}, "waitMs": 600_000}} for number in range(10_000)]
    for number in range(0, 10_000, 1_000):
        socket.say({"batch": claims[number : number + 1_000]})
    await by.other.work(ROUNDS)
    socket.say({"claim": {"waitMs": 600_000}})
    assert (await socket.hear())["code"] == "limit"


async def stalled_monitor(by: Abuser) -> None:
    """20,000 changes of what it watches, or a part."""
    stalled = await by.socket("/demo/monitor", receive_buffer=4_096)
    worker = await by.socket("/demo/work")
    monitor = await by.socket("/demo/monitor")
    ids = []
    for number in range(20):
        monitor.say({"post": {"item": {"by": "abuser", "n": number}}})
        ids.append((await monitor.hear())["id"])
    worker.say({"hello": {"batch": True}})
    worker.say({"claim": {"criteria": {"by": "abuser"}, "count": 20}})
    await worker.hear_all(21)
    stalled.say({"subscribe": ids})
    for step in range(1_000 // SHARE):
        value = {"step": step, "filling": "x" * 200}
        worker.say({"batch": [{"progress": {"id": item_id, "value": value}} for item_id in ids]})
        await worker.hear_all(20)
    await by.other.work(ROUNDS)
    worker.say({"batch": [{"result": {"id": item_id, "value": 1}} for item_id in ids]})
    await worker.hear_all(20)


async def large_messages(by: Abuser) -> None:
    """As large as they may be, on ten sockets and over HTTP; and larger."""
    largest = json.dumps({"result": {"id": "0123456789abcdef", "value": "x" * 900_000}}).encode()
    line = await by.line()
    for socket in [await by.socket("/demo/work") for _ in range(10)]:
        for _ in range(5):
            socket.frame(TEXT, largest)
            assert (await socket.hear())["reason"] == "unknown"
        socket.writer.write(struct.pack("!BBQ4x", 0x81, 0xFF, 2_000_000))  # The head of such a frame.
        answer = await line.ask("POST", "/demo/result", Caller(), {"id": "0123456789abcdef", "value": "x" * 900_000})
        assert answer.status == 200
        assert await socket.closed() == 1009
    await by.other.work(ROUNDS)


async def slow_requests(by: Abuser) -> None:
    """Heads and bodies that do not come: each connection is ended in time."""
    head = b"POST /demo/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = (b"", b"G", head, head + b"Content-Length: 1000\r\n\r\n", head + b"Content-Length: 1000\r\n\r\n{")
    readers = [await by.connection(sent) for sent in begun for _ in range(50)]
    await by.other.work(ROUNDS)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(reader.read() for reader in readers))
    assert {answer.partition(b"\r\n")[0] for answer in answers} <= {b"HTTP/1.1 408 Request Timeout", b""}


async def posts_past_the_end(by: Abuser) -> None:
    """300 into a queue that takes 100; when some are claimed there is place for as many."""
    line = await by.line()
    answers = [(await line.ask("POST", "/full/items", Caller(), {"item": 1})).status for _ in range(300)]
    assert answers == [201] * 100 + [429] * 200
    await by.other.work(ROUNDS)
    items = (await line.ask("POST", "/full/claim", Caller(), {"count": 100})).json
    for item in items:
        report = {"id": item["id"], "attempts": item["attempts"], "value": 1}
        assert (await line.ask("POST", "/full/result", Caller(), report)).json["accepted"]


async def idle_sockets(by: Abuser) -> None:
    """5,000, or a part."""
    await by.sockets("/demo/monitor", 2_500 // SHARE)
    await by.sockets("/demo/work", 2_500 // SHARE)
    await by.other.work(ROUNDS)


Abuse = Callable[[Abuser], Awaitable[None]]
ABUSES: Final[Mapping[str, Sequence[Abuse]]] = {
    "of many": (bad_messages, pings, fragments, connections, tokens, slow_requests, posts_past_the_end),
    "of much": (subscriptions, waiting_claims, stalled_monitor, large_messages),
    "of sockets": (idle_sockets,),  # By itself: a process that once had so much would hide what the others cost.
}
"""Each group has a server of its own: three tests, of which others can be run beside one."""


@pytest.mark.protocol("7.9")
@pytest.mark.timeout(300)  # Ten seconds on two quiet cores; others may be busy with the rest of the tests.
@pytest.mark.parametrize("abuses", ABUSES.values(), ids=ABUSES)
async def test_no_abuse_costs_memory_that_is_not_given_back(
    abuses: Sequence[Abuse], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report_line: Callable[..., None]
) -> None:
    monkeypatch.delenv(
        "COVERAGE_PROCESS_START", raising=False
    )  # What is measured is the server, and nothing beside it.
    async with server_process(tmp_path, TOML) as server, bystander(server) as other:
        for abuse in abuses:
            await once(abuse, server, other)
        for abuse in abuses:
            report_line(f"memory, {abuse.__name__}", await costs_nothing(abuse, server, other))
        assert (await server.stop()).status == 0
        assert b"Traceback" not in server.output


async def costs_nothing(abuse: Abuse, server: ServerProcess, other: Bystander) -> str:
    """Does it once more, or where that was not warm enough up to `REPEATS` times: what is lost each time shows then."""
    figures = []
    for _ in range(REPEATS):
        before = resident_bytes(server.pid)
        await once(abuse, server, other)
        after = await settled(server, other, before)
        figures.append(f"{before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after")
        if after <= before * (1 + MORE):
            return figures[-1]
    raise AssertionError(f"{abuse.__name__}: {figures}")


async def once(abuse: Abuse, server: ServerProcess, other: Bystander) -> None:
    async with AsyncExitStack() as stack:
        await abuse(Abuser(server, other, stack))
    await other.work(ROUNDS)


async def settled(server: ServerProcess, other: Bystander, before: int) -> int:
    """The memory, once it is no more than before, or after some patience as it is.

    What hangs in cycles is given back when Python next looks for those: after some more traffic.
    """
    clock = asyncio.get_running_loop().time
    ends = clock() + SETTLE_SECONDS
    while (after := resident_bytes(server.pid)) > before * (1 + MORE) and clock() < ends:
        await other.work()
        async with raw_socket(f"{server.ws_url}/demo/monitor"):
            pass
    return after
