"""What the tests against the real server share: a wire that can be cut, a gate for handlers, an open queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from leaseway import Attempt, Client, Worker, transport
from leaseway.connection import Endpoint, Outside
from leaseway.transport import WebSocket
from support.server import open_queue, running_server

Item = Any


class Wire:
    """The way to a server that moves when it restarts; it can be cut, and kept cut."""

    def __init__(self, base: str = "") -> None:
        self.base = base
        self.free = asyncio.Event()
        self.free.set()
        self._sockets: list[WebSocket] = []

    async def dial(self, endpoint: Endpoint, max_bytes: int) -> WebSocket:
        """Dials the same path at where the server is now."""
        await self.free.wait()
        path = endpoint.url.split("/", 3)[3]
        socket = await transport.dial(Endpoint(f"{self.base}/{path}", endpoint.token), max_bytes)
        self._sockets.append(socket)
        return socket

    def cut(self) -> None:
        """Ends the newest socket without a word; no other opens before the wire is `free`."""
        self.free.clear()
        self._sockets[-1]._connection.transport.abort()

    def outside(self) -> Outside:
        """The world with this wire in it, and short pauses."""
        return Outside(dial=self.dial, chance=lambda: 0.01)


class Gate:
    """A handler's work: it begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()

    async def pass_through(self, job: Attempt) -> Item:
        """Works on one item."""
        self.runs.append((job.id, job.attempts))
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"attempts": job.attempts}


def gated(url: str, gate: Gate, outside: Outside | None = None) -> Worker:
    """A worker that works behind a gate."""
    worker = Worker(url, outside=outside)

    @worker.handler
    async def work(item: Item, job: Attempt) -> Item:
        return await gate.pass_through(job)

    return worker


@asynccontextmanager
async def demo(folder: Path, **keys: str) -> AsyncIterator[tuple[str, Client]]:
    """The open queue `demo` on a real server, and a client of it."""
    async with running_server(folder, open_queue(**keys)) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url) as queue:
            yield url, queue
