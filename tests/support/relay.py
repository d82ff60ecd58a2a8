"""A way to a port of this machine that a test may cut, while others reach it by another one.

async with relay(port) as way:
    way.port
    async with way.cut():
        ...
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Carries connections from a port of its own to another."""

    def __init__(self, to: int) -> None:
        self.port = 0
        self._to = to
        self._open = True
        self._ends: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if not self._open:
            writer.transport.abort()
            return
        there, further = await asyncio.open_connection("127.0.0.1", self._to)
        self._ends |= {writer, further}
        await asyncio.gather(_carry(reader, further), _carry(there, writer))
        self._ends -= {writer, further}

    @asynccontextmanager
    async def cut(self) -> AsyncIterator[None]:
        """Every connection breaks, and none is made, until the `with` ends."""
        self._open = False
        self.break_all()
        yield
        self._open = True

    def break_all(self) -> None:
        """Every connection breaks."""
        for end in self._ends:
            end.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def relay(to: int) -> AsyncIterator[Relay]:
    """To this port of loopback."""
    way = Relay(to)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        server.close()
        way.break_all()
