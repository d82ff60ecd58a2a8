"""A socket is a thin loop around a pure session: frames in, commands to the engine, outcomes back, frames out.

Frames are taken as they come, whatever the writer does, and a dropped connection is noticed at once. One task writes.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import Final

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from leaseway_server.core.commands import Outcome
from leaseway_server.core.conversation import Conversation, Exchange
from leaseway_server.core.errors import Unauthorized
from leaseway_server.web.auth import Admitted
from leaseway_server.web.protocol import CLOSE_SECONDS, EXTENSION, SocketProtocol

BINARY: Final = 1003
FAULT: Final = 1011
RESTART: Final = 1012
MOST_UNANSWERED: Final = 4_096
"""While so many of a client's messages wait for an answer, or answers to be taken, no more are read. One that never
takes them answers no ping either, and is cut off."""

_log = logging.getLogger(__name__)


class Socket(ABC):
    """One open WebSocket on a queue, from the accepted handshake to its end."""

    def __init__(self, admitted: Admitted, session: Conversation, scope: Scope, receive: Receive, send: Send) -> None:
        self.served = admitted.served
        self.token_id = admitted.token_id
        self.session = session
        self._wire: SocketProtocol = scope["extensions"][EXTENSION]
        self._receive = receive
        self._send = send
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._held_back = False
        self._closing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serves the socket until it ends, however it ends."""
        writer = asyncio.create_task(self._write())
        self.served.sockets.add(self)
        try:
            self._wire.attach(self._take)
            while (await self._receive())["type"] != "websocket.disconnect":
                self._close_soon(BINARY, "messages are text frames")
        finally:
            self.served.sockets.discard(self)
            self.gone()
            writer.cancel()
            await asyncio.gather(writer, *([self._closing] if self._closing else []), return_exceptions=True)

    def expel(self) -> None:
        """Its token was revoked or has expired (PROTOCOL.md §2)."""
        self._close_soon(Unauthorized.close, Unauthorized.title)

    async def drain(self) -> None:
        """Sends what is still to be sent, and closes: the server restarts (PROTOCOL.md §6)."""
        await self._idle.wait()
        await self._close(RESTART, "the server restarts")

    def wake(self) -> None:
        """There is something to write."""
        self._idle.clear()
        self._wake.set()

    @abstractmethod
    def frames(self) -> list[bytes]:
        """What is to be sent now."""

    @abstractmethod
    def sent(self) -> None:
        """The last `frames` went out."""

    @abstractmethod
    def gone(self) -> None:
        """The socket ended."""

    def _take(self, text: bytes) -> None:
        """A text frame came. Once the socket closes nothing is taken any more."""
        if self._closing is not None:
            return
        try:
            for exchange in self.session.receive(text):
                assert exchange.command is not None
                self.served.engine.submit(exchange.command, partial(self._answered, exchange))
        except Exception:  # noqa: BLE001  A fault in one message ends its socket and no other.
            _log.exception("a socket failed", extra={"queue": self.served.queue.name})
            self._close_soon(FAULT, "the server failed at this message")
        if self.session.has_outgoing:
            self.wake()
        self._hold_back()

    def _answered(self, exchange: Exchange, outcome: Outcome) -> None:
        self.session.settle(exchange, outcome)
        self.wake()

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                frames = self.frames()
                if frames:
                    await self._wire.write(frames)
                    self.sent()
                self._read_on()
                if not self._wake.is_set():
                    self._idle.set()
        except ClientDisconnected:
            return  # The reader sees the end too, and does what is to be done.
        finally:
            self._idle.set()

    def _hold_back(self) -> None:
        if not self._held_back and self.session.backlog > MOST_UNANSWERED:
            self._held_back = True
            self._wire.transport.pause_reading()

    def _read_on(self) -> None:
        if self._held_back and self.session.backlog < MOST_UNANSWERED // 2 and not self._wire.transport.is_closing():
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
