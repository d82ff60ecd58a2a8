"""A real server with the queue of notifications' deliveries, and what posts to it and claims from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from leaseway import Attempt, Client, Worker
from leaseway_notify.queue import QUEUE, configuration
from support.server import OPEN_ACCESS, TestServer, running_server

QUEUE_TOML = configuration().replace('lease = "5m"', f'lease = "5m"\naccess = {OPEN_ACCESS}')


@asynccontextmanager
async def served_queue(folder: Path, port: int = 0) -> AsyncIterator[TestServer]:
    """A server with that queue, open to everyone; again on the same folder and port for a restart."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    async with running_server(folder, QUEUE_TOML, port=port) as server:
        yield server


@asynccontextmanager
async def queue_of(server: TestServer) -> AsyncIterator[Client[Any, Any]]:
    """A client of it."""
    async with Client(f"{server.ws_url}/{QUEUE}") as client:
        yield client


async def items_in(client: Client[Any, Any]) -> dict[str, Any]:
    """All items by key."""
    return {view.key or "": view async for view in client.items()}


async def worked_off(server: TestServer, result: Any = None) -> list[dict[str, Any]]:
    """What a worker gets until nothing is left; it says the same of each."""
    got: list[dict[str, Any]] = []
    worker = Worker(f"{server.ws_url}/{QUEUE}", drain=True)

    @worker.handler
    async def work(item: dict[str, Any], _job: Attempt) -> Any:
        got.append(item)
        if isinstance(result, Exception):
            raise result
        return result or {"status": "sent"}

    await worker.work()
    return got
