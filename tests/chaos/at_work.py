"""Producers and workers over both doors, at work on one server after another, and told when to rest."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

import httpx

from chaos.load import HttpProducer, HttpWorker, MonitorProducer, SocketWorker, World
from chaos.promises import Promises

FOR_EVER: Final = 10**9


class Load:
    """Producers and workers over both doors, at work on one server until the block ends."""

    def __init__(self, promises: Promises, numbers: "count[int]") -> None:
        self._struck = asyncio.Event()
        self.world = World(promises, random.Random(1), self._struck.set, numbers=numbers)  # noqa: S311  The same again.

    @asynccontextmanager
    async def on(self, base_url: str) -> AsyncIterator["Load"]:
        """At work on this server."""
        world = self.world
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http, asyncio.TaskGroup() as group:
            clients = [HttpProducer(world, http).live, MonitorProducer(world).live, SocketWorker(world, "w").live]
            tasks = [group.create_task(world.forever(live)) for live in (*clients, HttpWorker(world, "h", http).live)]
            world.begin(base_url, FOR_EVER)
            yield self
            for task in tasks:
                task.cancel()

    async def words(self, number: int) -> None:
        """Until so many more words were said between them and the server."""
        self._struck.clear()
        self.world.begin(self.world.base_url, number)
        await self._struck.wait()
        self.world.begin(self.world.base_url, FOR_EVER)

    def rest(self) -> None:
        """Whose connection is lost waits until `resume`."""
        self.world.up.clear()

    def resume(self) -> None:
        """The server is there again, at the same address."""
        self.world.begin(self.world.base_url, FOR_EVER)

    async def finish(self) -> None:
        """Until all work is done, and nobody posts."""
        self.world.finishing = True
        self.world.look_whether_all_ended()
        await self.world.all_ended.wait()
