"""A WebSocket for load: as little as a measurement needs, so that the server is its limit and not the load.

A library's client takes as much of a core for an item as the server does. The server then waits for it, does less in a
turn than under load, and seems to cost a third more. Nothing of Leaseway's protocol is known here.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import orjson

Hear: TypeAlias = Callable[[list[dict[str, Any]]], None]
"""Told the messages of one read, in order."""

_TEXT: Final = 0x1
_PING: Final = 0x9
_PONG: Final = 0xA
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_NO_MASK: Final = bytes(4)
"""A client masks (RFC 6455 §5.3); to a server, zeros are a mask as good as any, and cost the same."""


class Wire(asyncio.Protocol):
    """One open socket to a server on this machine. What it says is JSON texts in single frames."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the handshake is."""
        self._buffer = b""
        self._hear: Hear = lambda _messages: None
        self._transport: asyncio.WriteTransport

    @classmethod
    async def open(cls, url: str) -> "Wire":
        """To `ws://host:port/path`. Raises `ConnectionError` where the server does not take it."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: cls(parts.path or "/"), parts.hostname, parts.port)
        await wire.opened
        return wire

    def listen(self, hear: Hear) -> None:
        """From now on `hear` is told what comes."""
        self._hear = hear

    def send(self, text: bytes) -> None:
        """Sends a text. What is sent at one moment leaves in one write."""
        self._transport.write(_frame(_TEXT, text))

    async def ask(self, text: bytes) -> dict[str, Any]:
        """Sends a text and gives the first message that comes after it; nobody else is told it."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        before, self._hear = self._hear, lambda messages: answer.set_result(messages[0])
        self.send(text)
        try:
            return await answer
        finally:
            self._hear = before

    def close(self) -> None:
        """Cuts it."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Says the handshake."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by its class.
        self._transport.write(
            f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bGVhc2V3YXkncyBiZW5jaA==\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Takes the answer to the handshake, then frames."""
        self._buffer += data
        if not self.opened.done():
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            self._buffer = rest
            if not head.startswith(b"HTTP/1.1 101 "):
                self.opened.set_exception(ConnectionError(head.partition(b"\r\n")[0].decode(errors="replace")))
                return
            self.opened.set_result(None)
        if texts := self._texts():
            self._hear([orjson.loads(text) for text in texts])

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever still waits for the handshake is told."""
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("the server closed before the handshake"))

    def _texts(self) -> list[bytes]:
        """The texts that are there whole; pings are answered."""
        texts, data, at = [], self._buffer, 0
        while stop := _end(data, at):
            kind, payload = data[at] & 0xF, data[_payload(data, at) : stop]
            if kind == _TEXT:
                texts.append(payload)
            elif kind == _PING:
                self._transport.write(_frame(_PONG, payload))
            at = stop
        self._buffer = data[at:]
        return texts


def _frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((_FINAL | kind, _MASKED | size)) + _NO_MASK + payload
    assert size < 1 << 16
    return bytes((_FINAL | kind, _MASKED | 126)) + size.to_bytes(2, "big") + _NO_MASK + payload


def _payload(data: bytes, at: int) -> int:
    """Where the payload of the frame at `at` begins; a server masks nothing."""
    return at + {126: 4, 127: 10}.get(data[at + 1], 2)


def _end(data: bytes, at: int) -> int:
    """Where the frame at `at` ends; 0 where it is not all there."""
    if len(data) < at + 2 or len(data) < (payload := _payload(data, at)):
        return 0
    stop = payload + (data[at + 1] if payload == at + 2 else int.from_bytes(data[at + 2 : payload], "big"))
    return stop if len(data) >= stop else 0
