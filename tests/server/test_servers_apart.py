"""Servers of one database: one dies, or has another clock; the database is cut off, or restarted."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest

from leaseway_server.__main__ import GONE
from leaseway_server.core.events import Claim
from leaseway_server.core.lifecycle import apply
from leaseway_server.core.model import HTTP, Item, NewItem
from leaseway_server.runtime import peers
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.epochs import BITS
from leaseway_server.store.moved import Mark
from leaseway_server.store.postgres import servers
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.store import PostgresStore
from support.cluster import OPEN, ask, hear_until, quicken, running_cluster, until, until_it_says
from support.model import POLICY
from support.pgbouncer import pgbouncer
from support.postgres import Postgres, fresh_database, own_postgres, run
from support.process import server_process
from support.raw import raw_socket
from support.server import TestServer
from support.stored import posted

LAST_BEAT = "SELECT max(beat_at) FROM leaseway.server"
WAITS_TO_FORGET = """SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM leaseway.activity%'"""
QUICK = OPEN.replace("[server]\n", '[server]\nresume_grace = "1s"\n')


async def all_ids(server: TestServer) -> set[str]:
    """Of all items that are there."""
    found: set[str] = set()
    path = "/items?limit=1000"
    while path:
        page = await ask(server, "GET", path)
        found |= {view["id"] for view in page["items"]}
        path = f"/items?limit=1000&cursor={page['next']}" if page["next"] else ""
    return found


# ── A server dies ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("1.33", "6.13", "6.15", "6.19", "7.11")
async def test_what_a_killed_server_held_is_resumed_elsewhere_or_requeued_at_no_loss(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1, QUICK) as cluster:
        (survivor,) = cluster.servers
        (folder := tmp_path / "process").mkdir()
        async with (
            server_process(folder, QUICK, store=cluster.url) as dies,
            raw_socket(f"{dies.ws_url}/demo/work") as worker,
            raw_socket(f"{dies.ws_url}/demo/work") as gone,
        ):
            posts = [{"item": number} for number in range(2)]
            resumed, parted = [each["id"] for each in (await ask(survivor, "POST", "/items", posts))["items"]]
            assert (await worker.ask({"claim": {"worker": "box-1"}}))["id"] == resumed
            assert (await gone.ask({"claim": {"worker": "box-2"}}))["id"] == parted
            await dies.kill()
        async with raw_socket(f"{survivor.ws_url}/demo/work") as back:
            ack = await back.ask({"resume": {"worker": "box-1", "leases": [{"id": resumed, "attempts": 1}]}})
            assert ack["leases"][0]["accepted"]
            waiting = await back.ask({"claim": {"waitMs": 60_000, "worker": "box-1"}})
            assert (waiting["id"], waiting["attempts"]) == (parted, 2)
            assert (await back.ask({"result": {"id": resumed, "value": 1}}))["accepted"]
            attempts = await ask(survivor, "GET", f"/items/{parted}/attempts")
            assert [(each["worker"], each["ending"]) for each in attempts["attempts"]] == [("box-2", "parted")]
            for item_id in (resumed, parted):
                assert (await ask(survivor, "GET", f"/items/{item_id}"))["losses"] == 0


async def claim(store: PostgresStore, holder: int, now: int) -> None:
    """An item that this socket claims for a moment."""
    (item,) = await posted(store, NewItem("1"), at=now)
    lease = replace(POLICY, lease=100)
    async with store.turn(durable=True) as turn:
        before = (await turn.load([item.id]))[item.id]
        after = apply(before, Claim(holder, "box", "box-1"), now, lease)
        assert isinstance(after, Item)
        await turn.save([(before, after)])
        await turn.commit()


async def claim_on_a_socket(store: PostgresStore, now: int) -> None:
    """One that is gone with its server."""
    await claim(store, store.epoch << BITS | 1, now)


async def claim_over_http(store: PostgresStore, now: int) -> None:
    """With a lease of its own."""
    await claim(store, HTTP, now)


async def post_for_later(store: PostgresStore, now: int) -> None:
    """An item that is to come due."""
    await posted(store, NewItem("1", delay_ms=100), at=now)


@pytest.mark.protocol("7.6", "7.11")
@pytest.mark.parametrize("does", [claim_on_a_socket, claim_over_http, post_for_later])
async def test_what_a_server_did_after_it_was_taken_for_gone_is_looked_after(
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[PostgresStore, int], Awaitable[None]],
) -> None:
    """It was merely silent, at first; then it dies, and nobody comes or goes."""
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1, QUICK) as cluster, await Database.open(cluster.url) as database:
        (survivor,) = cluster.servers
        epochs = survivor.engine("demo").epochs
        store = await PostgresStore.open(database, "demo", await servers.enter(database, "silent", "0"))
        store.numbering.announce = True
        await until(lambda: store.epoch in epochs.alive)
        await until(lambda: store.epoch not in epochs.alive)
        async with raw_socket(f"{survivor.ws_url}/demo/work") as worker:
            worker.say({"claim": {"worker": "box-2", "waitMs": 60_000}})
            await does(store, survivor.engine("demo").clock.now())
            await store.close()
            assert (await worker.hear())["item"] == 1


async def test_a_planned_stop_is_seen_at_once_and_its_last_changes_are_told(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    monkeypatch.setattr(servers, "GONE_MS", 3_600_000)  # Who is merely silent is not missed.
    async with running_cluster(postgres, tmp_path, 1, QUICK) as cluster:
        (stays,) = cluster.servers
        async with raw_socket(f"{stays.ws_url}/demo/monitor") as watching:
            async with cluster.another() as stops:
                posted = await watching.ask({"post": {"item": 1, "subscribe": True}})
                async with raw_socket(f"{stops.ws_url}/demo/work") as worker:
                    assert (await worker.ask({"claim": {"worker": "box-1"}}))["id"] == posted["id"]
                    await ask(stops, "POST", f"/items/{posted['id']}/cancel")
            views = await hear_until(watching, lambda view: bool(view.get("finishedAt")))
            assert views[-1]["status"] == "cancelled"
        await until_it_says(stays, "/workers", lambda _: not stays.engine("demo").epochs.alive)


async def test_a_server_says_that_it_lives_while_it_waits_to_forget_others(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever that waits for: else the others took it for gone meanwhile."""
    quicken(monkeypatch)
    monkeypatch.setattr(peers, "FORGET_SECONDS", 0.1)
    async with running_cluster(postgres, tmp_path, 1) as cluster:
        other, looks = [await asyncpg.connect(cluster.url) for _ in range(2)]
        await other.execute("BEGIN; LOCK TABLE leaseway.activity IN SHARE MODE")
        while not await looks.fetchval(WAITS_TO_FORGET):
            pass
        last = await looks.fetchval(LAST_BEAT)
        while await looks.fetchval(LAST_BEAT) == last:
            assert await looks.fetchval(WAITS_TO_FORGET)
        await other.close()
        await looks.close()


# ── Clocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Apart(Clock):
    """A clock that is so many ms off."""

    def __init__(self, ms: int) -> None:
        super().__init__()
        self._offset += ms / 1000


@pytest.mark.protocol("0.9", "7.17")
async def test_clocks_that_are_a_minute_apart_end_no_lease_and_agree(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    clocks = [Apart(60_000), Apart(-60_000)]
    async with running_cluster(postgres, tmp_path, 2, clocks=clocks) as cluster:
        fast, slow = cluster.servers
        assert abs(clocks[0].now() - clocks[1].now()) < 1_000
        async with raw_socket(f"{fast.ws_url}/demo/work") as worker:
            worker.say({"claim": {"worker": "box-1", "waitMs": 60_000}})
            posted = await ask(slow, "POST", "/items", {"item": 1})
            item = await worker.hear()
            assert item["id"] == posted["id"]
            assert abs(item["leaseUntil"] - item["leaseMs"] - posted["postedAt"]) < 30_000
            later = await ask(slow, "POST", "/items", {"item": 2, "delayMs": 200})
            worker.say({"claim": {"worker": "box-1", "waitMs": 10_000}})
            assert (await worker.hear())["id"] == later["id"]
            assert (await ask(slow, "GET", f"/items/{item['id']}"))["status"] == "processing"


# ── The database ────────────────────────────────────────────────────────────────────────────────────────────────────

CUT = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


@pytest.mark.protocol("7.21")
async def test_connections_that_are_cut_cost_nothing(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    """Those that listen too: what they would have heard is found by looking."""
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 2) as cluster:
        here, there = cluster.servers
        async with (
            raw_socket(f"{here.ws_url}/demo/monitor") as watching,
            raw_socket(f"{there.ws_url}/demo/work") as worker,
        ):
            for _ in range(3):
                worker.say({"claim": {"worker": "box-1", "waitMs": 60_000}})
                await run(cluster.url, CUT)
                posted = await watching.ask({"post": {"item": 1, "subscribe": True}})
                assert posted["type"] == "posted"
                item = await worker.hear()
                assert (item["id"], item["attempts"]) == (posted["id"], 1)
                await run(cluster.url, CUT)
                ack = await worker.ask({"result": {"id": item["id"], "value": 1}})
                assert ack["accepted"]
                views = await hear_until(watching, lambda view: bool(view.get("finishedAt")))
                assert views[-1]["status"] == "finished"
        for server in (here, there):
            assert not server.engine("demo").away


async def test_a_database_that_can_only_be_read_is_not_asked_again_and_again(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    """To show the others that somebody watches here would be to write."""
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1) as cluster:
        (server,) = cluster.servers
        engine = server.engine("demo")
        path = f"/items/{(await ask(server, 'POST', '/items', {'item': 1}))['id']}"
        name = urlsplit(cluster.url).path[1:]
        await postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await run(cluster.url, CUT)
        async with raw_socket(f"{server.ws_url}/demo/monitor") as watching:
            watching.say({"subscribe": [path.removeprefix("/items/")]})
            assert (await watching.hear())["status"] == "pending"
            await until(lambda: engine._next_deadline() > engine.clock.now())
            await postgres.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            await run(cluster.url, CUT)
            await ask(server, "POST", f"{path}/cancel")
            assert (await watching.hear())["status"] == "cancelled"


@pytest.mark.protocol("7.18", "7.20")
async def test_a_database_that_restarts_under_load_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    quicken(monkeypatch)
    with own_postgres() as postgres:
        async with running_cluster(postgres, tmp_path, 2) as cluster:
            promised: set[str] = set()
            refused: set[int] = set()
            over = asyncio.Event()

            async def post_on(base_url: str) -> None:
                async with httpx.AsyncClient(base_url=base_url) as http:
                    while not over.is_set():
                        answer = await http.post("/demo/items", json={"item": 1})
                        if answer.status_code == 201:
                            promised.add(answer.json()["id"])
                        else:
                            refused.add(answer.status_code)
                            assert "cannot reach its database" in answer.text

            async with raw_socket(f"{cluster.servers[0].ws_url}/demo/work") as worker, asyncio.TaskGroup() as group:
                for server in cluster.servers:
                    group.create_task(post_on(server.base_url))
                held = await worker.ask({"claim": {"worker": "box-1", "waitMs": 60_000}})
                await until(lambda: len(promised) >= 20)
                await asyncio.to_thread(postgres.stop)
                await until(lambda: bool(refused))
                await asyncio.to_thread(postgres.start)
                before = len(promised)
                await until(lambda: len(promised) >= before + 20)
                await until(lambda: not any(server.engine("demo").away for server in cluster.servers))
                over.set()
                assert (await worker.ask({"result": {"id": held["id"], "value": 1}}))["accepted"]
            found = await all_ids(cluster.servers[1])
            assert promised <= found
            assert refused == {503}


async def test_a_server_whose_tables_are_gone_ends_and_only_a_person_has_them_made_anew(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with fresh_database(postgres) as url, server_process(tmp_path, QUICK, store=url) as server:
        await run(url, "DROP SCHEMA leaseway CASCADE")
        assert (await server.ended()).status == GONE, "what starts it again by itself leaves it at that"
        assert b"its tables were removed or changed meanwhile" in server.output
        assert b"Traceback" not in server.output
        told = len(server.output)
        await server.start()
        assert b"event=store.made queue=demo" in server.output[told:]
        told = len(server.output)
        assert (await server.stop()).status == 0
        await server.start()
        assert b"store.made" not in server.output[told:]


async def test_a_server_whose_queue_was_moved_meanwhile_ends_and_only_a_person_starts_it_again(
    postgres: Postgres, tmp_path: Path
) -> None:
    """It stood still for so long that nobody took it for alive, and the move did not wait for it."""
    async with fresh_database(postgres) as url, server_process(tmp_path, QUICK, store=url) as server:
        mark = Mark("left", "1", "elsewhere", 0).text
        await run(url, f"UPDATE leaseway.queue SET move = '{mark}'")  # noqa: S608
        async with httpx.AsyncClient(base_url=server.base_url) as http:
            with suppress(httpx.TransportError):  # It may end before it says so.
                assert (await http.post("/demo/items", json={"item": 1})).status_code >= 500
        assert (await server.ended()).status == GONE
        assert b"was moved to another store" in server.output
        assert b"Traceback" not in server.output


@pytest.mark.protocol("7.15")
@pytest.mark.parametrize("listens", [True, False], ids=["with a listen_url", "by looking alone"])
async def test_servers_work_through_pgbouncer_in_transaction_mode(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    quicken(monkeypatch)
    with pgbouncer(postgres) as port:
        async with running_cluster(postgres, tmp_path, 0) as cluster:
            parts = urlsplit(cluster.url)
            pooled = urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{port}"))
            for _ in range(2):
                await cluster.add(url=pooled, listen_url=cluster.url if listens else "")
            here, there = cluster.servers
            async with (
                raw_socket(f"{here.ws_url}/demo/monitor") as watching,
                raw_socket(f"{there.ws_url}/demo/work") as worker,
            ):
                worker.say({"claim": {"worker": "box-1", "criteria": {"n": {"$lt": 9}}, "count": 3, "waitMs": 60_000}})
                for number in range(3):
                    await watching.ask({"post": {"item": {"n": number}, "key": f"key {number}", "subscribe": True}})
                for item in await worker.hear_all(3):
                    worker.say({"result": {"id": item["id"], "value": 1}})
                ends: set[str] = set()

                def all_ended(view: Any) -> bool:
                    ends.update([view["id"]] if view.get("finishedAt") else [])
                    return len(ends) == 3

                await hear_until(watching, all_ended)
            assert (await ask(there, "POST", "/items", {"item": {"n": 1}, "key": "key 1"}))["duplicate"]
