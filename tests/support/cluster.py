"""Several servers on one database, in this process and event loop, each on a port of its own.

async with running_cluster(postgres, folder, 2) as cluster:
    cluster.servers[0].base_url
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from leaseway_server.runtime.clock import Clock
from support.postgres import Postgres, fresh_database
from support.server import TestServer, open_queue, running_server

OPEN = f"[server]\n{open_queue()}"


class Cluster:
    """Servers that share the database at `url`."""

    def __init__(self, url: str, folder: Path, toml: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.servers: list[TestServer] = []
        self._folder = folder
        self._toml = toml
        self._stack = stack

    async def add(self, clock: Clock | None = None, *, store: str = "", listen_url: str = "") -> TestServer:
        """One more; `store` may lead to the database by another way."""
        folder = self._folder / str(len(self.servers))
        folder.mkdir()
        running = running_server(folder, self._toml, clock=clock, store=store or self.url, listen_url=listen_url)
        self.servers.append(await self._stack.enter_async_context(running))
        return self.servers[-1]


@asynccontextmanager
async def running_cluster(
    postgres: Postgres, folder: Path, number: int, toml: str = OPEN, *, clocks: Sequence[Clock] = ()
) -> AsyncIterator[Cluster]:
    """So many servers, with these clocks, on a database of their own."""
    async with fresh_database(postgres) as url, AsyncExitStack() as stack:
        cluster = Cluster(url, folder, toml, stack)
        for place in range(number):
            await cluster.add(clocks[place] if place < len(clocks) else None)
        yield cluster
