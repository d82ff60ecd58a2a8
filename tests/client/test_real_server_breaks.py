"""Client and worker against the real server: renewals, cut sockets, an item that moved on, a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from client.real_scene import Gate, Wire, gated
from leaseway import Client, View, transport
from leaseway.connection import Endpoint, Outside
from leaseway.transport import WebSocket
from support.server import open_queue, running_server


class Renewals:
    """Counts the renewals that are sent, on whichever socket."""

    def __init__(self) -> None:
        self.eight = asyncio.Event()
        self._sent = 0

    async def dial(self, endpoint: Endpoint, max_bytes: int) -> "Counted":
        """Dials a socket that is counted."""
        socket = await transport.dial(endpoint, max_bytes)
        return Counted(socket, self)

    def note(self, data: bytes) -> None:
        """This was sent."""
        self._sent += data.startswith(b'{"renew"')
        if self._sent == 8:
            self.eight.set()


class Counted:
    """A socket that tells what is sent on it."""

    def __init__(self, socket: WebSocket, renewals: Renewals) -> None:
        self._renewals = renewals
        self._socket = socket
        self.receive = socket.receive
        self.close = socket.close

    async def send(self, data: bytes) -> None:
        """Sends one text frame."""
        await self._socket.send(data)
        self._renewals.note(data)


@pytest.mark.protocol("1.56")
async def test_a_handler_outlives_its_lease_many_times_over(tmp_path: Path) -> None:
    """The lease is shorter than the work: it is renewed by itself, and the item is never handed out again."""
    server_keys = '[server]\nping_interval = "300ms"\nping_timeout = "200ms"\n'
    async with running_server(tmp_path, server_keys + open_queue(lease='"600ms"')) as server:
        url, gate, renewals = f"{server.ws_url}/demo", Gate(), Renewals()
        outside = Outside(dial=renewals.dial)
        async with Client(url) as queue, gated(url, gate, outside), gated(url, gate, outside):
            job = await queue.post({})
            await renewals.eight.wait()
            gate.go.set()
            assert await job.result(timeout=20) == {"attempts": 1}
        assert gate.runs == [(job.id, 1)]


async def seen(views: AsyncIterator[View], status: str) -> None:
    """Watches until this status is shown."""
    async for view in views:
        if view.status == status:
            return
    raise AssertionError(f"the watch ended before {status}")


async def test_a_cut_worker_resumes_and_no_attempt_is_spent(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        url, gate, wire = f"{server.ws_url}/demo", Gate(), Wire(server.ws_url)
        async with Client(url) as queue, gated(url, gate, wire.outside()):
            job = await queue.post({})
            views = job.watch(timeout=20)
            await seen(views, "processing")
            for _ in range(3):
                wire.cut()
                await seen(views, "pending")
                wire.free.set()
                await seen(views, "processing")
            gate.go.set()
            assert await job.result(timeout=20) == {"attempts": 1}
            assert job.view is not None
            assert job.view.attempts == 1
        assert gate.runs == [(job.id, 1)]


async def test_an_item_that_another_took_stops_the_first_handler(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        url, wire = f"{server.ws_url}/demo", Wire(server.ws_url)
        first, second = Gate(), Gate()
        async with Client(url) as queue, gated(url, first, wire.outside()):
            job = await queue.post({})
            await first.begun.wait()
            async with gated(url, second):
                wire.cut()
                await second.begun.wait()
                wire.free.set()
                await first.cancelled.wait()
                second.go.set()
                assert await job.result(timeout=20) == {"attempts": 2}
        assert (first.runs, second.runs) == ([(job.id, 1)], [(job.id, 2)])


@pytest.mark.protocol("6.5")
async def test_a_restart_costs_no_attempt_and_nobody_notices(tmp_path: Path) -> None:
    gate, wire = Gate(), Wire()
    async with AsyncExitStack() as people:
        async with running_server(tmp_path, open_queue()) as server:
            wire.base = server.ws_url
            queue = await people.enter_async_context(Client(f"{wire.base}/demo", outside=wire.outside()))
            await people.enter_async_context(gated(f"{wire.base}/demo", gate, wire.outside()))
            job = await queue.post({})
            await gate.begun.wait()
            waiting = asyncio.create_task(job.result(timeout=30))
        gate.go.set()
        async with running_server(tmp_path, open_queue()) as server:
            wire.base = server.ws_url
            assert await waiting == {"attempts": 1}
            assert await (await queue.post({})).result(timeout=20) == {"attempts": 1}
            await people.aclose()
    assert gate.runs[0] == (job.id, 1)
    assert len(gate.runs) == 2
