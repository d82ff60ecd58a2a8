"""A socket is a thin loop around a pure session: frames in, commands to the engine, outcomes back, frames out.

Frames are taken as they come, whatever the writer does, and a dropped connection is noticed at once. One task writes.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from contextvars import copy_context
from functools import partial
from typing import ClassVar, Final

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from leaseway_server.core.access import Right
from leaseway_server.core.commands import Outcome
from leaseway_server.core.conversation import Conversation, Exchange
from leaseway_server.core.limits import Meter
from leaseway_server.core.queue import Queue
from leaseway_server.web.auth import Admitted
from leaseway_server.web.meters import Door, Talk
from leaseway_server.web.protocol import CLOSE_SECONDS, EXTENSION, SocketProtocol
from leaseway_server.web.site import RESTART, Site

BINARY: Final = 1003
FAULT: Final = 1011
TOO_MUCH: Final = 1008
TOO_SLOW: Final = 1013
MOST_BYTES: Final = 256 * 1024 * 1024
"""What may wait in memory for a client to take it."""
MOST_UNANSWERED: Final = 4_096
MOST_UNANSWERED_BYTES: Final = 4 * 1024 * 1024
"""While so many of a client's messages wait for an answer, or answers to be taken, no more are read. One that never
takes them answers no ping either, and is cut off."""

_log = logging.getLogger(__name__)


class Socket(ABC):
    """One open WebSocket on a queue, from the accepted handshake to its end.

    `kind` names it in the log, `right` is the one that it needs.
    """

    kind: ClassVar[Door]
    right: ClassVar[Right]

    def __init__(
        self, site: Site, admitted: Admitted, session: Conversation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.admitted = admitted
        self.served = admitted.served
        self.session = session
        self._clock = site.clock
        self.connected_at = self._clock.now()
        self._traffic = site.traffic
        self._meter = Meter(site.limits)
        self._patience = site.limits.request_timeout / 1000
        self._wire: SocketProtocol = scope["extensions"][EXTENSION]
        self._receive = receive
        self._send = send
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._held_back = False
        self._sent = 0
        self._closing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serves the socket until it ends, however it ends."""
        writer = asyncio.create_task(self._write())
        self.served.sockets.add(self)
        code = None
        _log.info("a socket opened", extra={"event": "socket.opened", **self._said, "address": self.admitted.address})
        try:
            # Frames come in the transport's context; what is logged of them belongs to this connection.
            context = copy_context()
            self._wire.attach(lambda texts: context.run(self._take, texts))
            while (event := await self._receive())["type"] != "websocket.disconnect":
                self._close_soon(BINARY, "messages are text frames")
            code = event.get("code")
        finally:
            self.served.sockets.discard(self)
            self.gone()
            said = {
                "code": code,
                "received": self.session.heard,
                "sent": self._sent,
                "ms": self._clock.now() - self.connected_at,
            }
            _log.info("a socket closed", extra={"event": "socket.closed", **self._said, **said})
            self._traffic.add(self.served.queue.name, self.kind, self.talk)
            self._traffic.close(self.kind, code)
            writer.cancel()
            await asyncio.gather(writer, *([self._closing] if self._closing else []), return_exceptions=True)

    @property
    def _said(self) -> dict[str, str | None]:
        """What each of its lines in the log says."""
        admitted = self.admitted
        names = {"kind": self.kind, "queue": self.served.queue.name}
        return {**names, "user": admitted.user or None, "token_id": admitted.token_id or None}

    @property
    def talk(self) -> Talk:
        """What passed through it so far."""
        session = self.session
        return Talk(session.heard, self._sent, session.weight(), session.refused)

    @property
    def admission(self) -> tuple[str, frozenset[Right]]:
        """The id of its token ("" for none), and the rights that it was admitted with."""
        return self.admitted.token_id, self.admitted.rights

    def expel(self, code: int, reason: str) -> None:
        """It may not stay as it is: its token ended (PROTOCOL.md §2), or its rights are others now."""
        self._close_soon(code, reason)

    def reconfigure(self, queue: Queue) -> None:
        """Its queue is configured so from now on."""
        self.session.queue = queue

    async def drain(self) -> None:
        """Sends what is still to be sent, and closes: the server restarts (PROTOCOL.md §6)."""
        await self._idle.wait()
        await self._close(RESTART, "the server restarts")

    def wake(self) -> None:
        """There is something to write."""
        if not self._wake.is_set():
            self._idle.clear()
            self._wake.set()

    @abstractmethod
    def frames(self) -> list[bytes]:
        """What is to be sent now."""

    def due(self) -> int:
        """When there is something to write though nobody wakes it, ms, as `Clock.steady`; 0 is never."""
        return 0

    @abstractmethod
    def sent(self) -> None:
        """The last `frames`, if any, went out."""

    @abstractmethod
    def gone(self) -> None:
        """The socket ended."""

    def _take(self, texts: list[bytes]) -> None:
        """Texts came. Once the socket closes nothing is taken any more."""
        session = self.session
        heard, bad, size = session.heard, session.bad, 0
        for text in texts:
            if self._closing is not None:
                return
            size += len(text)
            try:
                for exchange in session.receive(text):
                    self.submit(exchange)
            except Exception:  # noqa: BLE001  A fault in one message ends its socket and no other.
                _log.exception("a socket failed", extra={"event": "socket.failed", **self._said})
                self._close_soon(FAULT, "the server failed at this message")
        if session.has_outgoing:
            self.wake()
        self._hold_back()
        passed = self._meter.passed(session.heard - heard, size, session.bad - bad, self._clock.steady())
        if passed:
            self._close_soon(TOO_MUCH, passed)

    def submit(self, exchange: Exchange) -> None:
        """Has the engine do what was said."""
        assert exchange.command is not None
        self.served.engine.submit(exchange.command, partial(self._answered, exchange))

    def weigh(self) -> None:
        """Closes where more waits to be taken than a socket may cost."""
        if self.session.weight() > MOST_BYTES:
            self._close_soon(TOO_SLOW, "what is sent is not read")

    def _answered(self, exchange: Exchange, outcome: Outcome) -> None:
        self.session.settle(exchange, outcome)
        self.wake()
        self.weigh()

    async def _write(self) -> None:
        try:
            while True:
                await self._clock.wait(self._wake, self.due())
                self._wake.clear()
                frames = self.frames()
                if frames:
                    async with asyncio.timeout(self._patience):
                        await self._wire.write(frames)
                    self._sent += len(frames)
                self.sent()
                self._read_on()
                if not self._wake.is_set():
                    self._idle.set()
        except ClientDisconnected:
            return  # The reader sees the end too, and does what is to be done.
        except TimeoutError:
            self._close_soon(TOO_SLOW, "what is sent is not read")
        finally:
            self._idle.set()

    def _hold_back(self) -> None:
        session = self.session
        if not self._held_back and (session.backlog > MOST_UNANSWERED or session.unanswered > MOST_UNANSWERED_BYTES):
            self._held_back = True
            self._wire.transport.pause_reading()

    def _read_on(self) -> None:
        session = self.session
        if not self._held_back or self._wire.transport.is_closing():
            return
        if session.backlog < MOST_UNANSWERED // 2 and session.unanswered <= MOST_UNANSWERED_BYTES // 2:
            self._held_back = False
            self._wire.transport.resume_reading()

    def _close_soon(self, code: int, reason: str) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code, reason))

    async def _close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:
            self._wire.transport.abort()  # It takes nothing any more, not even the close.
        except (ClientDisconnected, RuntimeError):
            return  # The client, or another reason to close, was quicker.
