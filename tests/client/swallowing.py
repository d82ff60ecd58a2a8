"""A way to a server that can begin to swallow all bytes, as a broken network does: nothing ends, nothing comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Way:
    """Connections made from now on are good; `swallow` spoils those that stand."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._good: set[asyncio.StreamWriter] = set()
        self._sinks: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def swallow(self) -> None:
        """Nothing that is sent on a connection of now arrives, in either direction."""
        self._good.clear()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        from_server, to_server = await asyncio.open_connection(*self._server)
        for source, sink in ((reader, to_server), (from_server, writer)):
            self._good.add(sink)
            self._sinks.append(sink)
            task = asyncio.create_task(self._pass_on(source, sink))
            self._tasks.add(task)

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
        for sink in self._sinks:
            sink.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def way_to(ws_url: str) -> AsyncIterator[Way]:
    """A way to the server at `ws://HOST:PORT`; its own URL is another one."""
    host, port = ws_url.removeprefix("ws://").split(":")
    way = Way(host, int(port))
    server = await asyncio.start_server(way.accept, "127.0.0.1", 0)
    way.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        server.close()
        await way.close()
