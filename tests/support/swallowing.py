"""A way to a server that can begin to swallow bytes, as a broken network does: nothing ends, nothing comes.

It may lead to one of several servers: each connection asks anew which one that is.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""What is closed with this is reset."""


class Way:
    """Connections made from now on are good; `swallow` spoils those that stand. `server` is where one goes now."""

    def __init__(self, server: Callable[[], tuple[str, int]]) -> None:
        self._server = server
        self._good: set[asyncio.StreamWriter] = set()
        self._to_server: set[asyncio.StreamWriter] = set()
        self._to_client: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def swallow(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Nothing that is sent on a connection of now arrives, in these directions."""
        if to_server:
            self._good -= self._to_server
        if to_client:
            self._good -= self._to_client

    def reset(self) -> None:
        """Ends all connections of now with a reset, at both ends."""
        for sink in self._to_server | self._to_client:
            with contextlib.suppress(OSError):  # It has ended already.
                sink.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            sink.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            from_server, to_server = await asyncio.open_connection(*self._server())
        except OSError:  # There is no server.
            writer.close()
            return
        self._good |= {to_server, writer}
        self._to_server.add(to_server)
        self._to_client.add(writer)
        for source, sink in ((reader, to_server), (from_server, writer)):
            self._tasks.add(asyncio.create_task(self._pass_on(source, sink)))

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if sink in self._good:
                    sink.write(data)
        except ConnectionError:
            pass
        if sink in self._good:
            sink.close()

    async def close(self) -> None:
        """Ends all."""
        for task in self._tasks:
            task.cancel()
        for sink in self._to_server | self._to_client:
            sink.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def way_to(ws_url: str) -> AsyncIterator[Way]:
    """A way to the server at `ws://HOST:PORT`; its own URL is another one."""
    host, port = ws_url.removeprefix("ws://").split(":")
    async with way_by(lambda: (host, int(port))) as way:
        yield way


@asynccontextmanager
async def way_by(server: Callable[[], tuple[str, int]]) -> AsyncIterator[Way]:
    """A way to whichever server (host and port) is named when a connection is made."""
    way = Way(server)
    listening = await asyncio.start_server(way.accept, "127.0.0.1", 0)
    way.url = f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        listening.close()
        await way.close()


@asynccontextmanager
async def way_to_database(url: str) -> AsyncIterator[Way]:
    """A way to the PostgreSQL at this URL, with a URL of the same kind."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5432
    async with way_by(lambda: (host, port)) as way:
        user = parts.netloc.rpartition("@")[0]
        here = way.url.removeprefix("ws://")
        way.url = urlunsplit(parts._replace(netloc=f"{user}@{here}" if user else here))
        yield way
