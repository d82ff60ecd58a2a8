"""The database's clock may be set while servers go by it, as when another machine takes over (`faults.md`)."""

import asyncio
from pathlib import Path

import pytest

from support.cluster import PATIENCE, ask, quicken, running_cluster
from support.database_clock import DatabaseClock
from support.postgres import Postgres
from support.raw import raw_socket
from support.server import open_queue

SECOND = 1_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
STEPS = [SECOND, -SECOND, HOUR, -HOUR, DAY, -DAY]
LEASE = 60 * SECOND
LONG = "[server]\n" + open_queue(lease='"60s"', progress_by='"90s"')
SHORT = '[server]\nping_interval = "1s"\nping_timeout = "1s"\n' + open_queue(lease='"2s"')


async def until_all_count_anew(clock: DatabaseClock, before: dict[int, int], step: int) -> None:
    """Waits until each of these leases has all its time by the clock as it is now; none may have ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            now, ends = await clock.lease_ends()
            assert ends.keys() == before.keys(), "a lease ended early"
            if all(before[seq] + step <= end <= now + LEASE for seq, end in ends.items()):
                return


@pytest.mark.protocol("1.70", "7.25", "7.26")
async def test_a_step_of_the_databases_clock_ends_no_lease(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 0, LONG) as cluster:
        clock = await DatabaseClock.take(cluster.url, monkeypatch)
        here, there = await cluster.add(), await cluster.add()
        async with raw_socket(f"{here.ws_url}/demo/work") as worker, raw_socket(f"{there.ws_url}/demo/work") as idle:
            held = [(await ask(here, "POST", "/items", {"item": number}))["id"] for number in range(2)]
            assert (await worker.ask({"claim": {"worker": "box-1"}}))["id"] == held[0]
            assert (await ask(there, "POST", "/claim", {"worker": "box-2"}))["id"] == held[1]
            idle.say({"claim": {"worker": "box-3", "waitMs": 60_000}})
            updated_at = 0
            for step in STEPS:
                _, ends = await clock.lease_ends()
                await clock.step(step)
                await until_all_count_anew(clock, ends, step)
                fresh = await cluster.add()
                assert (await worker.ask({"progress": {"id": held[0], "value": step}}))["accepted"]
                assert (await ask(fresh, "POST", "/renew", {"id": held[1], "attempts": 1}))["accepted"]
                for item_id in held:
                    view = await ask(fresh, "GET", f"/items/{item_id}")
                    assert (view["status"], view["attempts"], view["losses"]) == ("processing", 1, 0)
                view = await ask(fresh, "GET", f"/items/{held[0]}")
                assert updated_at <= view["updatedAt"]
                updated_at = view["updatedAt"]
            assert (await worker.ask({"result": {"id": held[0], "value": 1}}))["accepted"]
            assert (await ask(there, "POST", "/result", {"id": held[1], "attempts": 1, "value": 1}))["accepted"]
            last = await ask(here, "POST", "/items", {"item": 3})
            assert (await idle.hear())["id"] == last["id"], "it has waited all the time"


@pytest.mark.protocol("7.6", "7.25", "7.26")
@pytest.mark.parametrize("step", STEPS)
async def test_after_a_step_of_the_databases_clock_nothing_is_stuck(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """What nobody renews comes back, what is posted later comes due, claims end; long before the clock is where it was.

    A server that dies with the step is not taken for alive until then either.
    """
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 0, SHORT) as cluster:
        clock = await DatabaseClock.take(cluster.url, monkeypatch)
        here = await cluster.add()
        async with raw_socket(f"{here.ws_url}/demo/work") as worker:
            posted = await ask(here, "POST", "/items", {"item": 1})
            assert (await ask(here, "POST", "/claim", {"worker": "box-2"}))["id"] == posted["id"]
            worker.say({"claim": {"worker": "box-1", "waitMs": 60_000}})
            await clock.step(step)
            item = await worker.hear()
            assert (item["id"], item["attempts"]) == (posted["id"], 2)
            assert (await worker.ask({"result": {"id": item["id"], "value": 1}}))["accepted"]
            assert (await worker.ask({"claim": {"worker": "box-1", "waitMs": 100}})) == {"type": "empty"}
            later = await ask(here, "POST", "/items", {"item": 2, "delayMs": 100})
            worker.say({"claim": {"worker": "box-1", "waitMs": 60_000}})
            assert (await worker.hear())["id"] == later["id"]
