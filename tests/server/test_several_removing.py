"""Several servers remove items of one queue at once, by their time and on request, while others post and work."""

import asyncio
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from leaseway_server.runtime import deadlines
from support.cluster import Cluster, ask, quicken, running_cluster, until_it_says
from support.logged import logged
from support.postgres import Postgres
from support.raw import raw_socket
from support.server import TestServer, open_queue

TOML: Final = open_queue(keep='{ cancelled = "0s" }', dedupe_window='"0s"')
EACH: Final = 30
"""So many items are there on each server to be removed in one way, and so many in the other: more than in a turn."""
ORPHANS: Final = (
    "SELECT count(*) FROM leaseway.{} AS part WHERE NOT EXISTS (SELECT FROM leaseway.item WHERE seq = part.seq)"
)
IN_THE_WAY: Final = {"store.busy", "turn.failed"}


@pytest.mark.protocol("5.34", "7.8", "7.16")
async def test_servers_that_remove_items_at_once_remove_each_once_and_count_right(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    monkeypatch.setattr(deadlines, "LOOK_MS", 50)  # So that all of them prune at any time.
    with logged() as log:
        async with running_cluster(postgres, tmp_path, 3, TOML) as cluster:
            servers = cluster.servers
            await asyncio.gather(*map(fill, servers))
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(work(server, over)) for server in servers]
                deletes = [bulk(server, "delete", {"status": "failed"}) for server in servers]
                cancels = [bulk(server, "cancel", {"label": "scheduled"}) for server in servers]
                changed = await asyncio.gather(*deletes, *cancels)
                for server in servers:
                    await until_it_says(server, "", lambda facts: not facts["counts"]["cancelled"])
                over.set()
            worked = [each.result() for each in working]
            assert (sum(changed[:3]), sum(changed[3:])) == (3 * EACH, 3 * EACH), "each by one of them"
            assert all(worked), "others worked meanwhile"
            await check_counts(cluster, {"finished": sum(worked)})
    assert [entry for entry in log.entries if entry["event"] in IN_THE_WAY] == []


async def fill(server: TestServer) -> None:
    """Items that failed, and such as have a key and are due later."""
    async with raw_socket(f"{server.ws_url}/demo/work") as worker:
        await ask(server, "POST", "/items", [{"item": 1}] * EACH)
        worker.say({"claim": {"count": EACH, "waitMs": 60_000}})
        fault = {"error": {"message": "no"}, "retryable": False}
        worker.say({"fail": [{"id": item["id"], **fault} for item in await worker.hear_all(EACH)]})
        assert all(ack["accepted"] for ack in await worker.hear_all(EACH))
    posts = [{"item": 1, "key": f"{server.port} {number}", "delayMs": 3_600_000} for number in range(EACH)]
    await ask(server, "POST", "/items", posts)


async def bulk(server: TestServer, action: str, wanted: dict[str, Any]) -> int:
    """How many items it changed."""
    return int((await ask(server, "POST", "/bulk", {"action": action, "filter": wanted}))["changed"])


async def work(server: TestServer, over: asyncio.Event) -> int:
    """Posts an item and has one done, again and again. Gives how often."""
    done = 0
    while not over.is_set():
        await ask(server, "POST", "/items", {"item": 2})
        lease = await ask(server, "POST", "/claim", {"waitMs": 60_000})
        result = {"id": lease["id"], "attempts": lease["attempts"], "value": 1}
        done += (await ask(server, "POST", "/result", result))["accepted"]
    return done


async def check_counts(cluster: Cluster, expected: dict[str, int]) -> None:
    """So many items are there, and nothing of any other; each server says so."""
    connection = await asyncpg.connect(cluster.url)
    try:
        rows = await connection.fetch("SELECT status, count(*) FROM leaseway.item GROUP BY status")
        assert {row["status"]: row["count"] for row in rows} == expected
        for table in ("body", "result", "attempt"):
            assert await connection.fetchval(ORPHANS.format(table)) == 0, table
        assert (
            await connection.fetchval("SELECT sum(deadlocks) FROM pg_stat_database WHERE datname = current_database()")
            == 0
        )
    finally:
        await connection.close()
    for server in cluster.servers:
        await until_it_says(
            server, "", lambda facts: {name: number for name, number in facts["counts"].items() if number} == expected
        )
