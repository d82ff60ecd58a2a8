"""A server whose database is away: what its clients meet, at the seam of the store, whatever database it is."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from support.clock import ManualClock
from support.faulty_store import Faults, FaultyStore
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

GRACE = 30_000


@dataclass(slots=True)
class Served:
    """A server whose database a test takes away, and its clients."""

    server: TestServer
    clock: ManualClock
    faults: Faults
    http: httpx.AsyncClient
    work: RawSocket
    monitor: RawSocket

    async def take_away(self) -> None:
        """The database is away, and an engine that has nothing to do notices."""
        self.faults.away = True
        await self.refresh()

    async def give_back(self) -> None:
        """It is there again, and the engine has noticed."""
        self.faults.away = False
        while self.server.engine("demo").away:
            self.clock.advance(100)
            await self.http.get("/_ready")

    async def refresh(self) -> None:
        """What the server does each second."""
        assert self.server.running.site is not None
        await self.server.running.site.refresh()


@pytest.fixture
async def served(tmp_path: Path, quiet: None) -> AsyncIterator[Served]:
    """A server with a worker and a monitor on it."""
    clock, faults = ManualClock(), Faults()
    async with running_server(tmp_path, f"[server]\n{open_queue()}", clock=clock) as server:
        engine = server.engine("demo")
        engine._store = engine.looking._store = FaultyStore(engine._store, faults)
        async with (
            httpx.AsyncClient(base_url=server.base_url) as http,
            raw_socket(f"{server.ws_url}/demo/work") as work,
            raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        ):
            yield Served(server, clock, faults, http, work, monitor)


@pytest.mark.protocol("5.52", "7.18")
async def test_it_is_not_ready_says_so_and_comes_back_by_itself(served: Served) -> None:
    assert (await served.http.get("/_ready")).status_code == 200
    await served.take_away()
    refused = await served.http.post("/demo/items", json={"item": 1})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "cannot reach its database at the moment; nothing of this was done" in refused.text
    ready = await served.http.get("/_ready")
    assert (ready.status_code, "cannot reach its database" in ready.text) == (503, True)
    assert 'leaseway_writable{queue="demo"} 0.0' in (await served.http.get("/_metrics")).text
    assert (await served.http.get("/_health")).status_code == 200
    item_id = "00000000000000a1"
    for path in ("/demo/items", f"/demo/items/{item_id}", f"/demo/items/{item_id}/why"):
        answer = await served.http.get(path)
        assert (answer.status_code, "cannot reach its database" in answer.text) == (503, True), path
    await served.give_back()
    assert (await served.http.get("/_ready")).status_code == 200
    assert (await served.http.post("/demo/items", json={"item": 1})).status_code == 201
    assert 'leaseway_writable{queue="demo"} 1.0' in (await served.http.get("/_metrics")).text


@pytest.mark.protocol("7.20")
async def test_sockets_are_kept_and_so_is_what_they_hold(served: Served) -> None:
    item_id = (await served.http.post("/demo/items", json={"item": 1})).json()["id"]
    assert (await served.work.ask({"claim": {}}))["id"] == item_id
    served.monitor.say({"subscribe": [item_id]})
    assert (await served.monitor.hear())["status"] == "processing"
    await served.take_away()
    assert (await served.work.ask({"result": {"id": item_id, "value": 1}}))["code"] == "unavailable"
    assert (await served.monitor.ask({"post": {"item": 1}}))["code"] == "unavailable"
    await served.give_back()
    assert (await served.work.ask({"result": {"id": item_id, "value": 1}}))["accepted"]
    assert (await served.monitor.hear())["status"] == "finished"


@pytest.mark.protocol("6.6")
async def test_past_the_grace_sockets_are_sent_to_other_servers(served: Served) -> None:
    await served.take_away()
    assert (await served.work.ask({"claim": {}}))["code"] == "unavailable"
    served.clock.advance(GRACE)
    await served.refresh()
    assert (await served.work.ask({"claim": {}}))["code"] == "unavailable", "until then it may come back"
    served.clock.advance(1)
    await served.refresh()
    assert [await served.work.closed(), await served.monitor.closed()] == [1013, 1013]
    async with raw_socket(f"{served.server.ws_url}/demo/work") as late:
        assert await late.closed() == 1013
    await served.give_back()
    async with raw_socket(f"{served.server.ws_url}/demo/work") as back:
        assert (await back.ask({"claim": {}}))["type"] == "empty"
