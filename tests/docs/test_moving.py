"""The steps of docs/moving.md, as they stand there, under load: nothing is lost, nothing twice, and leases go on."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Final

import httpx
import pytest

from chaos.at_work import Load
from chaos.promises import Promises
from client.real_scene import Gate, Wire, gated
from docs.machine import ROOT, Machine, machine
from docs.snippets import snippets
from leaseway import Attempt, Client, Worker
from support.postgres import Postgres, own_postgres
from support.server import OPEN_ACCESS

PAGE: Final = (ROOT / "docs/moving.md").read_text(encoding="utf-8")
BLOCKS: Final = {snippet.marker: snippet.text for snippet in snippets(PAGE) if snippet.marker}
TOML: Final = f"""
[server]
listen = "127.0.0.1:8787"
store = "sqlite:/var/lib/leaseway"

[queues.demo]
access = {OPEN_ACCESS}

[queues.demo.retry]
delays = ["10ms"]
cap = "1s"

[queues.real]
access = {OPEN_ACCESS}
"""


class Scene:
    """A machine with a served store, and a database beside it."""

    def __init__(self, there: Machine, postgres: Postgres) -> None:
        self._there = there
        host = postgres.url.partition("@")[2].rpartition("/")[0]
        self._database = f"leaseway@{host}/leaseway"

    @property
    def address(self) -> str:
        """Where the server is, wherever its data are."""
        return f"127.0.0.1:{self._there.port}"

    async def run(self, commands: str) -> str:
        """Commands of the page."""
        return await self._there.run(commands.replace("leaseway@10.0.0.5/leaseway?sslmode=require", self._database))

    async def ready(self) -> None:
        """Until it serves."""
        async with httpx.AsyncClient(base_url=f"http://{self.address}", trust_env=False) as http:
            while not await answers(http):
                pass


async def answers(http: httpx.AsyncClient) -> bool:
    """Whether a server is there, and ready."""
    try:
        return (await http.get("/_ready")).status_code == HTTPStatus.OK
    except httpx.TransportError:
        return False


@asynccontextmanager
async def served_here(folder: Path) -> AsyncIterator[Scene]:
    """What stands there before the page begins: the server of the tests, run by its unit."""
    with own_postgres() as postgres:
        await postgres.run(
            "CREATE USER leaseway", "CREATE DATABASE leaseway OWNER leaseway ENCODING 'UTF8' TEMPLATE template0"
        )
        async with machine(folder) as there:
            there.path("/etc/leaseway").mkdir(parents=True)
            there.path("/etc/leaseway/leaseway.toml").write_text(there.here(TOML))
            there.path("/opt/leaseway").symlink_to(sys.prefix)
            (there.folder / "users").write_text("leaseway\n")
            scene = Scene(there, postgres)
            await scene.run("cp deploy/leaseway.service /etc/systemd/system/ && systemctl start leaseway")
            await scene.ready()
            yield scene


class Poster:
    """A producer and a worker of the Python client, as users write them: they know of no move."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.gap = 0.0
        """The longest time that one of its items took, in seconds: so long there was no server, about."""
        self.values: list[object] = []

    async def post(self, queue: Client) -> None:
        """Posts an item after the other, and waits for each result, until it is told to end."""
        for number in count():
            if self.ended.is_set():
                return
            began = time.monotonic()
            job = await queue.post({"number": number}, key=f"number {number}")
            self.values.append(await job.result(timeout=40))
            self.gap = max(self.gap, time.monotonic() - began)


@asynccontextmanager
async def real_clients(address: str, gate: Gate, report: Callable[[str, str], None]) -> AsyncIterator[None]:
    """Real clients at work on the queue `real`; a worker with a gate holds the very first item all the time."""
    url, poster = f"ws://{address}/real", Poster()
    wire = Wire(f"ws://{address}")
    worker = Worker(url, concurrency=2, outside=wire.outside())
    runs: list[int] = []

    @worker.handler
    async def work(item: dict[str, int], _job: Attempt) -> int:
        runs.append(item["number"])
        return item["number"]

    async with Client(url) as queue, gated(url, gate, wire.outside()):
        held = await queue.post({"number": -1})
        await gate.begun.wait()
        async with worker:
            posting = asyncio.create_task(poster.post(queue))
            yield
            poster.ended.set()
            await posting
            gate.go.set()
            assert await held.result(timeout=20) == {"attempts": 1}, "the lease was taken up again"
    assert gate.runs == [(held.id, 1)]
    assert poster.values == list(range(len(poster.values)))
    assert sorted(runs) == poster.values, "each was worked on once"
    report("a producer waited over a move", f"{poster.gap:.1f} s")


@pytest.mark.timeout(180)
async def test_a_served_store_is_moved_there_and_back(tmp_path: Path, report_line: Callable[[str, str], None]) -> None:
    promises = Promises()
    async with served_here(tmp_path / "machine") as there:
        await taken_back(there)
        await under_load(there, promises, report_line)
    assert promises.violations == []
    assert promises.counts["results"] > 50


async def taken_back(there: Scene) -> None:
    """A move whose end nobody waits for: the old store is served again."""
    async with Client(f"ws://{there.address}/real") as queue:
        job = await queue.post({"number": -2})
    await there.run(BLOCKS["password"])
    stop, move, *_ = BLOCKS["move"].replace(" &&", "").splitlines()
    await there.run(f"{stop}\n{move}")
    assert "Taken back: demo, real." in await there.run(BLOCKS["undo"])
    await there.run("systemctl start leaseway")
    await there.ready()
    async with Client(f"ws://{there.address}/real") as queue:
        job = await queue.get(job.id)
        assert job.view is not None
        assert job.view.status == "pending"
        await job.cancel()


async def under_load(there: Scene, promises: Promises, report_line: Callable[[str, str], None]) -> None:
    """All steps, while clients are at work; those of Python until the first move is over."""
    async with Load(promises, count()).on(f"http://{there.address}") as load:
        async with real_clients(there.address, Gate(), report_line):
            await load.words(400)
            assert "with a store of Leaseway. Queues: none." in await there.run(BLOCKS["prepare"])
            load.rest()
            told = await there.run(BLOCKS["move"])
            assert "demo: " in told
            assert "Both sides agree" in told
            await there.ready()
            load.resume()
            await load.words(600)
        load.rest()
        told = await there.run(BLOCKS["back"])
        assert told.count("Both sides agree") == 2
        await there.ready()
        load.resume()
        await load.words(300)
        await load.finish()
