"""The WebSocket protocol of uvicorn (sans-I/O `websockets`), with a shorter way for text frames, and an end for peers
that are gone or do not read.

The short way is the ASGI extension `leaseway.wire`: text frames go to a callback as they come, instead of through a
queue, a task and a stop of reading for each; and what is to be said at one moment goes out in one write. Handshake,
close and disconnect stay ASGI's.
"""

from collections.abc import Callable, Sequence
from typing import Final, cast

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request

EXTENSION: Final = "leaseway.wire"
LATE_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
STOP_SECONDS: Final = 1.0
INVALID_UTF8: Final = 1007
TOO_MANY: Final = 1008
FRAGMENTS: Final = 1_024
"""A message may come in so many frames: of 1 KiB each at the usual limit."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    _on_text: Callable[[bytes], None] | None = None

    def data_received(self, data: bytes) -> None:
        """Bytes came. A handshake that the library does not read to its end (too long) is answered all the same."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.handshake_initiated = True
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """The handshake; the application finds this connection in its scope."""
        super().handle_connect(event)
        if not self.close_sent:  # A refused handshake has no scope.
            extensions = cast(dict[str, object], self.scope["extensions"])
            extensions[EXTENSION] = self

    def attach(self, on_text: Callable[[bytes], None]) -> None:
        """From now on each text frame (valid UTF-8) is given to `on_text`; those that came before are given first."""
        self._on_text = on_text
        queued: list[ASGIReceiveEvent] = []
        while not self.queue.empty():
            queued.append(self.queue.get_nowait())
        for event in queued:
            if event["type"] == "websocket.receive" and isinstance(text := event.get("text"), str):
                on_text(text.encode())
            else:
                self.queue.put_nowait(event)
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        """A further fragment. Their number is bounded too: a million of one byte, or any of none, pass by the size."""
        if self.close_sent:
            return
        if len(self.frames) == FRAGMENTS:
            self.conn.fail(TOO_MANY, f"a message in more than {FRAGMENTS} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Pongs for a peer that does not read them are dropped, or its pings would fill our memory."""
        pongs = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pongs)

    def send_receive_event_to_app(self) -> None:
        """A whole message came."""
        if self._on_text is None or self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if not data.isascii() and not _is_utf8(data):
            self.conn.fail(INVALID_UTF8, "invalid UTF-8")
            self.handle_parser_exception()
            return
        self._on_text(data)

    async def write(self, messages: Sequence[bytes]) -> None:
        """Sends text frames in one write, once the peer takes more. Raises `ClientDisconnected`."""
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(b"".join([Frame(Opcode.TEXT, message).serialize(mask=False) for message in messages]))

    def keepalive_timeout(self) -> None:
        """No pong came. The connection is cut, not closed: a close would wait for the peer to read what is buffered."""
        assert self.ping_timeout is not None
        if self.loop.time() - self.ping_sent_at > self.ping_timeout + LATE_SECONDS:
            # This process itself stood still, and the pong may wait in its own receive buffer: ask once more
            # (PROTOCOL.md §7.3: live sockets are asked first).
            self.pong_timer = None
            self.send_keepalive_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()

    def shutdown(self) -> None:
        """The server stops; whoever does not take the close is cut off."""
        super().shutdown()
        self.loop.call_later(STOP_SECONDS, self.transport.abort)

    async def run_asgi(self) -> None:
        """Runs the application; a peer that does not take the end is cut off after a while."""
        await super().run_asgi()
        if not self.disconnected:
            self.loop.call_later(CLOSE_SECONDS, self.transport.abort)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
