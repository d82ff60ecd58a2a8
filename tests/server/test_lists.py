"""Lists and bulk over HTTP: what they hold, what is done to it, and what is refused (PROTOCOL.md §5)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from leaseway_server.core.access import Right
from leaseway_server.core.errors import StoreFull, StoreLost
from leaseway_server.core.listing import Filter
from leaseway_server.runtime.looking import Looking
from leaseway_server.web import bulk as bulk_module
from support import wire
from support.clock import ManualClock
from support.http_client import http_client
from support.logged import logged
from support.matrix import Line, bearer
from support.server import TestServer, open_queue, running_server

Message = dict[str, Any]
NOWHERE: Final = "0123456789abcdef"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, open_queue(), clock=clock) as server:
        yield server


@pytest.fixture
async def http(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(f"{server.base_url}/demo") as http:
        yield http


async def post(http: httpx.AsyncClient, item: object = 1, **options: object) -> str:
    answer = await http.post("/items", json={"item": item} | options)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def failed_item(http: httpx.AsyncClient) -> str:
    item_id = await post(http)
    assert (await http.post("/claim", json={})).json()["id"] == item_id
    report = {"id": item_id, "attempts": 1, "error": {"message": "no"}, "retryable": False}
    assert (await http.post("/fail", json=report)).json()["status"] == "failed"
    return item_id


async def listed(http: httpx.AsyncClient, query: str = "") -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    following = ""
    while True:
        answer = await http.get(f"/items?{query}{following}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        wire.check_response("GET", f"/items?{query}", 200, page)
        found += [view["id"] for view in page["items"]]
        if page["next"] is None:
            return found
        following = f"&cursor={page['next']}"


async def bulk(http: httpx.AsyncClient, action: str, dry: bool = False, **wanted: object) -> tuple[int, int]:
    body = {"action": action, "filter": wanted} | ({"dryRun": True} if dry else {})
    wire.check_request("POST", "/bulk", body)
    answer = await http.post("/bulk", json=body)
    assert answer.status_code == 200, answer.text
    wire.check_response("POST", "/bulk", 200, answer.json())
    return answer.json()["matched"], answer.json()["changed"]


# ── Lists ──


@pytest.mark.protocol("5.23", "5.96")
async def test_a_list_has_the_views_newest_first(http: httpx.AsyncClient) -> None:
    ids = [await post(http, n) for n in range(5)]
    page = (await http.get("/items")).json()
    assert page["next"] is None
    assert [view["id"] for view in page["items"]] == ids[::-1]
    assert page["items"][0] == (await http.get(f"/items/{ids[-1]}")).json()
    assert [len((await http.get(f"/items?limit={limit}")).json()["items"]) for limit in (1, 4, 5, 1000)] == [1, 4, 5, 5]
    assert await listed(http, "limit=2") == ids[::-1]


@pytest.mark.protocol("5.123")
async def test_a_list_can_do_without_results(http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    await http.post("/result", json={"id": item_id, "value": {"large": "x" * 100_000}})
    (whole,) = (await http.get("/items?results=true")).json()["items"]
    assert whole["result"] == {"large": "x" * 100_000}
    page = (await http.get("/items?results=false")).json()
    assert page["items"] == [whole | {"result": None}]
    wire.check_response("GET", "/items?results=false", 200, page)
    for query in ("results=no", "results=", "results=false&results=true"):
        assert (await http.get(f"/items?{query}")).status_code == 422


async def test_an_empty_list_is_one(http: httpx.AsyncClient) -> None:
    assert (await http.get("/items")).json() == {"items": [], "next": None}
    assert (await http.head("/items")).status_code == 200


@pytest.mark.protocol("5.92", "5.93")
async def test_a_list_is_filtered(http: httpx.AsyncClient, clock: ManualClock) -> None:
    failed = await failed_item(http)
    held = await post(http)
    assert (await http.post("/claim", json={})).json()["id"] == held
    waits, later = await post(http), await post(http, delayMs=5_000)
    assert await listed(http, "status=pending") == [later, waits]
    assert await listed(http, "label=scheduled") == [later]
    assert await listed(http, "label=pending&label=processing") == [waits, held]
    assert await listed(http, "status=failed&status=dead") == [failed]
    assert await listed(http, "status=pending&label=failed") == []
    assert await listed(http, "postedBy=") == [later, waits, held, failed]
    assert await listed(http, "postedBy=ann") == []
    assert await listed(http, "key=k") == []
    clock.advance(5_000)
    assert await listed(http, "label=scheduled") == []
    one, other = await post(http, key="k"), await post(http, key="l")
    await post(http, key="m")
    assert await listed(http, "key=k") == [one]
    assert await listed(http, "key=k&key=l&key=n") == [other, one]


@pytest.mark.protocol("3.21")
async def test_a_finished_item_has_its_result_and_is_not_stamped(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    await http.post("/claim", json={})
    assert (await http.post("/result", json={"id": item_id, "attempts": 1, "value": {"r": 1}})).json()["accepted"]
    (view,) = (await http.get("/items?status=finished")).json()["items"]
    assert view["result"] == {"r": 1}
    await http.get(f"/items/{item_id}/why")
    assert server.engine("demo")._deadlines.stamps == {}
    await http.get(f"/items/{item_id}")
    assert list(server.engine("demo")._deadlines.stamps) == [item_id]


@pytest.mark.protocol("5.92", "5.93")
async def test_posters_are_told_apart(tmp_path: Path) -> None:
    users: dict[str, list[Right]] = {"ann": [], "bob": [], "root": []}
    toml = '[queues.demo]\naccess = { admin = ["root"] }\n'
    async with running_server(tmp_path, toml, users=users) as server, Line(server.base_url) as line:
        callers = {user: bearer(token) for user, token in server.tokens.items()}
        for user in ("ann", "bob", "ann"):
            assert (await line.ask("POST", "/demo/items", callers[user], {"item": 1})).status == 201
        for query, count in (("postedBy=ann", 2), ("postedBy=bob&postedBy=ann", 3), ("postedBy=", 0)):
            answer = await line.ask("GET", f"/demo/items?{query}", callers["root"])
            assert len(answer.json["items"]) == count
        token = server.tokens["root"]
        assert (await line.ask("GET", f"/demo/items?token={token}&postedBy=bob")).status == 200


@pytest.mark.protocol("5.92", "5.94", "5.98", "5.99")
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=dead", "state is not known here; known are status, label, postedBy, key, limit, cursor"),
        ("lmit=5", "lmit is not known here; known are status, label, postedBy, key, limit, cursor"),
        ("status=dead&Status=dead", "Status is not known here"),
        ("status=deed", "status must be one of"),
        ("status=", "status must be one of"),
        ("label=late", "label must be one of"),
        ("key=", "key must be a text of 1 to 200 characters"),
        ("key=" + "k" * 201, "key must be a text of 1 to 200 characters"),
        ("postedBy=%0a", "postedBy must be a text"),
        ("&".join(["status=dead"] * 101), "status takes 1 to 100 values"),
        ("limit=0", "limit must be an integer from 1 to 1000"),
        ("limit=1001", "limit must be"),
        ("limit=-1", "limit must be"),
        ("limit=1.0", "limit must be"),
        ("limit=", "limit must be"),
        ("limit=%D9%A1", "limit must be"),
        ("limit=" + "9" * 5_000, "limit must be"),
        ("limit=1&limit=2", "limit is there more than once"),
        ("cursor=x", "cursor must be the next of a page"),
        ("cursor=" + NOWHERE, "cursor must be the next of a page"),
        ("cursor=" + "f" * 5_000, "cursor must be the next of a page"),
        ("cursor=a&cursor=b", "cursor is there more than once"),
    ],
)
async def test_a_wrong_query_is_refused(http: httpx.AsyncClient, query: str, told: str) -> None:
    await post(http)
    answer = await http.get(f"/items?{query}")
    assert answer.status_code == 422, answer.text
    wire.check_http("problem", answer.json())
    assert answer.json()["code"] == "bad-message"
    assert told in answer.json()["detail"]


async def test_other_methods_are_told(http: httpx.AsyncClient) -> None:
    answer = await http.put("/items", json={})
    assert answer.status_code == 405
    assert {method.strip() for method in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}
    assert (await http.get("/bulk")).status_code == 405


async def test_a_store_that_cannot_be_read_ends_the_server(http: httpx.AsyncClient, server: TestServer) -> None:
    async def fails(*_arguments: object, **_named: object) -> None:
        raise StoreLost("an input or output error, says the test")

    lost: list[StoreLost] = []
    item_id = await post(http)
    looking = server.engine("demo").looking
    looking._on_lost = lost.append
    looking._store.page = looking._store.ahead = fails  # type: ignore[method-assign, assignment]
    for path in ("/items", f"/items/{item_id}/why"):
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert len(lost) == 2


# ── Bulk ──


@pytest.mark.protocol("5.33")
async def test_bulk_retries_what_ended_badly(http: httpx.AsyncClient) -> None:
    failed = [await failed_item(http) for _ in range(3)]
    waits = await post(http)
    assert await bulk(http, "retry", dry=True, status=["failed", "dead"]) == (3, 0)
    assert await listed(http, "status=failed") == failed[::-1]
    assert await bulk(http, "retry", status=["failed", "dead"]) == (3, 3)
    assert await listed(http, "status=pending") == [waits, *failed[::-1]]
    assert await bulk(http, "retry") == (0, 0)


@pytest.mark.protocol("5.33")
async def test_bulk_cancels_what_is_open(http: httpx.AsyncClient) -> None:
    failed = await failed_item(http)
    held = await post(http)
    await http.post("/claim", json={})
    waits, later = await post(http), await post(http, delayMs=5_000)
    assert await bulk(http, "cancel", label="scheduled") == (1, 1)
    assert await bulk(http, "cancel", status="failed") == (0, 0)
    assert await bulk(http, "cancel", dry=True) == (2, 0)
    assert await bulk(http, "cancel") == (2, 2)
    assert await listed(http, "status=cancelled") == [later, waits, held]
    assert await listed(http, "status=failed") == [failed]


@pytest.mark.protocol("5.34", "5.101")
async def test_bulk_goes_in_slices_and_leaves_what_comes_later(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two slices one more item is posted: none of those is touched."""
    monkeypatch.setattr(bulk_module, "SLICE", 2)
    page, sizes = Looking.page, []

    async def and_one_more(self: Looking, *arguments: Any, **named: Any) -> Any:
        found = await page(self, *arguments, **named)
        assert found[0] is not None
        sizes.append(len(found[0].items))
        await post(http, "later")
        return found

    ids = [await post(http, "before") for _ in range(5)]
    with monkeypatch.context() as patched:
        patched.setattr(Looking, "page", and_one_more)
        assert await bulk(http, "cancel") == (5, 5)
    assert sizes == [2, 2, 1]
    assert await listed(http, "status=cancelled") == ids[::-1]
    assert len(await listed(http, "status=pending")) == 3


@pytest.mark.protocol("5.103")
async def test_an_item_that_changed_meanwhile_is_matched_and_not_changed(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await post(http), await post(http)
    page = Looking.page

    async def and_a_cancel(self: Looking, wanted: Filter, *arguments: Any, **named: Any) -> Any:
        found = await page(self, wanted, *arguments, **named)
        assert (await http.post(f"/items/{first}/cancel")).status_code == 200
        return found

    monkeypatch.setattr(Looking, "page", and_a_cancel)
    assert await bulk(http, "cancel") == (2, 1)
    assert (await http.get(f"/items/{second}")).json()["status"] == "cancelled"


async def _finish(http: httpx.AsyncClient, item_id: str, attempts: int) -> None:
    await http.post("/claim", json={})
    report = {"id": item_id, "attempts": attempts, "value": 1}
    assert (await http.post("/result", json=report)).json()["accepted"]


async def _claimed(http: httpx.AsyncClient, _clock: ManualClock, item_id: str) -> None:
    assert (await http.post("/claim", json={})).json()["id"] == item_id


async def _retried_and_finished(http: httpx.AsyncClient, _clock: ManualClock, item_id: str) -> None:
    assert (await http.post(f"/items/{item_id}/retry")).status_code == 200
    await _finish(http, item_id, 2)


async def _retried_and_cancelled(http: httpx.AsyncClient, _clock: ManualClock, item_id: str) -> None:
    assert (await http.post(f"/items/{item_id}/retry")).status_code == 200
    assert (await http.post(f"/items/{item_id}/cancel")).status_code == 200


async def _put_forward(http: httpx.AsyncClient, _clock: ManualClock, item_id: str) -> None:
    assert (await http.patch(f"/items/{item_id}", json={"dueAt": 0})).status_code == 200


async def _came_due(_http: httpx.AsyncClient, clock: ManualClock, _item_id: str) -> None:
    clock.advance(5_000)


@pytest.mark.protocol("5.103")
@pytest.mark.parametrize(
    ("action", "wanted", "meanwhile", "stays"),
    [
        ("cancel", {"status": "pending"}, _claimed, "processing"),
        ("cancel", {"label": "scheduled"}, _put_forward, "pending"),
        ("cancel", {"label": "scheduled"}, _came_due, "pending"),
        ("retry", {"status": "failed"}, _retried_and_cancelled, "cancelled"),
        ("retry", {"status": "failed"}, _retried_and_finished, "finished"),
        ("delete", {"status": "failed"}, _retried_and_finished, "finished"),
        ("delete", {"label": ["failed", "dead"]}, _retried_and_cancelled, "cancelled"),
    ],
)
async def test_what_the_filter_holds_no_more_is_left_alone(
    http: httpx.AsyncClient,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    wanted: dict[str, Any],
    meanwhile: Callable[[httpx.AsyncClient, ManualClock, str], Awaitable[None]],
    stays: str,
) -> None:
    """The action could still be done to it, but for one: of another item, which stayed as it was, it is."""

    async def make() -> str:
        return await post(http, delayMs=5_000 * ("label" in wanted)) if action == "cancel" else await failed_item(http)

    item_id = await make()
    page = Looking.page

    async def and_a_change(self: Looking, *arguments: Any, **named: Any) -> Any:
        found = await page(self, *arguments, **named)
        await meanwhile(http, clock, item_id)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Looking, "page", and_a_change)
        assert await bulk(http, action, **wanted) == (1, 0)
    assert (await http.get(f"/items/{item_id}")).json()["status"] == stays
    await make()
    assert await bulk(http, action, **wanted) == (1, 1)


async def test_bulk_has_one_line_in_the_audit_log(http: httpx.AsyncClient) -> None:
    for _ in range(3):
        await post(http)
    with logged() as log:
        await bulk(http, "cancel", dry=True)
        await bulk(http, "cancel")
    (line,) = [entry for entry in log.entries if entry["event"].startswith("admin.")]
    assert (line["event"], line["action"], line["matched"], line["changed"]) == ("admin.bulk", "cancel", 3, 3)
    assert line["queue"] == "demo"


async def test_where_the_store_is_full_it_says_so_and_what_was_done_is_logged(
    http: httpx.AsyncClient, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_module, "SLICE", 1)
    for _ in range(3):
        await post(http)
    engine = server.engine("demo")
    turn = engine._turn
    turns = 0

    async def full(*arguments: Any, **named: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns > 1:
            raise StoreFull("no space, says the test")
        return await turn(*arguments, **named)

    monkeypatch.setattr(engine, "_turn", full)
    with logged() as log:
        answer = await http.post("/bulk", json={"action": "cancel", "filter": {}})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    (line,) = [entry for entry in log.entries if entry["event"] == "admin.bulk"]
    assert (line["matched"], line["changed"]) == (2, 1)


@pytest.mark.protocol("5.102")
async def test_it_ends_with_the_server_or_its_client(
    http: httpx.AsyncClient, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_module, "SLICE", 1)
    for _ in range(3):
        await post(http)
    site = server.running.site
    assert site is not None
    page, reading = Looking.page, asyncio.Event()

    async def told(self: Looking, *arguments: Any, **named: Any) -> Any:
        reading.set()
        return await page(self, *arguments, **named)

    async def left(_request: object) -> bool:
        return True

    monkeypatch.setattr(Looking, "page", told)
    with monkeypatch.context() as patched, logged() as log:
        patched.setattr("starlette.requests.Request.is_disconnected", left)
        await http.post("/bulk", json={"action": "cancel", "filter": {}})
    assert [entry["changed"] for entry in log.entries if entry["event"] == "admin.bulk"] == [1]
    stopping = asyncio.create_task(http.post("/bulk", json={"action": "cancel", "filter": {}}))
    await reading.wait()
    site.stopping.set()
    answer = await stopping
    assert answer.status_code == 503
    assert "items were changed" in answer.json()["detail"]


@pytest.mark.protocol("5.99", "5.100")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ([], None),
        ("retry", None),
        ({}, "/filter"),
        ({"action": "retry"}, "/filter"),
        ({"filter": {}}, "/action"),
        ({"action": "explode", "filter": {}}, "/action"),
        ({"action": "", "filter": {}}, "/action"),
        ({"action": None, "filter": {}}, "/action"),
        ({"action": ["retry"], "filter": {}}, "/action"),
        ({"action": {}, "filter": {}}, "/action"),
        ({"action": -1, "filter": {}}, "/action"),
        ({"action": "x" * 100_000, "filter": {}}, "/action"),
        ({"action": "cancel", "filter": None}, "/filter"),
        ({"action": "cancel", "filter": []}, "/filter"),
        ({"action": "cancel", "filter": "dead"}, "/filter"),
        ({"action": "cancel", "filter": {"state": "dead"}}, "/filter/state"),
        ({"action": "cancel", "filter": {"limit": 5}}, "/filter/limit"),
        ({"action": "cancel", "filter": {"status": []}}, "/filter/status"),
        ({"action": "cancel", "filter": {"status": ["pending", 1]}}, "/filter/status"),
        ({"action": "cancel", "filter": {"postedBy": None}}, "/filter/postedBy"),
        ({"action": "cancel", "filter": {"key": ""}}, "/filter/key"),
        ({"action": "cancel", "filter": {}, "dryRun": 1}, "/dryRun"),
        ({"action": "cancel", "filter": {}, "dryRun": None}, "/dryRun"),
        ({"action": "cancel", "filter": {}, "dryrun": True}, "/dryrun"),
        ({"action": "cancel", "filter": {}, "a/b~": True}, "/a~1b~0"),
        ({"action": "cancel", "filter": {}, "": True}, "/"),
        ({"action": "cancel", "filter": {}, "x" * 5_000: True}, "/" + "x" * 200),
    ],
)
async def test_a_wrong_body_is_refused_and_changes_nothing(http: httpx.AsyncClient, body: object, path: str) -> None:
    item_id = await post(http)
    answer = await http.post("/bulk", json=body)
    assert answer.status_code == 422, answer.text
    wire.check_http("problem", answer.json())
    assert answer.json()["code"] == "bad-message"
    assert [error["path"] for error in answer.json().get("errors", [])] == ([path] if path else [])
    assert (await http.get(f"/items/{item_id}")).json()["rev"] == 1


@pytest.mark.protocol("5.33")
async def test_many_are_deleted_where_they_have_ended(http: httpx.AsyncClient) -> None:
    ended, open_ = await post(http), await post(http)
    await http.post(f"/items/{ended}/cancel")
    answer = await http.post("/bulk", json={"action": "delete", "filter": {}})
    assert answer.json() == {"matched": 1, "changed": 1}
    assert (await http.get(f"/items/{ended}")).status_code == 404
    assert (await http.get(f"/items/{open_}")).status_code == 200
