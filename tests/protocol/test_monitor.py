"""PROTOCOL.md §3, as a stranger sees it: one queue a socket, one view at every door, and when an end was fetched."""

from pathlib import Path

import pytest

from leaseway_server.core.commands import Found, Read
from support.clock import START, ManualClock
from support.http_client import http_client
from support.raw import PING, PONG, raw_socket
from support.server import TestServer, open_queue, running_server


@pytest.mark.protocol("3.6")
async def test_a_socket_watches_one_queue(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, open_queue("here") + open_queue("there")) as server,
        http_client(server.base_url) as http,
        raw_socket(f"{server.ws_url}/here/monitor") as monitor,
    ):
        here = (await http.post("/here/items", json={"item": 1})).json()["id"]
        there = (await http.post("/there/items", json={"item": 1})).json()["id"]
        assert (await monitor.ask({"subscribe": [there, here]}))["id"] == here
        assert (await http.post(f"/there/items/{there}/cancel")).json()["status"] == "cancelled"
        assert (await http.post(f"/here/items/{here}/cancel")).json()["status"] == "cancelled"
        assert (await monitor.hear())["id"] == here
        assert (await monitor.ask({"hello": {}}))["queue"] == "here"


@pytest.mark.protocol("3.10", "5.10")
async def test_the_view_is_the_same_at_both_doors_in_every_state(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path) as server,
        http_client(server.base_url) as http,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        item_id = (await http.post("/demo/items", json={"item": 1, "meta": {"a": [1.0]}, "priority": 3})).json()["id"]
        report = {"id": item_id, "attempts": 2}
        steps = [
            {"hello": {}},
            {"claim": {"worker": "w"}},
            {"progress": {"id": item_id, "value": {"percent": 1}}},
            {"fail": {"id": item_id, "error": {"message": "no", "detail": [1]}, "retryInMs": 0}},
            {"claim": {"waitMs": 60_000}},
            {"result": report | {"value": {"done": True}}},
        ]
        seen: list[str] = []
        for step in steps:
            await work.ask(step)
            view = (await http.get(f"/demo/items/{item_id}")).json()
            assert await monitor.ask({"subscribe": [item_id]}) == view
            monitor.say({"unsubscribe": [item_id]})
            assert view["type"] == "status"
            seen.append(view["status"])
    assert seen == ["pending", "processing", "processing", "pending", "processing", "finished"]


async def fetched_at(server: TestServer, item_id: str) -> int:
    """When the server took the item's end as fetched; 0 where it was not."""
    engine = server.engine("demo")
    async with raw_socket(f"{server.ws_url}/demo/monitor") as other:
        await other.ask({"post": {"item": "a turn that is synced: the stamps go with it"}})
    found = await engine.ask(Read((item_id,)))
    assert isinstance(found, Found)
    return found.items[item_id].fetched_at


@pytest.mark.protocol("3.17", "3.19")
@pytest.mark.parametrize("door", ["a subscription", "a GET", "a GET that waits"])
async def test_the_first_delivery_of_an_end_stamps_it(door: str, tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_server(tmp_path, clock=clock) as server, http_client(server.base_url) as http:
        item_id = (await http.post("/demo/items", json={"item": 1})).json()["id"]
        await http.get(f"/demo/items/{item_id}")
        assert (await http.post("/demo/result", json={"id": item_id, "value": 1})).json()["accepted"]
        assert await fetched_at(server, item_id) == 0, "what was seen was no end"
        clock.advance(10)
        async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
            if door == "a subscription":
                assert (await monitor.ask({"subscribe": [item_id]}))["status"] == "finished"
                await monitor.answers_ping()
            else:
                params = {"waitMs": 60_000} if door == "a GET that waits" else {}
                assert (await http.get(f"/demo/items/{item_id}", params=params)).json()["status"] == "finished"
            assert await fetched_at(server, item_id) == START + 10
            clock.advance(10)
            await http.get(f"/demo/items/{item_id}")
            assert await fetched_at(server, item_id) == START + 10, "the first one counts"


@pytest.mark.protocol("3.49", "5.122")
async def test_who_looks_on_stamps_nothing_and_takes_no_end_from_its_producer(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, clock=clock, users={"ann": ()}) as server,
        http_client(server.base_url) as http,
        raw_socket(f"{server.ws_url}/demo/monitor?token={server.tokens['ann']}") as onlooker,
    ):
        ann = {"Authorization": f"Bearer {server.tokens['ann']}"}
        item_id = (await http.post("/demo/items", json={"item": 1}, headers=ann)).json()["id"]
        assert (await http.post("/demo/result", json={"id": item_id, "value": 1})).json()["accepted"]
        clock.advance(10)
        for query in ("stamp=false", "stamp=false&waitMs=60000"):
            assert (await http.get(f"/demo/items/{item_id}?{query}", headers=ann)).json()["status"] == "finished"
        await onlooker.ask({"hello": {"stamp": False}})
        for subscription in ([item_id], {"mine": True}):
            assert (await onlooker.ask({"subscribe": subscription}))["status"] == "finished"
            onlooker.frame(PING, b"read?")
            assert ((frame := await onlooker.next()).opcode, frame.data) == (PONG, b"read?"), "no ping of the server's"
        assert await fetched_at(server, item_id) == 0
        async with raw_socket(f"{server.ws_url}/demo/monitor?token={server.tokens['ann']}") as producer:
            assert (await producer.ask({"subscribe": {"mine": True}}))["id"] == item_id
            await producer.answers_ping()
        assert await fetched_at(server, item_id) == START + 10
