"""Behind the real Caddy with the reference for several servers: two of them on one database, of which one goes away."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from leaseway import Attempt, Client, Worker
from support.caddy import CADDYFILE, SEVERAL, Caddy, caddy
from support.postgres import Postgres, fresh_database
from support.process import ServerProcess, server_process
from support.server import open_queue

BRIEF: Final = {"health_interval 1s": "health_interval 100ms", "lb_try_duration 5s": "lb_try_duration 2s"}
IMPATIENT: Final = BRIEF | {"health_timeout 2s": "health_timeout 1s"}
DOWN: Final = b"HTTP request failed"
SOCKETS: Final = re.compile(r'^leaseway_sockets\{kind="work",queue="demo"\} ([0-9.]+)$', re.MULTILINE)


class Site:
    """Caddy, two servers behind it, and a line to the site."""

    def __init__(self, proxy: Caddy, servers: list[ServerProcess], http: httpx.AsyncClient) -> None:
        self.proxy = proxy
        self.servers = servers
        self.http = http
        self.queue = f"{proxy.ws_url}/demo"

    async def post(self, value: str) -> str:
        """Posts an item over HTTP with its value as its key, again where that met the end of a server. Gives its id."""
        posted = await self.http.post("/demo/items", json={"item": value, "key": value})
        if posted.status_code == 502:
            return await self.post(value)
        assert posted.status_code in (200, 201), posted.text
        return str(posted.json()["id"])

    async def result(self, item_id: str) -> Any:
        """What came of it, once it has ended."""
        return (await self.http.get(f"/demo/items/{item_id}?waitMs=20000")).json()["result"]

    async def sockets(self, server: ServerProcess) -> int:
        """How many work sockets a server has."""
        told = await self.http.get(f"{server.base_url}/_metrics")
        return int(float(SOCKETS.findall(told.text)[0]))


@asynccontextmanager
async def site(folder: Path, postgres: Postgres, changes: Mapping[str, str] = BRIEF) -> AsyncIterator[Site]:
    async with fresh_database(postgres) as url, AsyncExitStack() as closing:
        servers = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            running = server_process(folder / name, open_queue(), store=url)
            servers.append(await closing.enter_async_context(running))
        upstreams = " ".join(server.base_url for server in servers)
        proxy = await closing.enter_async_context(caddy(folder, upstreams, changes, reference=SEVERAL))
        http = await closing.enter_async_context(httpx.AsyncClient(base_url=proxy.base_url, timeout=30))
        yield Site(proxy, servers, http)


def test_it_is_as_the_reference_but_for_how_it_spreads_requests() -> None:
    one, several = (path.read_text(encoding="utf-8").splitlines() for path in (CADDYFILE, SEVERAL))
    _, _, *changed = unified_diff(one, several, n=0)
    lines = {line[1:].strip() for line in changed if not line.startswith("@@")}
    assert {line for line in lines if line and not line.startswith("#")} == {
        "reverse_proxy {args[0]} {args[1]} {",
        "reverse_proxy {args[0]} {args[1:]} {",
        "lb_policy least_conn",
        "lb_try_duration 5s",
        "lb_try_interval 100ms",
        "health_interval 2s",
        "health_interval 1s",
        "import leaseway * {$LEASEWAY_UPSTREAM:127.0.0.1:8787}",
        "import leaseway * {$LEASEWAY_UPSTREAMS:127.0.0.1:8787 127.0.0.1:8788}",
    }


@pytest.mark.timeout(120)
async def test_servers_go_and_come_and_everything_goes_on(tmp_path: Path, postgres: Postgres) -> None:
    """Sockets are spread. One is killed, and comes back; the other is stopped as planned, as for an upgrade.

    Workers and watchers go to the one that is there by themselves, and requests do not fail; but for those that were on
    their way to one that ended, which get 502, and can be said again with their key.
    """
    async with site(tmp_path, postgres) as at:
        held, go = asyncio.Semaphore(0), asyncio.Event()

        async def work(item: Any, job: Attempt) -> Any:
            if item == "held":
                held.release()
                await go.wait()
            return {"echo": item}

        first, second = at.servers
        async with AsyncExitStack() as closing:
            for _ in range(4):
                worker = Worker(at.queue, concurrency=2)
                worker.handler(work)
                await closing.enter_async_context(worker)
            closing.callback(
                go.set
            )  # The first to be done at the end, whatever comes: workers wait for their handlers.
            queue = await closing.enter_async_context(Client(at.queue))
            watched = [await queue.post("held") for _ in range(8)]
            for _ in watched:
                await held.acquire()
            assert sorted([await at.sockets(first), await at.sockets(second)]) in ([1, 3], [2, 2]), "and a watcher's"

            await first.kill()
            ids = [await at.post(f"after the kill {number}") for number in range(20)]
            go.set()
            assert [await job.result(timeout=20) for job in watched] == [{"echo": "held"}] * 8
            for number, item_id in enumerate(ids):
                assert await at.result(item_id) == {"echo": f"after the kill {number}"}
            assert await at.sockets(second) == 4

            before = len(at.proxy.output)
            await first.start()
            await at.proxy.said(b"host is up", before)
            stopping = asyncio.create_task(second.stop())
            ids = []
            while not stopping.done():
                ids.append(await at.post(f"while it stops {len(ids)}"))
            assert (await stopping).status == 0
            assert len(set(ids)) == len(ids)
            assert await at.result(ids[-1]) == {"echo": f"while it stops {len(ids) - 1}"}

            go.clear()
            watched = [await queue.post("held") for _ in range(8)]
            for _ in watched:  # They are held at the same time, which takes all four workers.
                await held.acquire()
            assert await at.sockets(first) == 4
            go.set()
            assert [await job.result(timeout=20) for job in watched] == [{"echo": "held"}] * 8

        await first.kill()
        gone = await at.http.post("/demo/items", json={"item": 1})
        assert gone.status_code in (502, 503), "there is none any more"


async def test_a_server_that_stands_still_gets_nothing_until_it_goes_on(tmp_path: Path, postgres: Postgres) -> None:
    """It takes connections and answers none: only the health check tells. No request waits for it then."""
    async with site(tmp_path, postgres, IMPATIENT) as at:
        still, other = at.servers
        ids = [await at.post(f"before {number}") for number in range(4)]
        still.signal(signal.SIGSTOP)
        try:
            await at.proxy.said(DOWN, len(at.proxy.output))
            ids += [await at.post(f"meanwhile {number}") for number in range(20)]
        finally:
            before = len(at.proxy.output)
            still.signal(signal.SIGCONT)
        await at.proxy.said(b"host is up", before)
        await other.kill()
        for item_id in ids:
            assert (await at.http.get(f"/demo/items/{item_id}")).json()["status"] == "pending", "by the one that stood"
