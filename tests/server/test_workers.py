"""`GET /<queue>/workers` (PROTOCOL.md §5): who is connected, what it waits for and what it holds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.commands import Post, Read
from leaseway_server.core.model import NewItem
from leaseway_server.web import workers
from support.clock import START, ManualClock
from support.matrix import Line
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server
from support.wire import check_response


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, open_queue(lease='"1h"'), clock=ManualClock()) as server:
        yield server


async def connected(server: TestServer) -> list[dict[str, Any]]:
    """What is told of the workers."""
    async with Line(server.base_url) as line:
        answer = await line.ask("GET", "/demo/workers")
    check_response("GET", "/workers", answer.status, answer.json)
    return list(answer.json["workers"])


def work(server: TestServer) -> Any:
    return raw_socket(f"{server.ws_url}/demo/work")


async def settled(server: TestServer, socket: RawSocket) -> None:
    """What the socket said was done."""
    assert (await socket.ask({"ref": "settled"}))["ref"] == "settled"
    await server.engine("demo").ask(Read(()))


async def test_a_socket_that_said_nothing_is_there_and_a_monitor_is_not(server: TestServer) -> None:
    async with work(server), raw_socket(f"{server.ws_url}/demo/monitor"):
        assert await connected(server) == [
            {
                "worker": None,
                "user": None,
                "client": None,
                "labels": {},
                "connectedAt": START,
                "waiting": [],
                "holds": [],
            }
        ]


@pytest.mark.protocol("5.43", "5.84")
async def test_what_a_worker_said_waits_for_and_holds(server: TestServer) -> None:
    engine = server.engine("demo")
    clock = server.running._clock
    assert isinstance(clock, ManualClock)
    clock.advance(5)
    async with work(server) as first, work(server) as second:
        labels = {"zone": "ü", "gpus": [1, {"vramGb": 24}]}
        await first.ask({"hello": {"worker": "box-1", "client": "c/1", "labels": labels}})
        await engine.ask(Post(NewItem('{"a": 1}')))
        item = await first.ask({"claim": {"criteria": {"a": [1, 2]}, "count": 3, "waitMs": 60_000, "worker": "other"}})
        first.say({"claim": {"waitMs": 1_000}})
        await settled(server, first)
        second.say({"claim": {"worker": "box-2", "criteria": {"a": {"$lte": 3.0}}, "waitMs": 60_000}})
        await settled(server, second)
        found = await connected(server)
        assert [each["worker"] for each in found] == ["box-1", "box-2"], "who came first stands first"
        assert (found[0]["client"], found[0]["labels"], found[0]["connectedAt"]) == ("c/1", labels, START + 5)
        assert found[0]["waiting"] == [{"criteria": {"a": [1, 2]}, "count": 2}, {"criteria": {}, "count": 1}]
        assert found[0]["holds"] == [
            {"id": item["id"], "attempts": 1, "since": START + 5, "leaseUntil": item["leaseUntil"]}
        ]
        assert found[1]["waiting"] == [{"criteria": {"a": {"$lte": 3.0}}, "count": 1}]
        clock.advance(1_000)
        renewed = await first.ask({"renew": {"id": item["id"]}})  # Its second claim is over by now.
        while renewed["type"] != "renew-ack":
            renewed = await first.hear()
        (held,) = (await connected(server))[0]["holds"]
        assert (held["since"], held["leaseUntil"]) == (START + 5, renewed["leaseUntil"])
        await first.ask({"result": {"id": item["id"], "value": 1}})
        assert (await connected(server))[0]["holds"] == []
    while await connected(server):
        await server.engine("demo").ask(Read(()))


async def test_a_lease_that_moved_is_held_by_who_has_it_now(server: TestServer) -> None:
    await server.engine("demo").ask(Post(NewItem("1")))
    async with work(server) as old, work(server) as new:
        item = await old.ask({"claim": {"worker": "w"}})
        leases = [{"id": item["id"], "attempts": 1}]
        assert (await new.ask({"resume": {"worker": "w", "leases": leases}}))["leases"][0]["accepted"]
        found = await connected(server)
        assert [len(each["holds"]) for each in found] == [0, 1]


async def test_what_is_told_of_one_socket_is_bounded(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_HELD", 2)
    monkeypatch.setattr(workers, "AT_ONCE", 2)
    engine = server.engine("demo")
    for _ in range(3):
        await engine.ask(Post(NewItem("1")))
    async with work(server) as first, work(server), work(server):
        first.say({"claim": {"count": 3}})
        for _ in range(3):
            await first.hear()
        assert [len(each["holds"]) for each in await connected(server)] == [2, 0, 0]


@pytest.mark.protocol("4.80")
async def test_a_greeting_that_is_refused_is_not_told(server: TestServer) -> None:
    async with work(server) as socket:
        await socket.ask({"hello": {"worker": "box-1", "labels": {"a": 1}}})
        refused = await socket.ask({"hello": {"worker": "box-2", "client": "c", "labels": {"a": "x" * 2_000}}})
        assert (refused["code"], refused["errors"][0]["path"]) == ("too-large", "/labels")
        (found,) = await connected(server)
        assert (found["worker"], found["client"], found["labels"]) == ("box-1", None, {"a": 1})


async def test_other_methods_are_not_there(server: TestServer) -> None:
    async with Line(server.base_url) as line:
        for method in ("POST", "PATCH", "DELETE"):
            assert (await line.ask(method, "/demo/workers")).status == 405
