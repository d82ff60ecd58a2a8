"""Leases when much happens at once: a result beside a cancel, a pause of the server, an item that kills its workers."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest

from support.clock import ManualClock
from support.raw import raw_socket
from support.server import open_queue, running_server

SHORT = '[server]\nping_interval = "1s"\nping_timeout = "1s"\n' + open_queue(lease='"2s"', retry="{ max_losses = 3 }")
"""A lease so short that a jump of a manual clock over its end does not look like a pause of the process (§7.3)."""


@pytest.mark.protocol("1.36", "5.25", "7.5")
async def test_of_a_result_and_a_cancel_at_once_one_counts_and_both_answers_say_so(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    async with (
        running_server(tmp_path) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False, timeout=30) as http,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        for number in range(24):
            item_id = (await http.post("/demo/items", json={"item": number})).json()["id"]
            assert (await work.ask({"claim": {}}))["id"] == item_id
            result = {"result": {"id": item_id, "attempts": 1, "value": number}}
            if number % 2:
                work.say(result)
            cancelling = asyncio.create_task(http.post(f"/demo/items/{item_id}/cancel"))
            for _ in range(number % 8 * 4):
                await asyncio.sleep(0)  # So many looks of the event loop later: either may come first.
            if not number % 2:
                work.say(result)
            ack, cancelled = await work.hear(), await cancelling
            seen = (await http.get(f"/demo/items/{item_id}")).json()
            assert ack["status"] == seen["status"]
            assert ack["accepted"] == (seen["status"] == "finished") == (cancelled.status_code == 409)
            assert seen["result"] == (number if ack["accepted"] else None)
            ends[seen["status"]] += 1
    assert ends.keys() == {"finished", "cancelled"}, f"the race went only one way: {ends}"


@pytest.mark.protocol("7.6")
async def test_after_a_pause_of_the_server_a_thousand_live_leases_are_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, clock=clock) as server,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        monitor.say({"batch": [{"post": {"item": number}} for number in range(1_000)]})
        ids = [(await monitor.hear())["id"] for _ in range(1_000)]
        held: list[str] = []
        while len(held) < 1_000:
            work.say({"claim": {"count": 100}})
            held += [(await work.hear())["id"] for _ in range(100)]
        assert sorted(held) == sorted(ids)
        clock.advance(3_600_000)
        work.say({"batch": [{"renew": {"id": item_id}} for item_id in held]})
        assert all([(await work.hear())["accepted"] for _ in held])
        monitor.say({"subscribe": ids})
        assert {(view["status"], view["losses"]) for view in [await monitor.hear() for _ in ids]} == {("processing", 0)}


@pytest.mark.protocol("1.53", "1.29", "1.30")
async def test_an_item_that_kills_its_workers_is_dead_and_the_others_proceed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, SHORT, clock=clock) as server,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        poison = (await monitor.ask({"post": {"item": "poison", "priority": 1}}))["id"]
        others = [(await monitor.ask({"post": {"item": number}}))["id"] for number in range(3)]
        for attempts in (1, 2, 3):
            async with raw_socket(f"{server.ws_url}/demo/work") as doomed:
                claimed = await doomed.ask({"claim": {"criteria": {"$in": ["poison"]}, "waitMs": 60_000}})
                assert (claimed["id"], claimed["attempts"]) == (poison, attempts)
                doomed.cut()
            async with raw_socket(f"{server.ws_url}/demo/work") as healthy:
                item_id = others[attempts - 1]
                assert (await healthy.ask({"claim": {"criteria": {"$lt": 3}}}))["id"] == item_id
                assert (await healthy.ask({"result": {"id": item_id, "value": "done"}}))["accepted"]
        clock.advance(2_000)  # The last loss leaves it with nobody until its lease ends.
        view = await monitor.ask({"subscribe": [poison]})
        while view["status"] == "processing":
            view = await monitor.hear()
        assert (view["status"], view["error"]["code"], view["losses"]) == ("dead", "poison", 3)
