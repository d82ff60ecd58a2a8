"""`why` over HTTP: each cause is seeded, and named (PROTOCOL.md §5)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from leaseway_server.core import why as core
from leaseway_server.core.criteria import Criteria
from support import wire
from support.clock import ManualClock
from support.http_client import http_client
from support.matrix import Line, bearer
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

Reasons = list[tuple[str, str]]


class Scene:
    """A server whose time stands still, requests, and workers."""

    def __init__(self, server: TestServer, http: httpx.AsyncClient, clock: ManualClock, stack: AsyncExitStack) -> None:
        self.http = http
        self.clock = clock
        self._server = server
        self._stack = stack

    async def post(self, item: object = "item", **options: object) -> str:
        """Posts an item."""
        return str((await self.http.post("/items", json={"item": item} | options)).json()["id"])

    async def worker(self, name: str = "box-1") -> RawSocket:
        """A work socket that said hello."""
        socket = await self._stack.enter_async_context(raw_socket(f"{self._server.ws_url}/demo/work"))
        socket.say({"hello": {"worker": name}})
        await socket.hear()
        return socket

    async def why(self, item_id: str) -> dict[str, Any]:
        """The whole answer."""
        answer = await self.http.get(f"/items/{item_id}/why")
        assert answer.status_code == 200, answer.text
        wire.check_response("GET", f"/items/{item_id}/why", 200, answer.json())
        return dict(answer.json())

    async def reasons(self, item_id: str) -> Reasons:
        """The codes and messages of an item that waits."""
        answer = await self.why(item_id)
        assert answer["waiting"] is True
        return [(each["code"], each["message"]) for each in answer["reasons"]]

    async def fail(self, item_id: str, *, retryable: bool) -> None:
        """The item is claimed and fails."""
        item = (await self.http.post("/claim", json={})).json()
        assert item["id"] == item_id
        report = {"id": item_id, "attempts": item["attempts"], "error": {"message": "no"}, "retryable": retryable}
        assert (await self.http.post("/fail", json=report)).json()["accepted"]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = ManualClock()
    toml = open_queue(retry='{ delays = ["1m"], jitter = 0.0 }')
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(tmp_path, toml, clock=clock))
        base = f"{server.base_url}/demo"
        http = await stack.enter_async_context(http_client(base))
        yield Scene(server, http, clock, stack)


@pytest.mark.protocol("5.16")
async def test_it_is_due_later(scene: Scene) -> None:
    item_id = await scene.post(delayMs=90_000)
    assert ("not-due", "it is due in 90 s") in await scene.reasons(item_id)
    assert (await scene.why(item_id))["ahead"] == 0


@pytest.mark.protocol("5.16")
async def test_it_failed_and_waits_for_its_next_try(scene: Scene) -> None:
    item_id = await scene.post()
    await scene.fail(item_id, retryable=True)
    assert ("not-due", "it is due in 60 s, after attempt 1") in await scene.reasons(item_id)


@pytest.mark.protocol("5.17")
async def test_the_queue_is_paused(scene: Scene) -> None:
    item_id = await scene.post()
    await scene.http.post("/pause")
    assert [code for code, _ in await scene.reasons(item_id)] == ["paused", "no-worker"]


@pytest.mark.protocol("5.18")
async def test_others_come_first(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.post(priority=1)
    await scene.post()
    item_id = await scene.post()
    await scene.post()
    answer = await scene.why(item_id)
    assert answer["ahead"] == 2
    assert answer["reasons"][0] == {
        "code": "ahead",
        "message": "2 ready items come first, by priority, due time or age",
    }


@pytest.mark.protocol("5.19")
async def test_no_worker_is_there(scene: Scene) -> None:
    item_id = await scene.post()
    assert await scene.reasons(item_id) == [("no-worker", "no worker is connected")]


@pytest.mark.protocol("5.105")
async def test_the_workers_have_not_claimed_yet(scene: Scene) -> None:
    item_id = await scene.post()
    await scene.worker("box-7")
    ((code, message),) = await scene.reasons(item_id)
    assert code == "no-worker"
    assert message == "workers are connected, and none has claimed yet: box-7"


@pytest.mark.protocol("5.20")
async def test_no_claim_matches(scene: Scene) -> None:
    item_id = await scene.post({"format": "jpg", "size": {"width": 64}})
    worker = await scene.worker()
    worker.say({"claim": {"criteria": {"format": "jpg", "size": {"width": {"$gt": 99}}}, "waitMs": 60_000}, "ref": 1})
    worker.say({"renew": {"id": item_id}})
    await worker.hear()
    assert await scene.reasons(item_id) == [("no-match", 'no claim matches: box-1 asks for {"$gt":99} at /size/width')]


@pytest.mark.protocol("5.20")
async def test_a_claim_that_was_answered_with_empty_is_remembered(scene: Scene) -> None:
    item_id = await scene.post({"format": "jpg"})
    worker = await scene.worker()
    worker.say({"claim": {"criteria": {"format": "png"}}})
    assert (await worker.hear())["type"] == "empty"
    assert await scene.reasons(item_id) == [("no-match", 'no claim matches: box-1 asks for "png" at /format')]
    worker.say({"claim": {"criteria": {"colour": ["red"]}}})
    assert (await worker.hear())["type"] == "empty"
    assert await scene.reasons(item_id) == [("no-match", 'no claim matches: box-1 asks for ["red"] at /colour')]
    worker.cut()


@pytest.mark.protocol("5.21", "5.105")
async def test_all_that_match_hold_work(scene: Scene) -> None:
    worker = await scene.worker()
    worker.say({"claim": {}})
    assert (await worker.hear())["type"] == "empty"
    first, second = await scene.post(), await scene.post()
    worker.say({"claim": {}})
    assert (await worker.hear())["id"] == first
    assert await scene.reasons(second) == [("busy", "each worker whose claim matches holds work: box-1")]
    worker.say({"release": {"id": first}})
    await worker.hear()
    codes = [code for code, _ in await scene.reasons(second)]
    assert codes == ["ahead", "no-worker"]


@pytest.mark.protocol("5.22")
async def test_it_is_held(scene: Scene) -> None:
    item_id = await scene.post()
    worker = await scene.worker()
    worker.say({"claim": {}})
    assert (await worker.hear())["id"] == item_id
    scene.clock.advance(30_000)
    answer = await scene.why(item_id)
    message = "worker box-1 has held it for 30 s, and does for 5 min more unless it is renewed"
    assert answer == {"waiting": False, "reasons": [{"code": "held", "message": message}], "ahead": 0}


@pytest.mark.protocol("5.91")
@pytest.mark.parametrize("how", ["finished", "failed", "cancelled", "expired"])
async def test_it_has_ended(scene: Scene, how: str) -> None:
    item_id = await scene.post(ttlMs=5_000)
    if how == "finished":
        item = (await scene.http.post("/claim", json={})).json()
        await scene.http.post("/result", json={"id": item_id, "attempts": item["attempts"], "value": 1})
    elif how == "failed":
        await scene.fail(item_id, retryable=False)
    elif how == "cancelled":
        await scene.http.post(f"/items/{item_id}/cancel")
    scene.clock.advance(5_000)
    await scene.post()
    answer = await scene.why(item_id)
    assert answer["waiting"] is False
    assert answer["ahead"] == 0
    assert [each["code"] for each in answer["reasons"]] == [how]


async def test_a_waiting_request_is_a_worker_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    item_id = await scene.post({"format": "jpg"})
    criteria = Criteria.parse({"format": "png"})
    monkeypatch.setattr("leaseway_server.runtime.looking.Looking.asked", lambda _self: [criteria])
    assert [code for code, _ in await scene.reasons(item_id)] == ["no-match"]


@pytest.mark.protocol("5.107")
async def test_more_than_are_counted_are_at_least_so_many(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaseway_server.web.why.MOST_AHEAD", 2)
    monkeypatch.setattr(core, "MOST_AHEAD", 2)
    ids = [await scene.post() for _ in range(4)]
    assert [(await scene.why(item_id))["ahead"] for item_id in ids] == [0, 1, 2, 2]
    assert (await scene.reasons(ids[3]))[0][1].startswith("at least 2 ready items")


@pytest.mark.protocol("5.116", "5.117")
async def test_who_sees_only_its_own_is_told_nothing_of_others(tmp_path: Path) -> None:
    """Others' items come first, and workers with names, users and criteria are there: none of it is told."""
    toml = '[queues.own]\nvisibility = "own"\naccess = { work = ["box-secret"], admin = ["root"] }\n'
    users: Any = {"ann": [], "bob": [], "box-secret": [], "root": []}
    async with (
        running_server(tmp_path, toml, users=users) as server,
        Line(server.base_url) as line,
        raw_socket(f"{server.ws_url}/own/work?token={server.tokens['box-secret']}") as worker,
    ):
        callers = {user: bearer(token) for user, token in server.tokens.items()}

        async def post(user: str, item: str, **options: int) -> str:
            return str((await line.ask("POST", "/own/items", callers[user], {"item": item, **options})).json["id"])

        async def why(user: str, item_id: str) -> tuple[list[str], int | None, str]:
            answer = await line.ask("GET", f"/own/items/{item_id}/why", callers[user])
            wire.check_response("GET", f"/items/{item_id}/why", 200, answer.json)
            return [each["code"] for each in answer.json["reasons"]], answer.json["ahead"], str(answer.json)

        async def both(item_id: str, codes: list[str], ahead: int) -> None:
            """What bob, whose item it is, hears and what those hear who see all."""
            heard, count, text = await why("bob", item_id)
            assert (heard, count, "secret" in text) == ([code for code in codes if code != "ahead"], None, False)
            for user in ("root", "box-secret"):
                assert (await why(user, item_id))[:2] == (codes, ahead)

        for _ in range(3):
            await post("ann", "secret", priority=1)
        waits = await post("bob", "mine")
        await both(waits, ["ahead", "no-worker"], 3)
        await worker.ask({"hello": {"worker": "secret-1"}})
        await both(waits, ["ahead", "no-worker"], 3)
        assert (await worker.ask({"claim": {"criteria": {"$in": ["secret", "secret-2"]}}}))["type"] == "item"
        await both(waits, ["ahead", "no-match"], 2)
        assert (await worker.ask({"claim": {"criteria": {"$in": ["mine"]}}}))["id"] == waits
        await both(waits, ["held"], 0)
        await both(await post("bob", "mine"), ["ahead", "busy"], 2)
        await both(await post("bob", "later", delayMs=60_000), ["not-due", "ahead", "no-match"], 3)
        ended = await post("bob", "ended")
        await line.ask("POST", f"/own/items/{ended}/cancel", callers["bob"], {})
        await both(ended, ["cancelled"], 0)


async def test_what_one_may_not_see_has_no_reasons(tmp_path: Path) -> None:
    toml = '[queues.own]\nvisibility = "own"\naccess = { work = [], admin = ["root"] }\n'
    users: Any = {"ann": [], "bob": [], "root": []}
    async with running_server(tmp_path, toml, users=users) as server, Line(server.base_url) as line:
        callers = {user: bearer(token) for user, token in server.tokens.items()}
        item_id = (await line.ask("POST", "/own/items", callers["ann"], {"item": 1})).json["id"]
        for user, status in (("ann", 200), ("bob", 404), ("root", 200)):
            assert (await line.ask("GET", f"/own/items/{item_id}/why", callers[user])).status == status
        absent = await line.ask("GET", "/own/items/0123456789abcdef/why", callers["bob"])
        assert absent == await line.ask("GET", f"/own/items/{item_id}/why", callers["bob"])
