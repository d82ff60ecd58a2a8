"""A lease that one server gave, over HTTP or on a socket, and what is said of it over HTTP on another; also after the
first one died."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import OPEN, ask, quicken, running_cluster, until_it_says
from support.postgres import Postgres, run
from support.process import ServerProcess, server_process
from support.raw import raw_socket
from support.server import TestServer


class Pair:
    """Two servers of one database, of which the first may be killed."""

    def __init__(self, url: str, dies: ServerProcess, stays: TestServer) -> None:
        self.url = url
        self.dies = dies
        self.stays = stays

    async def says(self, verb: str, body: dict[str, Any]) -> Any:
        """The ack of the server that stays."""
        ack = await ask(self.stays, "POST", f"/{verb}", body)
        assert (ack["type"], ack["id"]) == (f"{verb}-ack", body["id"])
        return ack

    async def view(self, item_id: str) -> Any:
        """The item as that one shows it."""
        return await ask(self.stays, "GET", f"/items/{item_id}")


@pytest.fixture
async def pair(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1, OPEN) as cluster:
        (folder := tmp_path / "process").mkdir()
        async with server_process(folder, OPEN, store=cluster.url) as dies:
            yield Pair(cluster.url, dies, cluster.servers[0])


@pytest.mark.protocol("1.14", "5.40", "6.16")
@pytest.mark.parametrize("killed", [False, True], ids=["it lives", "it died"])
async def test_a_lease_over_http_is_used_on_any_server(pair: Pair, killed: bool) -> None:
    await ask(pair.stays, "POST", "/items", [{"item": number} for number in range(4)])
    leases = await ask(pair.dies, "POST", "/claim", {"count": 4, "worker": "box-1"})
    done, failed, released, renewed = [{"id": lease["id"], "attempts": lease["attempts"]} for lease in leases]
    if killed:
        await pair.dies.kill()
        await until_it_says(pair.stays, "/workers", lambda _: not pair.stays.engine("demo").epochs.alive)
    for lease in (done, failed, released, renewed):
        assert (await pair.says("renew", lease))["accepted"]
    assert (await pair.says("renew", renewed))["leaseUntil"] >= leases[3]["leaseUntil"]
    assert (await pair.says("progress", done | {"value": 50}))["accepted"]
    assert (await pair.says("result", done | {"value": "made"}))["accepted"]
    assert (await pair.says("fail", failed | {"error": {"message": "no"}, "retryable": False}))["status"] == "failed"
    assert (await pair.says("release", released))["status"] == "pending"
    view = await pair.view(done["id"])
    assert (view["status"], view["progress"], view["result"]) == ("finished", 50, "made")
    again = await pair.says("result", done | {"value": "made"})
    assert (again["accepted"], again["duplicate"]) == (False, True)
    view = await pair.view(renewed["id"])
    assert (view["status"], view["attempts"], view["losses"]) == ("processing", 1, 0)


@pytest.mark.protocol("5.40", "7.11")
async def test_a_lease_over_http_whose_server_died_ends_at_its_time_and_is_charged(pair: Pair) -> None:
    """It has no socket, and so its worker was never parted from it."""
    posted = await ask(pair.stays, "POST", "/items", {"item": 1})
    lease = await ask(pair.dies, "POST", "/claim", {"worker": "box-1"})
    assert lease["id"] == posted["id"]
    await run(pair.url, "UPDATE leaseway.item SET lease_until = 1")  # Who gave it believes in the time that it gave.
    await pair.dies.kill()
    again = await ask(pair.stays, "POST", "/claim", {"waitMs": 60_000})
    assert (again["id"], again["attempts"]) == (lease["id"], 2)
    told = await ask(pair.stays, "GET", f"/items/{lease['id']}/attempts")
    assert [(each["worker"], each["ending"]) for each in told["attempts"]] == [("box-1", "lost")]


@pytest.mark.protocol("1.13", "4.29")
async def test_a_sockets_lease_is_used_over_http_elsewhere_as_far_as_its_number_goes(pair: Pair) -> None:
    posts = await ask(pair.stays, "POST", "/items", [{"item": 1}, {"item": 2}])
    first, second = [{"id": item["id"], "attempts": 1} for item in posts["items"]]
    async with raw_socket(f"{pair.dies.ws_url}/demo/work") as worker:
        await worker.ask({"hello": {"worker": "box-1", "cancel": True}})
        worker.say({"claim": {"count": 2}})
        await worker.hear_all(2)
        for verb in ("renew", "progress", "release"):
            refused = await pair.says(verb, first | {"value": 1})
            assert (refused["accepted"], refused["reason"]) == (False, "not-holder"), verb
        assert (await pair.says("progress", {"id": first["id"], "value": 1}))["accepted"], "without a number"
        assert (await pair.says("result", first | {"value": "made"}))["accepted"]
        assert (await worker.ask({"renew": second}))["accepted"], "it holds the other one yet"
        await pair.dies.kill()
    assert (await pair.says("result", second | {"value": "made"}))["accepted"]
    for lease in (first, second):
        view = await pair.view(lease["id"])
        assert (view["status"], view["attempts"], view["losses"]) == ("finished", 1, 0)
