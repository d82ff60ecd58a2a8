"""The WebSocket protocol of uvicorn (sans-I/O `websockets`), with a shorter way for text frames, and an end for peers
that are gone or do not read.

The short way is the ASGI extension `leaseway.wire`: texts go to a callback as they come, all of one read at once,
instead of through a queue, a task and a stop of reading for each; and what is to be said at one moment goes out in one
write. Handshake, close and disconnect stay ASGI's.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from uvicorn._types import ASGIReceiveEvent
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame
from websockets.http11 import Request

from leaseway_server.web.frames import FrameCutter, ping_frame, text_frames
from leaseway_server.web.receipts import Receipts, Told

EXTENSION: Final = "leaseway.wire"
LATE_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
STOP_SECONDS: Final = 1.0
RECEIPT_SECONDS: Final = 0.1
"""A peer is asked for receipts at most so often: under load a pong stands for many writes."""
INVALID_UTF8: Final = 1007
TOO_MANY: Final = 1008
FRAGMENTS: Final = 1_024
"""A message may come in so many frames: of 1 KiB each at the usual limit."""

OnTexts: TypeAlias = Callable[[list[bytes]], None]


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._cutter = FrameCutter(self.conn)
        self._on_texts: OnTexts | None = None
        self._receipts = Receipts()
        self._rest: asyncio.TimerHandle | None = None
        self._served = False

    def data_received(self, data: bytes) -> None:
        """Bytes came. The handshake comes first and alone, in one piece: uvicorn has read it before."""
        if not self.handshake_initiated:
            self._shake_hands(data)
            return
        texts: list[bytes] = []
        for plain, piece in self._cutter.cut(data):
            if not plain:
                self._hand_over(texts)
                texts = []
                super().data_received(piece)
            elif piece.isascii() or self._is_utf8(piece):
                texts.append(piece)
            else:
                break
        self._hand_over(texts)

    def _hand_over(self, texts: list[bytes]) -> None:
        if texts and self._on_texts is not None and not self.close_sent:
            self._on_texts(texts)

    def _shake_hands(self, data: bytes) -> None:
        """A handshake that the library does not read to its end (too long) is answered all the same."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.handshake_initiated = True
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """The handshake; the application finds this connection in its scope."""
        super().handle_connect(event)
        if not self.close_sent:  # A refused handshake has no scope.
            self._served = True
            extensions = cast(dict[str, object], self.scope["extensions"])
            extensions[EXTENSION] = self

    def attach(self, on_texts: OnTexts) -> None:
        """From now on texts (valid UTF-8) are given to `on_texts`, those that came before first."""
        self._on_texts = on_texts
        self._cutter.plain = True
        queued: list[ASGIReceiveEvent] = []
        while not self.queue.empty():
            queued.append(self.queue.get_nowait())
        for event in queued:
            if event["type"] == "websocket.receive" and isinstance(text := event.get("text"), str):
                on_texts([text.encode()])
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
        if self._on_texts is None or self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self._is_utf8(data):
            self._on_texts([data])

    def _is_utf8(self, data: bytes) -> bool:
        """Whether it is; where not, the connection ends."""
        if data.isascii():
            return True
        try:
            data.decode()
        except UnicodeDecodeError:
            self.conn.fail(INVALID_UTF8, "invalid UTF-8")
            self.handle_parser_exception()
            return False
        return True

    async def write(self, messages: list[bytes]) -> None:
        """Sends text frames in one write, once the peer takes more. Raises `ClientDisconnected`."""
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(text_frames(messages))

    def when_received(self, told: Told) -> None:
        """Calls `told` once the peer has proved that it has what was written so far; never, where it does not."""
        self._receipts.want(told)
        self._ask_for_receipt()

    def _ask_for_receipt(self) -> None:
        if self._receipts.due and self._rest is None and not self.close_sent and not self.transport.is_closing():
            payload = os.urandom(8)  # Of another length than the keepalive's.
            self._receipts.asked(payload)
            self.transport.write(ping_frame(payload))
            self._rest = self.loop.call_later(RECEIPT_SECONDS, self._rested)

    def _rested(self) -> None:
        self._rest = None
        self._ask_for_receipt()

    def handle_pong(self, event: Frame) -> None:
        """An answer to the keepalive, or a receipt, or both."""
        super().handle_pong(event)
        for told in self._receipts.answered(bytes(event.data)):
            told()
        self._ask_for_receipt()

    def send_keepalive_ping(self) -> None:
        """Its pong is a receipt, too."""
        super().send_keepalive_ping()
        if self.pending_ping_payload is not None and not self.close_sent:
            self._receipts.asked(self.pending_ping_payload)

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
        self._served = False
        self._let_go()
        if not self.disconnected:
            self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._let_go()

    def _let_go(self) -> None:
        """Cuts the cycles in which this object stands once all is over: what is closed is freed at once, however large
        its last message was, and not when Python next looks for cycles."""
        if self.disconnected and not self._served:
            self._on_texts = None
            self._receipts.clear()
            if self._rest is not None:
                self._rest.cancel()
            self.conn.parser.close()
            if hasattr(self, "scope"):
                cast(dict[str, object], self.scope["extensions"]).pop(EXTENSION, None)
