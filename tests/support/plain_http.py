"""HTTP as bytes: requests that no decent library would send, and what comes back until the connection ends.

Owns bytes and nothing of Leaseway. Each exchange ends with an error after `PATIENCE`, so that a test hangs never.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Final

PATIENCE: Final = 15.0
"""Seconds that a server may take to end a connection."""


@dataclass(frozen=True, slots=True)
class Answered:
    """All that came on one connection, and the seconds until it ended."""

    data: bytes
    seconds: float

    @property
    def statuses(self) -> list[int]:
        """The status of each answer, in order."""
        return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", self.data)]

    @property
    def status(self) -> int:
        """That of the only answer; 0 where there was none."""
        statuses = self.statuses
        assert len(statuses) <= 1, self.data
        return statuses[0] if statuses else 0


def request(line: str, host: str, *headers: str, body: bytes = b"", close: bool = True) -> bytes:
    """A request as it should be; `line` is `METHOD TARGET`. `headers` are whole lines. Lengths are not added."""
    own = [f"Host: {host}", *(["Connection: close"] if close else [])]
    return "\r\n".join([f"{line} HTTP/1.1", *own, *headers, "", ""]).encode("latin-1") + body


async def exchange(port: int, data: bytes, *, drip: bytes = b"", pause: float = 0.05) -> Answered:
    """Sends `data` to a port of loopback, then `drip`, a byte each `pause` seconds, until the other side ends it."""
    clock = asyncio.get_running_loop().time
    began = clock()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    dripping = asyncio.create_task(_drip(writer, drip, pause))
    try:
        async with asyncio.timeout(PATIENCE):
            return Answered(await _read(reader), clock() - began)
    finally:
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    data = b""
    try:
        while chunk := await reader.read(65_536):
            data += chunk
    except ConnectionError:
        pass  # It was reset, with something of ours unread.
    return data


async def _drip(writer: asyncio.StreamWriter, data: bytes, pause: float) -> None:
    for byte in data:
        writer.write(bytes([byte]))
        await asyncio.sleep(pause)
