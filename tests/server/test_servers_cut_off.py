"""One server loses its way to the database, or its ear for hints, while the others have theirs."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest

from leaseway_server.runtime import neighbours
from support.cluster import ask, hear_until, quicken, running_cluster, until
from support.postgres import Postgres, run
from support.raw import RawSocket, raw_socket
from support.relay import Relay, relay
from support.server import TestServer

DEAF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)


def ended(view: Any) -> bool:
    """Whether this is the view of an end."""
    return bool(view.get("finishedAt"))


@dataclass
class Scene:
    """`far` reaches the database by a way that can be cut, `near` by its own."""

    near: TestServer
    far: TestServer
    way: Relay

    async def is_cut_off(self) -> None:
        """`far` knows that its database is away, and `near` takes it for gone."""
        await until(lambda: self.far.engine("demo").away)
        await until(lambda: not self.near.engine("demo").epochs.alive)

    async def is_back(self) -> None:
        """Both know each other again."""
        await until(lambda: all(one.engine("demo").epochs.alive for one in (self.near, self.far)))
        await until(lambda: not self.far.engine("demo").away)


@pytest.fixture
async def scene(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> AsyncIterator[Scene]:
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1) as cluster:
        parts = urlsplit(cluster.url)
        async with relay(parts.port or 5432) as way:
            netloc = f"{parts.netloc.rpartition(':')[0]}:{way.port}"
            async with cluster.another(url=urlunsplit(parts._replace(netloc=netloc))) as far:
                yield Scene(cluster.servers[0], far, way)


def others_of(server: TestServer) -> neighbours.Neighbours:
    """What it knows of the others."""
    surroundings = server.engine("demo").surroundings
    assert surroundings is not None
    return surroundings.neighbours


async def ready(server: TestServer) -> int:
    """The status of its readiness."""
    async with httpx.AsyncClient(base_url=server.base_url) as http:
        return (await http.get("/_ready")).status_code


async def claim(worker: RawSocket, item_id: str) -> None:
    """The worker holds it."""
    item = await worker.ask({"claim": {"worker": "box-1", "waitMs": 60_000}})
    assert (item["id"], item["attempts"]) == (item_id, 1)


@pytest.mark.protocol("7.18", "7.20", "7.23")
async def test_a_server_that_is_cut_off_keeps_its_workers_and_tells_what_the_others_did(scene: Scene) -> None:
    near, far = scene.near, scene.far
    posts = await ask(near, "POST", "/items", [{"item": 1}, {"item": 2, "priority": -1}])
    held, other = [item["id"] for item in posts["items"]]
    async with raw_socket(f"{far.ws_url}/demo/work") as worker, raw_socket(f"{far.ws_url}/demo/monitor") as watching:
        await claim(worker, held)
        watching.say({"subscribe": [other]})
        assert (await watching.hear())["status"] == "pending"
        async with scene.way.cut():
            await scene.is_cut_off()
            assert [await ready(far), await ready(near)] == [503, 200]
            refused = await worker.ask({"progress": {"id": held, "value": 1}})
            assert (refused["type"], refused["code"]) == ("error", "unavailable")
            taken = await ask(near, "POST", "/claim", {})
            assert taken["id"] == other, "the other one is its worker's yet"
            await ask(near, "POST", "/result", {"id": other, "attempts": 1, "value": "made"})
        await scene.is_back()
        assert (await hear_until(watching, ended))[-1]["result"] == "made"
        assert (await worker.ask({"result": {"id": held, "attempts": 1, "value": 1}}))["accepted"]
    view = await ask(near, "GET", f"/items/{held}")
    assert (view["status"], view["attempts"], view["losses"]) == ("finished", 1, 0)


@pytest.mark.protocol("4.71", "6.18")
async def test_what_is_resumed_elsewhere_while_its_server_is_cut_off_is_lost_there_and_stays(scene: Scene) -> None:
    near, far = scene.near, scene.far
    held = (await ask(near, "POST", "/items", {"item": 1}))["id"]
    async with raw_socket(f"{far.ws_url}/demo/work") as left, raw_socket(f"{near.ws_url}/demo/work") as after:
        await left.ask({"hello": {"worker": "box-1", "cancel": True}})
        await claim(left, held)
        async with scene.way.cut():
            await scene.is_cut_off()
            ack = await after.ask({"resume": {"worker": "box-1", "leases": [{"id": held, "attempts": 1}]}})
            assert ack["leases"][0]["accepted"]
        assert await left.hear() == {"type": "cancel", "id": held, "reason": "resumed"}
        await scene.is_back()
        assert (await after.ask({"result": {"id": held, "attempts": 1, "value": 1}}))["accepted"]


@pytest.mark.protocol("7.13")
async def test_what_was_hinted_at_while_nobody_could_hear_it_is_found_once_they_listen_again(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 2) as cluster:
        here, there = cluster.servers
        async with raw_socket(f"{there.ws_url}/demo/monitor") as watching:
            posted = await watching.ask({"post": {"item": 1, "subscribe": True}})
            await watching.hear()
            await until(lambda: bool(others_of(here)._watching))
            monkeypatch.setattr(neighbours, "LOOK_MS", 3_600_000)  # Nobody looks without a reason any more.
            looks = [others_of(server)._look_at for server in cluster.servers]
            await until(
                lambda: all(others_of(one)._look_at > at for one, at in zip(cluster.servers, looks, strict=True))
            )
            await run(cluster.url, DEAF)
            await ask(here, "POST", f"/items/{posted['id']}/cancel")
            assert (await hear_until(watching, ended))[-1]["status"] == "cancelled"
