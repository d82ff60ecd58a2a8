"""Several servers on one database: any worker, producer or monitor on any of them, and none the wiser."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from leaseway_server.core.commands import Change, Delete
from leaseway_server.core.events import Cancel
from support.cluster import PATIENCE, Cluster, ask, hear_until, quicken, running_cluster, until_it_says
from support.postgres import Postgres, run
from support.raw import RawSocket, raw_socket
from support.server import TestServer


@pytest.fixture
async def cluster(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """Two servers."""
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 2) as cluster:
        yield cluster


def ended(message: Any) -> bool:
    """Whether this is the view of an end."""
    return bool(message.get("finishedAt"))


def work(server: TestServer) -> Any:
    """A worker's socket."""
    return raw_socket(f"{server.ws_url}/demo/work")


def monitor(server: TestServer) -> Any:
    """A monitor's socket."""
    return raw_socket(f"{server.ws_url}/demo/monitor")


async def claimed(worker: RawSocket, server: TestServer, name: str = "box-1") -> str:
    """The id of an item that was posted on this server and is held by the worker."""
    posted = await ask(server, "POST", "/items", {"item": 1})
    item = await worker.ask({"claim": {"worker": name, "waitMs": 60_000}})
    assert item["id"] == posted["id"]
    return str(item["id"])


# ── Pushes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("3.12", "3.14", "7.13")
async def test_a_push_reaches_monitors_on_any_server_and_in_order(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with monitor(here) as poster, monitor(there) as by_id, monitor(there) as all_, work(here) as worker:
        all_.say({"subscribe": {"all": True}})
        posted = await poster.ask({"post": {"item": 1, "subscribe": True}})
        by_id.say({"subscribe": [posted["id"]]})
        await by_id.hear()
        assert (await worker.ask({"claim": {"worker": "box-1"}}))["id"] == posted["id"]
        for percent in range(5):
            worker.say({"progress": {"id": posted["id"], "value": {"percent": percent}}})
        worker.say({"result": {"id": posted["id"], "value": {"width": 1}}})
        for socket in (poster, by_id, all_):
            views = await hear_until(socket, ended)
            assert (views[-1]["status"], views[-1]["result"]) == ("finished", {"width": 1})
            revs = [view["rev"] for view in views if view["id"] == posted["id"]]
            assert revs == sorted(revs)


async def test_monitors_begin_anew_where_turns_of_others_were_missed(cluster: Cluster) -> None:
    """As after a server stood still for so long that they are not kept any more."""
    here, there = cluster.servers
    item_id = (await ask(here, "POST", "/items", {"item": 1}))["id"]
    async with monitor(there) as watching, httpx.AsyncClient(base_url=there.base_url) as http:
        watching.say({"subscribe": [item_id]})
        await watching.hear()
        waiting = asyncio.create_task(http.get(f"/demo/items/{item_id}?waitMs=60000"))
        await until_it_says(there, "", lambda _: len(there.engine("demo").hub._watchers[item_id]) == 2)
        epoch = here.engine("demo").epochs.own
        await run(cluster.url, f"UPDATE leaseway.share SET turn = turn + 1 WHERE server = {epoch}")  # noqa: S608
        assert await watching.closed() == 1012
        assert (await waiting).json()["status"] == "pending", "it may ask again"


async def test_an_item_that_is_deleted_elsewhere_is_watched_no_more(cluster: Cluster) -> None:
    here, there = cluster.servers
    item_id = (await ask(here, "POST", "/items", {"item": 1}))["id"]
    async with monitor(there) as watching:
        watching.say({"subscribe": [item_id]})
        assert (await watching.hear())["status"] == "pending"
        await ask(here, "POST", f"/items/{item_id}/cancel")
        assert (await hear_until(watching, ended))[-1]["status"] == "cancelled"
        hub = there.engine("demo").hub
        assert len(hub) == 1
        await ask(here, "DELETE", f"/items/{item_id}")
        await until_it_says(there, "", lambda _facts: not len(hub))


@pytest.mark.protocol("7.24")
async def test_an_end_that_nobody_can_tell_any_more_leaves_nobody_waiting(cluster: Cluster) -> None:
    """The item ends and is deleted elsewhere in one turn: no other server ever sees its end."""
    here, there = cluster.servers
    item_id = (await ask(here, "POST", "/items", {"item": 1}))["id"]
    async with (
        monitor(here) as near,
        monitor(there) as far,
        httpx.AsyncClient(base_url=there.base_url, timeout=PATIENCE) as http,
    ):
        for watching in (near, far):
            watching.say({"subscribe": [item_id]})
            assert (await watching.hear())["status"] == "pending"
        waiting = asyncio.create_task(http.get(f"/demo/items/{item_id}?waitMs=60000"))
        await until_it_says(there, "", lambda _: len(there.engine("demo").hub._watchers[item_id]) == 2)
        engine = here.engine("demo")
        await asyncio.gather(engine.ask(Change(item_id, Cancel())), engine.ask(Delete(item_id)))
        assert (await near.hear())["status"] == "cancelled"
        assert await far.closed() == 1012
        assert (await waiting).status_code == 404


# ── Claims ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("7.14")
@pytest.mark.parametrize("criteria", [{}, {"kind": "a"}])
async def test_a_waiting_claim_gets_what_is_posted_elsewhere(cluster: Cluster, criteria: Any) -> None:
    here, there = cluster.servers
    async with work(here) as worker:
        worker.say({"claim": {"criteria": criteria, "count": 3, "waitMs": 60_000}})
        await until_it_says(there, "/workers", lambda _: here.engine("demo").gauges.waiting_claims > 0)
        for _ in range(3):
            await ask(there, "POST", "/items", {"item": {"kind": "a"}})
        items = await worker.hear_all(3)
        assert len({item["id"] for item in items}) == 3


async def test_what_becomes_due_elsewhere_is_claimed_here(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as worker:
        worker.say({"claim": {"criteria": {"kind": "a"}, "waitMs": 60_000}})
        posted = await ask(there, "POST", "/items", {"item": {"kind": "a"}, "delayMs": 100})
        assert (await worker.hear())["id"] == posted["id"]


async def test_no_item_goes_to_two_workers(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as one, work(there) as other:
        for worker in (one, other):
            worker.say({"claim": {"count": 50, "waitMs": 60_000}})
        posts = [{"item": number} for number in range(50)]
        for server in (here, there):
            await ask(server, "POST", "/items", posts)
        items = [*await one.hear_all(50), *await other.hear_all(50)]
        assert len({item["id"] for item in items}) == 100


@pytest.mark.protocol("1.64", "1.69")
async def test_what_another_server_has_in_hand_is_passed_by(cluster: Cluster) -> None:
    """So the order is approximate, and nobody waits for long."""
    (here, _) = cluster.servers
    first, second = [
        (await ask(here, "POST", "/items", {"item": 1, "priority": priority}))["id"] for priority in (9, 1)
    ]
    another = await asyncpg.connect(cluster.url)
    async with another.transaction():
        await another.execute("SELECT FROM leaseway.item ORDER BY rank LIMIT 1 FOR UPDATE")
        assert (await ask(here, "POST", "/claim", {}))["id"] == second
        assert (await ask(here, "POST", "/claim", {}))["type"] == "empty"
    assert (await ask(here, "POST", "/claim", {"waitMs": 10_000}))["id"] == first
    await another.close()


# ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("4.60", "6.17")
async def test_a_worker_resumes_on_any_server_at_no_loss(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as before:
        item_id = await claimed(before, there)
    async with work(there) as after:
        ack = await after.ask({"resume": {"worker": "box-1", "leases": [{"id": item_id, "attempts": 1}]}})
        assert ack["leases"][0]["accepted"]
        assert (await after.ask({"result": {"id": item_id, "attempts": 1, "value": 1}}))["accepted"]
    view = await ask(here, "GET", f"/items/{item_id}")
    assert (view["status"], view["attempts"], view["losses"]) == ("finished", 1, 0)


@pytest.mark.protocol("4.65", "4.71", "6.18")
async def test_a_lease_that_was_resumed_elsewhere_is_lost_here_and_stays_there(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as half_open, work(there) as after:
        await half_open.ask({"hello": {"worker": "box-1", "cancel": True}})
        item_id = await claimed(half_open, there)
        await after.ask({"resume": {"worker": "box-1", "leases": [{"id": item_id, "attempts": 1}]}})
        assert await half_open.hear() == {"type": "cancel", "id": item_id, "reason": "resumed"}
        half_open.cut()
        await until_it_says(here, "/workers", lambda facts: not facts["workers"])
        assert (await after.ask({"result": {"id": item_id, "value": 1}}))["accepted"]


@pytest.mark.protocol("4.68")
async def test_a_worker_is_told_what_is_cancelled_elsewhere(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as worker:
        await worker.ask({"hello": {"worker": "box-1", "cancel": True}})
        item_id = await claimed(worker, here)
        await ask(there, "POST", f"/items/{item_id}/cancel")
        assert await worker.hear() == {"type": "cancel", "id": item_id, "reason": "cancelled"}


# ── Why ──


@pytest.mark.protocol("5.130")
async def test_what_only_another_server_knows_is_no_reason(cluster: Cluster) -> None:
    here, there = cluster.servers
    item_id = (await ask(here, "POST", "/items", {"item": {"kind": "a"}}))["id"]

    def codes(answer: Any) -> list[str]:
        return [reason["code"] for reason in answer["reasons"]]

    assert codes(await ask(here, "GET", f"/items/{item_id}/why")) == ["no-worker"]
    async with work(there) as worker:
        assert (await worker.ask({"claim": {"criteria": {"kind": "b"}}}))["type"] == "empty"
        await until_it_says(here, f"/items/{item_id}/why", lambda answer: not codes(answer))
        assert codes(await ask(there, "GET", f"/items/{item_id}/why")) == ["no-match"]


# ── Pause, counts, figures ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("7.12")
async def test_a_key_is_held_on_every_server(cluster: Cluster) -> None:
    here, there = cluster.servers
    posts = [ask(server, "POST", "/items", {"item": 1, "key": "once"}) for server in (here, there) * 3]
    answers = await asyncio.gather(*posts)
    assert len({answer["id"] for answer in answers}) == 1
    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 5


@pytest.mark.protocol("5.46", "7.12")
async def test_a_pause_holds_on_every_server_at_once(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(there) as worker:
        worker.say({"claim": {"waitMs": 60_000}})
        await ask(here, "POST", "/pause")
        await ask(there, "POST", "/items", {"item": 1})
        await ask(here, "POST", "/items", {"item": 2})
        assert await ask(there, "POST", "/claim", {}) == {"type": "empty"}
        assert (await ask(there, "GET", ""))["paused"]
        await ask(here, "POST", "/unpause")
        assert (await worker.hear())["item"] in (1, 2)


@pytest.mark.protocol("7.16")
async def test_counts_workers_and_rates_are_those_of_all_servers(cluster: Cluster) -> None:
    here, there = cluster.servers
    async with work(here) as one, work(there), monitor(here) as first, monitor(there) as second:
        await claimed(one, there)
        await ask(there, "POST", "/items", [{"item": 1}, {"item": 2}])
        await ask(here, "POST", "/items", {"item": 3})

        def right(stats: Any) -> bool:
            counts, rates = stats["counts"], stats["rates"]
            stock = (counts["pending"], counts["processing"], stats["workers"])
            return (*stock, rates["posted"], rates["claimed"]) == (3, 1, 2, 4, 1)

        for socket in (first, second):
            socket.say({"stats": True})
            await hear_until(socket, right)
        for server in (here, there):
            await until_it_says(server, "", lambda facts: facts["counts"]["pending"] == 3)
            minutes = (await ask(server, "GET", "/rates"))["minutes"]
            assert sum(minute["posted"] for minute in minutes) == 4
