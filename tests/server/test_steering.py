"""What an administrator does to one item over HTTP: retry, another priority or due time, delete."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from support import wire
from support.clock import ManualClock
from support.http_client import http_client
from support.logged import logged
from support.raw import raw_socket
from support.server import TestServer, open_queue, running_server

NONE: Final = "0123456789abcdef"
JSON: Final = {"content-type": "application/json"}
STATUSES: Final = ("pending", "processing", "finished", "failed", "dead", "cancelled", "expired")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    toml = open_queue(dedupe_window='"0s"', retry="{ max_attempts = 1 }")
    async with running_server(tmp_path, toml, clock=ManualClock()) as server:
        yield server


@pytest.fixture
async def http(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(server.base_url) as http:
        yield http


def now(server: TestServer) -> int:
    return server.engine("demo").clock.now()


async def ask(http: httpx.AsyncClient, method: str, item_id: str, status: int, body: Any = None, what: str = "") -> Any:
    """The answer, which has this status and meets its schema."""
    path = f"/items/{item_id}{what}"
    answer = await http.request(method, f"/demo{path}", json=body)
    assert answer.status_code == status, (method, path, answer.text[:300])
    if status == 204:
        assert answer.content == b""
        return None
    wire.check_response(method, path, status, answer.json())
    return answer.json()


async def item_that_is(server: TestServer, http: httpx.AsyncClient, status: str, **options: Any) -> str:
    """An item in this status."""
    clock = server.running._clock
    assert isinstance(clock, ManualClock)
    options = {"item": {"status": status}, "ttlMs": 60_000} | options
    item_id = str((await http.post("/demo/items", json=options)).json()["id"])
    if status in ("processing", "finished", "failed", "dead"):
        held = (await http.post("/demo/claim", json={"criteria": {"status": status}})).json()
        assert held["id"] == item_id
    match status:
        case "finished":
            await http.post("/demo/result", json={"id": item_id, "value": 1})
        case "failed" | "dead":
            fail = {"id": item_id, "attempts": 1, "error": {"message": "no"}, "retryable": status == "dead"}
            await http.post("/demo/fail", json=fail)
        case "cancelled":
            await http.post(f"/demo/items/{item_id}/cancel")
        case "expired":
            clock.advance(60_000)
    wait = "?waitMs=9000" if status == "expired" else ""
    assert (await http.get(f"/demo/items/{item_id}{wait}")).json()["status"] == status
    return item_id


# ── In which state ──


@pytest.mark.protocol("5.26", "5.27")
@pytest.mark.parametrize("status", STATUSES)
async def test_a_retry_is_of_what_ended_without_a_result(
    server: TestServer, http: httpx.AsyncClient, status: str
) -> None:
    item_id = await item_that_is(server, http, status, key="k")
    before = (await http.get(f"/demo/items/{item_id}")).json()
    if status in ("failed", "dead", "cancelled", "expired"):
        view = await ask(http, "POST", item_id, 200, what="/retry")
        gone = dict.fromkeys(("error", "finishedAt", "expiresAt"))
        times = {"dueAt": now(server), "updatedAt": now(server), "rev": before["rev"] + 1}
        status_now = {"status": "pending", "label": "pending", "failures": 0, "losses": 0}
        assert view == before | gone | times | status_now
        assert (view["key"], view["attempts"]) == ("k", before["attempts"])
    else:
        assert (await ask(http, "POST", item_id, 409, what="/retry"))["code"] == "conflict"
        assert (await http.get(f"/demo/items/{item_id}")).json() == before


@pytest.mark.protocol("5.31", "5.32")
@pytest.mark.parametrize("status", STATUSES)
async def test_a_delete_is_of_what_ended(server: TestServer, http: httpx.AsyncClient, status: str) -> None:
    item_id = await item_that_is(server, http, status, key="k")
    before = (await http.get(f"/demo/items/{item_id}")).json()
    if status in ("pending", "processing"):
        assert (await ask(http, "DELETE", item_id, 409))["code"] == "conflict"
        assert (await http.get(f"/demo/items/{item_id}")).json() == before
        assert (await http.post("/demo/items", json={"item": 1, "key": "k"})).status_code == 409
        return
    await ask(http, "DELETE", item_id, 204)
    for method, what in (("GET", ""), ("GET", "/item"), ("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")):
        assert (await ask(http, method, item_id, 404, what=what))["code"] == "not-found"
    assert (await http.post("/demo/items", json={"item": 1, "key": "k"})).status_code == 201


@pytest.mark.protocol("1.67", "1.68", "5.28", "5.29", "5.30")
@pytest.mark.parametrize("status", STATUSES)
async def test_a_patch_is_of_what_waits(server: TestServer, http: httpx.AsyncClient, status: str) -> None:
    item_id = await item_that_is(server, http, status)
    before = (await http.get(f"/demo/items/{item_id}")).json()
    if status != "pending":
        assert (await ask(http, "PATCH", item_id, 409, {"priority": 1}))["code"] == "conflict"
        assert (await http.get(f"/demo/items/{item_id}")).json() == before
        return
    due = now(server) + 500
    view = await ask(http, "PATCH", item_id, 200, {"priority": 1, "dueAt": due, "colour": "ignored"})
    assert view == before | {"priority": 1, "dueAt": due, "label": "scheduled", "rev": 2}
    assert await ask(http, "PATCH", item_id, 200, {"priority": 1, "dueAt": due}) == view, "that is so already"
    assert (await http.get(f"/demo/items/{item_id}")).json() == view
    view = await ask(http, "PATCH", item_id, 200, {"dueAt": 0})
    assert (view["dueAt"], view["label"], view["rev"]) == (now(server), "pending", 3)


async def test_what_is_not_there(http: httpx.AsyncClient) -> None:
    for item_id in (NONE, "x", "F" * 16):
        await ask(http, "POST", item_id, 404, what="/retry")
        await ask(http, "DELETE", item_id, 404)
        await ask(http, "PATCH", item_id, 404, {"priority": 1})


# ── Who waits and who watches ──


@pytest.mark.protocol("1.42")
async def test_a_retry_is_refused_where_another_item_holds_its_key(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await item_that_is(server, http, "cancelled", key="k")
    other = await item_that_is(server, http, "pending", key="k", item=2)
    problem = await ask(http, "POST", item_id, 409, what="/retry")
    assert (problem["code"], "key" in problem["detail"]) == ("conflict", True)
    await ask(http, "POST", other, 200, what="/cancel")
    await ask(http, "POST", item_id, 200, what="/retry")


async def test_a_worker_that_waits_gets_what_is_retried_or_becomes_due(
    server: TestServer, http: httpx.AsyncClient
) -> None:
    cancelled = await item_that_is(server, http, "cancelled")
    later = await item_that_is(server, http, "pending", delayMs=50_000)
    async with (
        raw_socket(f"{server.ws_url}/demo/work") as worker,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        worker.say({"claim": {"waitMs": 600_000, "count": 2}})
        assert (await worker.ask({"hello": {}}))["type"] == "hello"
        monitor.say({"subscribe": [cancelled, later]})
        assert {(await monitor.hear())["rev"] for _ in range(2)} == {2, 1}
        assert (await ask(http, "POST", cancelled, 200, what="/retry"))["status"] == "processing"
        assert (await worker.hear())["id"] == cancelled
        assert (await ask(http, "PATCH", later, 200, {"dueAt": 0}))["status"] == "processing"
        assert (await worker.hear())["id"] == later
        assert [(await monitor.hear())["status"] for _ in range(2)] == ["processing"] * 2


async def test_subscriptions_of_what_is_deleted_just_end(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await item_that_is(server, http, "cancelled")
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        monitor.say({"subscribe": [item_id]})
        assert (await monitor.hear())["status"] == "cancelled"
        await ask(http, "DELETE", item_id, 204)
        assert len(server.engine("demo").hub) == 0
        monitor.say({"subscribe": [item_id]})
        assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        monitor.say({"unsubscribe": [item_id]})
        assert (await monitor.ask({"hello": {}}))["type"] == "hello"


# ── Bad requests ──

NO_PRIORITY: Final[list[Any]] = [None, 1.5, "1", True, [], {}, 101, -101, 2**53]
NO_TIME: Final[list[Any]] = [None, 1.5, "1", True, [], {}, -1, 2**53]
WRONG: Final[list[tuple[dict[str, Any], str]]] = [
    ({}, ""),
    ({"colour": "red"}, ""),
    *(({"priority": value}, "/priority") for value in NO_PRIORITY),
    *(({"priority": 1, "dueAt": value}, "/dueAt") for value in NO_TIME),
    ({"item": 1, "priority": 1}, "/item"),
    ({"key": "k", "priority": 1}, "/key"),
    ({"delayMs": 1, "priority": 1}, "/delayMs"),
    ({"ttlMs": 1, "dueAt": 1}, "/ttlMs"),
    ({"maxAttempts": 1}, "/maxAttempts"),
    ({"meta": {}}, "/meta"),
    ({"meta": None, "priority": 1}, "/meta"),
]


@pytest.mark.protocol("5.59", "5.113")
async def test_a_patch_with_a_wrong_member_changes_nothing(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await item_that_is(server, http, "pending")
    before = (await http.get(f"/demo/items/{item_id}")).json()
    for body, path in [*WRONG, ({"priority": 1, "dueAt": before["expiresAt"]}, "/dueAt")]:
        problem = await ask(http, "PATCH", item_id, 422, body)
        assert (problem["code"], problem.get("errors", [{"path": ""}])[0]["path"]) == ("bad-message", path), body
    for content, headers, status, code in (
        (b"", JSON, 400, "bad-json"),
        (b"{", JSON, 400, "bad-json"),
        (b'{"dueAt": 1e999}', JSON, 400, "bad-json"),
        (b"[]", JSON, 422, "bad-message"),
        (b"null", JSON, 422, "bad-message"),
        (b"{}", {}, 415, "bad-message"),
        (b"x" * 1_048_577, JSON, 413, "too-large"),
    ):
        answer = await http.patch(f"/demo/items/{item_id}", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await http.get(f"/demo/items/{item_id}")).json() == before


async def test_a_405_names_all_methods_of_an_item(http: httpx.AsyncClient) -> None:
    for method in ("PUT", "POST", "TRACE"):
        answer = await http.request(method, f"/demo/items/{NONE}")
        assert answer.status_code == 405
        assert {name.strip() for name in answer.headers["allow"].split(",")} >= {"GET", "PATCH", "DELETE"}
    head = await http.head(f"/demo/items/{NONE}")
    assert head.status_code == 404


# ── The audit log ──


async def test_each_is_in_the_audit_log_where_it_was_done(tmp_path: Path) -> None:
    toml = '[queues.demo]\naccess = { admin = ["root"] }\n'
    async with (
        running_server(tmp_path, toml, users={"root": [], "ann": []}) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        root, ann = ({"authorization": f"Bearer {server.tokens[user]}"} for user in ("root", "ann"))
        item_id = (await http.post("/demo/items", json={"item": 1, "delayMs": 9_000}, headers=root)).json()["id"]
        with logged("json") as log:
            for headers in (ann, root):
                await http.patch(f"/demo/items/{item_id}", json={"priority": 1}, headers=headers)
                await http.delete(f"/demo/items/{item_id}", headers=headers)
                await http.post(f"/demo/items/{item_id}/retry", headers=headers)
            await http.post(f"/demo/items/{item_id}/cancel", headers=root)
            await http.post(f"/demo/items/{item_id}/retry", headers=root)
            await http.post(f"/demo/items/{item_id}/cancel", headers=root)
            await http.delete(f"/demo/items/{item_id}", headers=root)
        told = [entry for entry in log.entries if entry["event"].startswith("admin.")]
        assert [entry["event"] for entry in told] == [
            "admin.item_changed",
            "admin.item_retried",
            "admin.item_deleted",
        ]
        assert all((entry["by"], entry["queue"], entry["item"]) == ("root", "demo", item_id) for entry in told)
        assert all(entry["token_id"] for entry in told)
