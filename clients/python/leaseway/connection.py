"""A conversation that outlives its sockets: dial, greet, read, write, and dial again.

Owns the reconnecting and its backoff, and the order of what happens on one socket. What is said is the
session's business; how bytes travel is `transport.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Never, Protocol

from leaseway.address import check_token, parted
from leaseway.errors import AccessRefused, Forbidden, NoSuchQueue, Unauthorized
from leaseway.protocol import DEFAULT_MAX_BYTES, PASSING, E, Message, Session, Silent, decode, flatten, rejected

logger = logging.getLogger("leaseway")

#: Close codes after which no reconnect with the same token can help (PROTOCOL.md §6).
FINAL: dict[int, type[AccessRefused]] = {4401: Unauthorized, 4403: Forbidden, 4404: NoSuchQueue}
FIRST_CEILING = 0.5
CEILING = 30.0
#: The same while leases are held: back well within the server's `resume_grace` of 30 s (§6).
URGENT_CEILING = 5.0
#: A connection that lasted this long, seconds, was a good one: the next failure is a first failure.
STEADY = 30.0
HELLO_WITHIN = 10.0
#: The close code of a socket that ended without one: it means nothing to people.
NOT_TOLD = 1006


class SocketClosed(Exception):
    """A socket ended or never came about. `code` is its close code, or 1006 where none was told but the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason if code == NOT_TOLD and reason else f"{code} {reason}".strip())
        self.code = code


class Socket(Protocol):
    """One WebSocket. Whatever ends it is a `SocketClosed`."""

    async def send(self, data: bytes) -> None:
        """Sends one text frame."""

    async def receive(self) -> bytes:
        """The next text frame."""

    async def close(self) -> None:
        """Closes with 1000; does nothing on a closed one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect, and with which token; the token is in no repr."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, socket: str, token: str | None) -> Endpoint:
        """`ws(s)://` or `http(s)://` host/queue, with the socket's name appended. Raises `ValueError`."""
        parts = parted(url)
        check_token(token)
        scheme = {"http": "ws", "https": "wss"}[parts.scheme]
        return cls(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/{socket}", token)


async def dial(endpoint: Endpoint, max_bytes: int) -> Socket:
    """Opens a WebSocket. The library for it is loaded here, so that an import of ours stays quick."""
    from leaseway import transport

    return await transport.dial(endpoint, max_bytes)


async def pause(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Outside:
    """What a connection needs of the world: sockets, time and chance."""

    dial: Callable[[Endpoint, int], Awaitable[Socket]] = dial
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = pause
    #: Uniform in [0, 1).
    chance: Callable[[], float] = random.random


class Link(Generic[E]):
    """Keeps one session connected for as long as `run` runs."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: Session[E],
        deliver: Callable[[list[E]], None],
        outside: Outside,
    ) -> None:
        self.endpoint = endpoint
        self.opened = asyncio.Event()
        #: Why there was no connection, the last time.
        self.trouble: SocketClosed | None = None
        self._session = session
        self._deliver = deliver
        self._outside = outside
        self._wake = asyncio.Event()
        self._max_bytes = DEFAULT_MAX_BYTES

    async def run(self) -> Never:
        """Connects and reconnects for ever. Raises what a reconnect cannot mend; cancel it to close."""
        failures = 0
        while True:
            began = self._outside.clock()
            try:
                await self._converse()
            except SocketClosed as closed:
                if refused := FINAL.get(closed.code):
                    logger.critical("not let in at %s (%s)", self.endpoint.url, closed)
                    raise refused(f"{self.endpoint.url}: {closed}") from None
                failures = 1 if self._outside.clock() - began >= STEADY else failures + 1
                await self._back_off(failures, closed)

    def wake(self) -> None:
        """Says that the session has something to send."""
        self._wake.set()

    async def _back_off(self, failures: int, closed: SocketClosed) -> None:
        self.trouble = closed
        delay = reconnect_delay(failures, self._outside.chance(), urgent=self._session.urgent)
        logger.warning("no connection to %s (%s); again in %.1f s", self.endpoint.url, closed, delay)
        await self._outside.pause(delay)

    async def _converse(self) -> None:
        """One socket, from dialling to its end; returns where it should be dialled anew at once."""
        socket = await self._outside.dial(self.endpoint, self._max_bytes)
        try:
            hello = await _greet(socket, self._session.hello())
            ready_for, self._max_bytes = self._max_bytes, max(self._max_bytes, hello["maxMessageBytes"])
            if ready_for == self._max_bytes:
                await self._talk(socket, hello)
        finally:
            await socket.close()

    async def _talk(self, socket: Socket, hello: Message) -> None:
        self._session.opened(hello, self._outside.clock())
        self.opened.set()
        logger.info("connected to %s", self.endpoint.url)
        try:
            await _first_of(self._read(socket), self._write(socket))
        finally:
            self._session.lost()
            self._tell()

    async def _read(self, socket: Socket) -> Never:
        while True:
            message = await _hear(socket)
            self._session.received(message, self._outside.clock())
            self._tell()
            self._wake.set()

    async def _write(self, socket: Socket) -> Never:
        while True:
            self._wake.clear()
            self._tick()
            self._tell()
            while (data := self._session.next_message()) is not None:
                await socket.send(data)
            until = self._session.deadline - self._outside.clock()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until if until < math.inf else None):
                    await self._wake.wait()

    def _tick(self) -> None:
        try:
            self._session.tick(self._outside.clock())
        except Silent as silence:
            raise SocketClosed(1006, str(silence)) from None

    def _tell(self) -> None:
        self._deliver(self._session.take_events())


async def until(event: asyncio.Event, connection: asyncio.Task[Never], timeout: float | None = None) -> None:
    """Waits for the event or the time, seconds. Raises what ended the connection for good."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting, connection}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if connection.done():
        connection.result()


async def _first_of(*ways: Coroutine[Any, Any, Never]) -> None:
    """Runs them side by side until the first has failed, and raises that.

    No `TaskGroup`: before Python 3.13 it loses a cancel that comes as one of its tasks fails.
    """
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    next(task for task in tasks if task in ended).result()


def reconnect_delay(failures: int, chance: float, *, urgent: bool) -> float:
    """Full jitter: anything from 0 to a ceiling that doubles with each failure, seconds.

    So that 10,000 clients of a server that restarts do not come back at one moment. `chance` is in [0, 1).
    """
    ceiling = URGENT_CEILING if urgent else CEILING
    return chance * min(ceiling, FIRST_CEILING * 2.0 ** min(failures - 1, 10))


async def _greet(socket: Socket, hello: bytes) -> Message:
    """Says hello and waits for the answer: only then is a connection one (§2: a refusal closes it before)."""
    try:
        async with asyncio.timeout(HELLO_WITHIN):
            await socket.send(hello)
            answer = flatten(await _hear(socket))[0]
    except TimeoutError:
        raise SocketClosed(1006, f"no hello within {HELLO_WITHIN:.0f} s") from None
    if answer.get("type") == "error" and answer.get("code") not in PASSING:
        raise rejected(answer)  # It would be no better the next time.
    if answer.get("type") != "hello":
        raise SocketClosed(1002, f"an answer of type {answer.get('type')!r} to hello")
    return answer


async def _hear(socket: Socket) -> Message:
    data = await socket.receive()
    try:
        return decode(data)
    except ValueError:
        raise SocketClosed(1007, "a message of the server cannot be read") from None
