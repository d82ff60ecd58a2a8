"""A producer and a worker by somebody who read PROTOCOL.md §3 and §4, and used `websockets`, `json` and nothing else.

Only the core: no hello, no attempts, no ref, no waiting. What a stranger needs must be in there.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from websockets import connect

from support.server import TestServer, resize_queue, running_server

PICTURE = {"image": "data:image/png;base64,iVBORw0KGgo=", "format": "png", "width": 320}
SMALL = {
    "image": "data:image/png;base64,iVBORw0KGgo=",
    "width": 320,
    "height": 200,
    "palette": ["#ffffff"],
    "luminance": 0.5,
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, resize_queue()) as server:
        yield server


# ── What the stranger wrote ──


def post(base: str, item: Any) -> str:
    """A producer without any library."""
    request = Request(f"{base}/resize/items", json.dumps({"item": item}).encode(), {"Content-Type": "application/json"})  # noqa: S310  our own server
    with urlopen(request) as answer:  # noqa: S310  our own server
        assert answer.status == 201
        return str(json.load(answer)["id"])


async def watch(base: str, ids: list[str]) -> dict[str, list[Any]]:
    """Watches until all have ended; gives all that was pushed, by item."""
    views: dict[str, list[Any]] = {item_id: [] for item_id in ids}
    ended: set[str] = set()
    async with connect(f"{base.replace('http', 'ws', 1)}/resize/monitor") as socket:
        await socket.send(json.dumps({"subscribe": ids}))
        while len(ended) < len(ids):
            view = json.loads(await socket.recv())
            views[view["id"]].append(view)
            if view["status"] not in ("pending", "processing"):
                ended.add(view["id"])
    return views


async def work(base: str, name: str, done: list[tuple[str, str]]) -> None:
    """Works until there is nothing left; notes (worker, item) for each result that was accepted."""
    async with connect(f"{base.replace('http', 'ws', 1)}/resize/work") as socket:
        while True:
            await socket.send(json.dumps({"claim": {}}))
            message = json.loads(await socket.recv())
            if message["type"] == "empty":
                return
            item_id = message["id"]
            for percent in (0, 50, 100):
                progress = {"percent": percent, "stage": "resizing"}
                await socket.send(json.dumps({"progress": {"id": item_id, "value": progress}}))
                assert json.loads(await socket.recv())["accepted"]
            await socket.send(json.dumps({"result": {"id": item_id, "value": SMALL}}))
            ack = json.loads(await socket.recv())
            if ack["accepted"]:
                done.append((name, item_id))


# ── What it comes to ──


@pytest.mark.protocol("0.2")
async def test_pictures_posted_over_http_are_done_by_two_workers_and_seen(server: TestServer) -> None:
    ids = [await asyncio.to_thread(post, server.base_url, PICTURE) for _ in range(12)]
    done: list[tuple[str, str]] = []
    watching = asyncio.create_task(watch(server.base_url, ids))
    await asyncio.gather(work(server.base_url, "one", done), work(server.base_url, "two", done))
    views = await watching
    assert sorted(item_id for _, item_id in done) == sorted(ids), "each of them once"
    for item_id in ids:
        assert views[item_id][-1]["status"] == "finished"
        assert views[item_id][-1]["result"] == SMALL
        assert views[item_id][-1]["attempts"] == 1
        percents = [view["progress"]["percent"] for view in views[item_id] if view["progress"]]
        assert percents == sorted(percents)


async def test_an_item_whose_worker_vanished_is_done_by_the_other(server: TestServer) -> None:
    item_id = await asyncio.to_thread(post, server.base_url, PICTURE)
    watching = asyncio.create_task(watch(server.base_url, [item_id]))
    async with connect(f"{server.ws_url}/resize/work") as doomed:
        await doomed.send(json.dumps({"claim": {}}))
        assert json.loads(await doomed.recv())["id"] == item_id
        doomed.transport.abort()
        await doomed.wait_closed()
    done: list[tuple[str, str]] = []
    while not done:
        await work(server.base_url, "other", done)
    assert done == [("other", item_id)]
    view = (await watching)[item_id][-1]
    assert (view["status"], view["attempts"]) == ("finished", 2)


async def test_a_worker_that_comes_late_is_told_so(server: TestServer) -> None:
    """Another finished it meanwhile: the result is answered, and changes nothing."""
    item_id = await asyncio.to_thread(post, server.base_url, PICTURE)
    async with connect(f"{server.ws_url}/resize/work") as late, connect(f"{server.ws_url}/resize/work") as other:
        await late.send(json.dumps({"claim": {}}))
        assert json.loads(await late.recv())["id"] == item_id
        await other.send(json.dumps({"result": {"id": item_id, "value": SMALL}}))
        assert json.loads(await other.recv())["accepted"]
        for report in (
            {"progress": {"id": item_id, "value": {"percent": 1}}},
            {"result": {"id": item_id, "value": SMALL}},
        ):
            await late.send(json.dumps(report))
            ack = json.loads(await late.recv())
            assert (ack["accepted"], ack["status"]) == (False, "finished")


async def test_mistakes_are_told_where_they_are_and_cost_nothing(server: TestServer) -> None:
    item_id = await asyncio.to_thread(post, server.base_url, PICTURE)
    async with connect(f"{server.ws_url}/resize/work") as socket:

        async def said(text: str) -> Any:
            await socket.send(text)
            return json.loads(await socket.recv())

        assert (await said("{"))["code"] == "bad-json"
        assert (await said("{}"))["code"] == "bad-message"
        assert (await said('{"clame": {}}'))["code"] == "bad-message"
        assert (await said('{"claim": {}}'))["id"] == item_id
        wrong = await said(json.dumps({"progress": {"id": item_id, "value": {"percent": "half"}}}))
        assert (wrong["type"], wrong["id"], wrong["code"]) == ("error", item_id, "schema")
        assert [fault["path"] for fault in wrong["errors"]] == ["/percent"]
        assert (await said(json.dumps({"result": {"id": item_id, "value": {}}})))["code"] == "schema"
        assert (await said(json.dumps({"result": {"id": item_id, "value": SMALL}})))["accepted"]
        nobodys = await said(json.dumps({"result": {"id": "0" * 16, "value": SMALL}}))
        assert (nobodys["accepted"], nobodys["status"]) == (False, None)


async def test_claims_by_criteria_take_what_matches(server: TestServer) -> None:
    png = await asyncio.to_thread(post, server.base_url, PICTURE)
    jpg = await asyncio.to_thread(post, server.base_url, PICTURE | {"format": "jpg"})
    async with connect(f"{server.ws_url}/resize/work") as socket:
        for wanted, found in (("jpg", jpg), ("jpg", None), ("png", png)):
            await socket.send(json.dumps({"claim": {"criteria": {"format": wanted}, "worker": "box-1"}}))
            message = json.loads(await socket.recv())
            assert message.get("id") == found
            assert message["type"] == ("item" if found else "empty")


async def test_a_producer_on_the_monitor_socket_sees_the_way_and_unknown_ids_are_ignored(server: TestServer) -> None:
    item_id = await asyncio.to_thread(post, server.base_url, PICTURE)
    async with connect(f"{server.ws_url}/resize/monitor") as socket:
        await socket.send(json.dumps({"subscribe": ["no id", 7, None, "f" * 16, item_id]}))
        assert json.loads(await socket.recv())["status"] == "pending"
        done: list[tuple[str, str]] = []
        await work(server.base_url, "one", done)
        statuses = []
        while "finished" not in statuses:
            statuses.append(json.loads(await socket.recv())["status"])
        await socket.send(json.dumps({"unsubscribe": [item_id]}))
        await socket.send(json.dumps({"subscribe": [item_id]}))
        assert json.loads(await socket.recv())["result"] == SMALL
