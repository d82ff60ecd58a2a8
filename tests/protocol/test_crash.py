"""PROTOCOL.md §6 and §7: what a server that was killed still knows of the work that was under way."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from support.http_client import http_client
from support.process import server_process
from support.raw import raw_socket
from support.server import open_queue


def stored_leases(data: Path, copy: Path) -> list[int]:
    """When the leases end, by a copy of the file and its log: whoever opens them himself writes them back."""
    shutil.copytree(data, copy)
    file = sqlite3.connect(copy / "demo.db")
    ends = [until for (until,) in file.execute("SELECT lease_until FROM item")]
    file.close()
    return ends


@pytest.mark.protocol("6.13", "7.2", "4.60")
async def test_after_kill_9_leases_are_resumed_and_progress_is_there(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        async with http_client(server.base_url) as http, raw_socket(f"{server.ws_url}/demo/work") as worker:
            item_id = (await http.post("/demo/items", json={"item": 1})).json()["id"]
            assert (await worker.ask({"claim": {"worker": "w"}}))["attempts"] == 1
            assert (await worker.ask({"progress": {"id": item_id, "value": {"page": 7}}}))["accepted"]
            await server.restart()
        async with http_client(server.base_url) as http, raw_socket(f"{server.ws_url}/demo/work") as again:
            seen = (await http.get(f"/demo/items/{item_id}")).json()
            assert (seen["status"], seen["progress"]) == ("processing", {"page": 7})
            resumed = await again.ask({"resume": {"worker": "w", "leases": [{"id": item_id, "attempts": 1}]}})
            assert resumed["leases"][0]["accepted"]
            assert (await again.ask({"result": {"id": item_id, "value": "done"}}))["accepted"]
            seen = (await http.get(f"/demo/items/{item_id}")).json()
            assert (seen["attempts"], seen["losses"], seen["result"]) == (1, 0, "done")


@pytest.mark.protocol("7.2", "6.16")
async def test_after_kill_9_a_lease_over_http_ends_when_its_last_renewal_said(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue(lease='"1h"')) as server, http_client(server.base_url) as http:
        item_id = (await http.post("/demo/items", json={"item": 1})).json()["id"]
        claimed = (await http.post("/demo/claim", json={})).json()
        until = claimed["leaseUntil"]
        while until <= claimed["leaseUntil"]:  # Until the server's clock has gone on by a millisecond.
            renewed = (await http.post("/demo/renew", json={"id": item_id, "attempts": 1})).json()
            until = renewed["leaseUntil"]
        await server.kill()
        assert stored_leases(server.data, tmp_path / "copy") == [until]
        await server.start()
        claim = (await http.post("/demo/claim", json={})).json()
        assert claim == {"type": "empty"}, "it is still leased"
