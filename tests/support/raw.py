"""A WebSocket client of bare frames: it can say what no decent library would, and can be silent, deaf or gone.

Owns bytes and nothing of Leaseway. Each wait ends with an error after `PATIENCE`: a test fails instead of hanging.
"""

import asyncio
import base64
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

CONT: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
PATIENCE: Final = 10.0
"""Seconds that a peer may let us wait for a frame."""
_KEY: Final = base64.b64encode(bytes(16)).decode()


@dataclass(frozen=True, slots=True)
class RawFrame:
    """A frame as it came."""

    opcode: int
    data: bytes
    fin: bool = True

    @property
    def close_code(self) -> int:
        """What a close frame says; 1005 where it says nothing."""
        return int(struct.unpack("!H", self.data[:2])[0]) if len(self.data) >= 2 else 1005


class RawSocket:
    """One connection, past the handshake. No close is answered by itself, and a ping only by `hear`.

    What nobody asks for with `next` or `hear` is left in the buffers between us: a socket that is not asked is deaf.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float = PATIENCE) -> None:
        self.reader = reader
        self.writer = writer
        self._patience = patience

    def frame(self, opcode: int, data: bytes = b"", *, fin: bool = True, mask: bool = True, bits: int = 0) -> None:
        """Says one frame. `bits` are the three reserved ones, as a number from 0 to 7."""
        head = bytes([fin << 7 | bits << 4 | opcode])
        size = len(data)
        if size < 126:
            head += bytes([mask << 7 | size])
        elif size < 65_536:
            head += struct.pack("!BH", mask << 7 | 126, size)
        else:
            head += struct.pack("!BQ", mask << 7 | 127, size)
        key = os.urandom(4) if mask else b""
        self.writer.write(head + key + (_masked(data, key) if mask else data))

    def say(self, message: Any) -> None:
        """Says a message as JSON in a text frame."""
        self.frame(TEXT, json.dumps(message).encode())

    async def next(self) -> RawFrame:
        """The next frame. `IncompleteReadError` where the connection ended instead."""
        async with asyncio.timeout(self._patience):
            first, second = await self.reader.readexactly(2)
            size = second & 127
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            return RawFrame(first & 15, await self.reader.readexactly(size), fin=bool(first & 128))

    async def hear(self) -> Any:
        """The next message; pings before it are answered, pongs passed over."""
        while (frame := await self.next()).opcode in (PING, PONG):
            if frame.opcode == PING:
                self.frame(PONG, frame.data)
        assert frame.opcode == TEXT, frame
        return json.loads(frame.data)

    async def hear_all(self, number: int) -> list[Any]:
        """The next messages, so many or a few more where they come in batches."""
        messages: list[Any] = []
        while len(messages) < number:
            message = await self.hear()
            messages += message["messages"] if message["type"] == "batch" else [message]
        return messages

    async def ask(self, message: Any) -> Any:
        """Says a message and gives the next that comes."""
        self.say(message)
        return await self.hear()

    async def ping(self) -> bytes:
        """What the next ping says; nothing but pings is expected."""
        frame = await self.next()
        assert frame.opcode == PING, frame
        return frame.data

    async def answers_ping(self) -> None:
        """The next frame is a ping, and is answered; by now the peer has read the answer."""
        self.frame(PONG, await self.ping())
        self.frame(PING, b"read")
        frame = await self.next()
        assert (frame.opcode, frame.data) == (PONG, b"read"), frame

    async def closed(self) -> int:
        """Reads to the end, says goodbye too, and gives the close code; 1006 where there was no close frame."""
        code = 1006
        try:
            while True:
                frame = await self.next()
                if frame.opcode == CLOSE:
                    code = frame.close_code
                    self.frame(CLOSE, frame.data)
        except (asyncio.IncompleteReadError, ConnectionError):
            return code

    def cut(self) -> None:
        """Ends the connection without a word."""
        self.writer.transport.abort()


def _masked(data: bytes, key: bytes) -> bytes:
    whole = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(whole)).to_bytes(len(data))


@asynccontextmanager
async def raw_socket(
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    receive_buffer: int | None = None,
    patience: float = PATIENCE,
) -> AsyncIterator[RawSocket]:
    """A connection to `ws://…`; it is cut at the end. A small `receive_buffer` (bytes) is full sooner.

    `patience`: seconds that a frame may take to come.
    """
    reader, writer = await _connect(url, receive_buffer)
    try:
        answer = await handshake(reader, writer, url, headers or {})
        assert answer.startswith("HTTP/1.1 101 "), answer
        yield RawSocket(reader, writer, patience)
    finally:
        writer.transport.abort()


async def refused_handshake(url: str, headers: Mapping[str, str]) -> str:
    """The head of the answer to a handshake with these headers, which come in place of the usual ones."""
    reader, writer = await _connect(url, None)
    try:
        return await handshake(reader, writer, url, headers)
    finally:
        writer.transport.abort()


async def handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str, headers: Mapping[str, str]
) -> str:
    """Asks for the upgrade, and gives the head of the answer."""
    parts = urlsplit(url)
    usual = {
        "Host": parts.netloc,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": _KEY,
        "Sec-WebSocket-Version": "13",
    }
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (usual | dict(headers)).items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(PATIENCE):
        return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")


async def _connect(url: str, receive_buffer: int | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    # The protocol is named: asyncio turns Nagle's delay off, 40 ms for two frames, only where a socket says it is TCP.
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (parts.hostname, parts.port))
    return await asyncio.open_connection(sock=connection)
