"""The system clock may be set while the server runs: no lease ends by that, no time goes back (`faults.md`, 11)."""

import time
from pathlib import Path
from typing import Any

import pytest

from support.raw import raw_socket
from support.server import open_queue, running_server

HOUR = 3_600
STEPS = [1, -1, HOUR, -HOUR, 24 * HOUR, -24 * HOUR]


async def test_a_step_of_the_systems_clock_ends_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.time
    async with (
        running_server(tmp_path, open_queue(lease='"30s"')) as server,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
    ):

        async def look(item_id: str) -> dict[str, Any]:
            async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
                return dict(await monitor.ask({"subscribe": [item_id]}))

        async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
            held = (await monitor.ask({"post": {"item": "held"}}))["id"]
            later = (await monitor.ask({"post": {"item": "later", "delayMs": 60_000, "ttlMs": 120_000}}))["id"]
        last = (await worker.ask({"claim": {}}))["leaseUntil"]
        updated_at = 0
        for step in STEPS:
            monkeypatch.setattr(time, "time", lambda step=step: at() + step)
            assert (await worker.ask({"claim": {}})) == {"type": "empty"}, "what is due later is not due by a step"
            assert (await worker.ask({"progress": {"id": held, "value": step}}))["accepted"]
            renewed = await worker.ask({"renew": {"id": held}})
            assert renewed["accepted"]
            assert last <= renewed["leaseUntil"] < last + 20_000
            last = renewed["leaseUntil"]
            seen = await look(held)
            assert (seen["status"], seen["attempts"], seen["losses"]) == ("processing", 1, 0)
            assert updated_at <= seen["updatedAt"] < last
            updated_at = seen["updatedAt"]
            assert (await look(later))["label"] == "scheduled"
        assert (await worker.ask({"result": {"id": held, "value": 1}}))["accepted"]
