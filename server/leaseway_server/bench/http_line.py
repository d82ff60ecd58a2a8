"""One HTTP connection for load, over which requests go one after the other. What they ask for is not known here."""

import asyncio
from typing import Any, Final

import orjson

QUEUE: Final = "bench"
LONGEST: Final = 2**26
"""Bytes of an answer."""


class HttpLine:
    """To the queue of a server on this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "HttpLine":
        """To a port of loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=LONGEST))

    async def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        """The parsed answer; `path` is behind the queue's. Raises `RuntimeError` where it is no success."""
        head = f"{method} /{QUEUE}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        told = await self._reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path}: {answer.decode()}{told.decode()}")
        return orjson.loads(told)

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()
