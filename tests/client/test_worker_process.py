"""Where the connection lives: no handler holds it up, and nothing outlives its worker.

Real processes, a real server.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from client import held_worker
from client.worker_process import PATIENCE, children, gone, shown, worker_process
from leaseway import Client, Job, View, Worker
from leaseway.connection import Endpoint
from leaseway.connection_process import InProcess
from leaseway.conversation import Terms
from support.server import TestServer, open_queue, running_server

PINGS = '[server]\nping_interval = "200ms"\nping_timeout = "200ms"\n'
LEASE = 0.5


@asynccontextmanager
async def short_leases(folder: Path, lease: float = LEASE) -> AsyncIterator[tuple[TestServer, Client]]:
    """The open queue `demo` with a short lease, on a server that pings often, and a client of it."""
    toml = PINGS + open_queue(lease=f'"{int(lease * 1000)}ms"')
    async with running_server(folder, toml) as server, Client(f"{server.ws_url}/demo") as queue:
        yield server, queue


async def until(views: AsyncIterator[View], status: str, attempts: int) -> View:
    """Watches until this is shown."""
    async for view in views:
        if (view.status, view.attempts) == (status, attempts):
            return view
    raise AssertionError(f"the watch ended before {status}")


@pytest.mark.protocol("1.56")
@pytest.mark.parametrize("kind", ["holds_the_interpreter", "holds_it_in_a_thread", "holds_it_in_a_process"])
async def test_a_handler_in_c_that_holds_the_interpreter_keeps_its_lease(kind: str, tmp_path: Path) -> None:
    """For three leases, each longer than the server waits for a pong, while another worker waits for the item."""
    async with short_leases(tmp_path) as (server, queue):
        url = f"{server.ws_url}/demo"
        job = await queue.post(3 * LEASE)
        async with worker_process(held_worker, url, kind) as worker:
            assert await worker.heard() == "begun 1"
            async with rival(url):
                assert await job.result(timeout=PATIENCE) == {"attempts": 1}


def rival(url: str) -> Worker:
    """Another worker, which gets what the first one loses."""
    worker = Worker(url)
    worker.handler(lambda item, job: {"attempts": job.attempts})
    return worker


@pytest.mark.parametrize("kind", ["holds_it_in_a_thread", "holds_it_in_a_process", "forks", "forks without_pidfd"])
async def test_a_worker_that_is_killed_gives_its_item_back_at_once(kind: str, tmp_path: Path) -> None:
    """Also where a fork of it holds all that it had open: its lease is five minutes, and nobody waits for that."""
    async with short_leases(tmp_path, lease=300) as (server, queue):
        job = await queue.post(60)
        async with worker_process(held_worker, f"{server.ws_url}/demo", *kind.split()) as worker:
            forked = (await worker.heard()).partition("forked ")[2]
            started = [pid for pid in children(worker.pid) if str(pid) != forked]
            worker.send_signal(signal.SIGKILL)
            try:
                await until(job.watch(timeout=PATIENCE), "pending", 1)
            finally:
                if forked:
                    os.kill(int(forked), signal.SIGKILL)
            for pid in started:
                await gone(pid)


@pytest.mark.protocol("1.31", "7.3")
async def test_a_worker_that_is_stopped_loses_its_item_when_the_lease_ends(tmp_path: Path) -> None:
    """SIGSTOP: its connection lives, but nobody works. When it goes on, it is told, and begins anew."""
    async with short_leases(tmp_path) as (server, queue):
        job = await queue.post({})
        async with worker_process(held_worker, f"{server.ws_url}/demo", "waits") as worker:
            assert await worker.heard() == "begun 1"
            worker.send_signal(signal.SIGSTOP)
            await until(job.watch(timeout=PATIENCE), "pending", 1)
            worker.send_signal(signal.SIGCONT)
            assert await worker.heard() == "cancelled 1"
            assert await worker.heard() == "begun 2"


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "was ended by signal 9"), (signal.SIGSTOP, "does not answer")]
)
async def test_a_connection_process_that_dies_or_hangs_is_replaced(
    number: signal.Signals, said: str, tmp_path: Path
) -> None:
    """Its leases are resumed: the handler goes on and no attempt is spent. The token shows nowhere."""
    toml = open_queue().replace('work = "open"', 'work = "users"')
    async with running_server(tmp_path, toml, users={"box": ["work"]}) as server:
        url, token = f"{server.ws_url}/demo", server.tokens["box"]
        async with Client(url) as queue, worker_process(held_worker, url, "waits", token=token) as worker:
            job = await queue.post({})
            assert await worker.heard() == "begun 1"
            (connection,) = children(worker.pid)
            assert token not in shown(connection)
            os.kill(connection, number)
            assert said in await worker.logged("the connection process")
            await worker.logged("resumed 1 of 1 leases")
            assert children(worker.pid) != [connection]
            await cancel(server, job)
            assert await worker.heard() == "cancelled 1"


async def test_a_new_connection_process_takes_over_any_number_of_leases() -> None:
    here = InProcess(Terms(Endpoint.of("ws://127.0.0.1:1/demo", "work", None), "box-1", 20_000), lambda events: None)
    facts = {"id": "a" * 16, "attempts": 1, "progress": None, "meta": None, "seconds": 300.0, "until": 0.0}
    for number in range(20_000):
        here._on_frame({"verb": "start", "number": number, "lease": facts}, b"null")
    await here._start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await here.run()


async def test_the_first_signal_reaches_the_worker_alone_though_a_terminal_sends_it_to_all(tmp_path: Path) -> None:
    """Its connection process goes on until the worker has given back what it holds."""
    async with short_leases(tmp_path, lease=300) as (server, queue):
        job = await queue.post({})
        async with worker_process(held_worker, f"{server.ws_url}/demo", "waits") as worker:
            assert await worker.heard() == "begun 1"
            for pid in (*children(worker.pid), worker.pid):
                os.kill(pid, signal.SIGINT)
            view = await until(job.watch(timeout=PATIENCE), "pending", 1)
            assert await http_view(server, view.id) == {"losses": 0, "failures": 0}
            assert await worker.heard() == "cancelled 1"
            assert await worker.ended() == 0


async def http_view(server: TestServer, item_id: str) -> dict[str, int]:
    """What the item was charged."""
    async with httpx.AsyncClient() as http:
        view = (await http.get(f"{server.base_url}/demo/items/{item_id}")).json()
    return {name: view[name] for name in ("losses", "failures")}


async def cancel(server: TestServer, job: Job) -> None:
    """Withdraws the item."""
    async with httpx.AsyncClient() as http:
        (await http.post(f"{server.base_url}/demo/items/{job.id}/cancel")).raise_for_status()
