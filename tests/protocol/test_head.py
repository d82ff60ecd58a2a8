"""The head of PROTOCOL.md, as a stranger sees it: paths, times, and that nobody meets what it did not ask for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.clock import START, ManualClock
from support.http_client import http_client
from support.raw import raw_socket
from support.server import open_queue, running_server

Message = dict[str, Any]
CORE_OF_WORK = {"item", "empty", "progress-ack", "result-ack", "error"}


@pytest.mark.protocol("0.6", "0.7")
async def test_each_queue_has_a_path_of_its_own_and_its_name_is_read_decoded(tmp_path: Path) -> None:
    longest = "a" + "_" * 62
    queues = open_queue("left") + open_queue("right-2") + open_queue(longest)
    async with running_server(tmp_path, queues) as server, http_client(server.base_url) as http:
        posted = (await http.post("/l%65ft/items", json={"item": "for the left"})).json()
        for queue in ("right-2", longest):
            assert (await http.post(f"/{queue}/claim", json={})).json() == {"type": "empty"}
            assert (await http.get(f"/{queue}/items/{posted['id']}")).status_code == 404
        claimed = (await http.post("/left/claim", json={})).json()
        assert (claimed["id"], claimed["item"]) == (posted["id"], "for the left")
        for stranger in ("Left", "left%20", longest + "a", "-left", "_left"):
            assert (await http.post(f"/{stranger}/items", json={"item": 1})).status_code == 404


@pytest.mark.protocol("0.9", "0.10")
async def test_times_are_whole_milliseconds_of_the_servers_clock(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, open_queue(lease='"90s"'), clock=clock) as server:
        async with http_client(server.base_url) as http, raw_socket(f"{server.ws_url}/demo/work") as work:
            posted = (await http.post("/demo/items", json={"item": 1, "ttlMs": 3_600_000})).json()
            assert (posted["postedAt"], posted["dueAt"]) == (START, START)
            clock.advance(7)
            claimed = await work.ask({"claim": {}})
            assert (claimed["leaseUntil"], claimed["leaseMs"]) == (START + 7 + 90_000, 90_000)
            seen = (await http.get(f"/demo/items/{posted['id']}")).json()
        expected = {"postedAt": START, "expiresAt": START + 3_600_000, "startedAt": START + 7, "updatedAt": START + 7}
        assert {name: seen[name] for name in expected} == expected
        assert all(isinstance(seen[name], int) for name in expected)


@pytest.mark.protocol("0.5")
async def test_a_client_of_the_core_meets_nothing_of_the_plus_kind(tmp_path: Path) -> None:
    """It holds an item that is cancelled, one that another finishes, and says much at once: its answers are all."""
    async with (
        running_server(tmp_path) as server,
        http_client(server.base_url) as http,
        raw_socket(f"{server.ws_url}/demo/work") as core,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        ids = [(await http.post("/demo/items", json={"item": number})).json()["id"] for number in range(3)]
        monitor.say({"subscribe": ids})
        heard = [await core.ask({"claim": {}}) for _ in ids]
        await http.post(f"/demo/items/{ids[0]}/cancel")
        await http.post("/demo/result", json={"id": ids[1], "value": "found"})
        said: list[Message] = [{"progress": {"id": item_id, "value": 1}} for item_id in ids]
        said += [{"result": {"id": item_id, "value": 1}} for item_id in ids]
        for message in [*said, {"claim": {}}, {"nothing": 1}]:
            core.say(message)
        heard += [await core.hear() for _ in range(8)]
        assert [message["type"] for message in heard[3:]] == ["progress-ack"] * 3 + ["result-ack"] * 3 + [
            "empty",
            "error",
        ]
        assert {message["type"] for message in heard} <= CORE_OF_WORK
        ended: set[str] = set()
        while ended != set(ids):
            view = await asyncio.wait_for(monitor.hear(), 10)
            assert view["type"] == "status"
            ended |= {view["id"]} if view["finishedAt"] else set()
