"""What the transcripts do not tell of HTTP: bad requests of every kind, sizes, waiting, and clients that leave."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from leaseway_server.core.access import Right
from support import wire
from support.clock import ManualClock
from support.http_client import http_client
from support.raw import raw_socket
from support.server import TestServer, open_queue, running_server
from support.wrong import CLAIM, POST, REPORTS, wrong

Message = dict[str, Any]
JSON = {"content-type": "application/json"}
STATUS = {"bad-message": 422, "bad-json": 400, "too-large": 413}
LARGEST = 1_048_576 - 131_072


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path) as server:
        yield server


@pytest.fixture
async def http(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(server.base_url) as http:
        yield http


async def post(http: httpx.AsyncClient, item: object = 1, **options: object) -> str:
    answer = await http.post("/demo/items", json={"item": item} | options)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def view(http: httpx.AsyncClient, item_id: str) -> Message:
    return dict((await http.get(f"/demo/items/{item_id}")).json())


def refused(answer: httpx.Response, status: int, code: str) -> Message:
    """The problem document, which is one, and says this."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    problem: Message = answer.json()
    wire.check_http("problem", problem)
    assert (problem["status"], problem["code"]) == (status, code)
    return problem


# ── Bad requests ──


@pytest.mark.protocol("5.2", "5.70", "5.71", "7.10")
async def test_a_body_with_a_wrong_member_is_refused_and_changes_nothing(http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    assert (await http.post("/demo/claim", json={"worker": "w"})).json()["id"] == item_id
    before = await view(http, item_id)
    tried = 0
    for verb, body, member, code in wrong(POST | REPORTS | CLAIM):
        path = "/demo/items" if verb == "post" else f"/demo/{verb}"
        known = {"id": item_id} if isinstance(body.get("id"), str) else {}
        answer = await http.post(path, content=json.dumps(body | known), headers=JSON)
        problem = refused(answer, STATUS[code], code)
        if code == "bad-message" and body.get("ttlMs") != 0:
            assert problem["errors"][0]["path"].startswith(f"/{member}"), (verb, member, problem)
        tried += 1
    assert tried > 200
    assert await view(http, item_id) == before
    assert (await http.post("/demo/claim", json={})).json() == {"type": "empty"}, "something was posted"


@pytest.mark.protocol("5.1", "5.8")
async def test_what_is_no_json_object_is_refused(http: httpx.AsyncClient) -> None:
    for path in ("items", "claim", "progress", "result", "fail", "release", "renew"):
        await check_bodies(http, path)


async def check_bodies(http: httpx.AsyncClient, path: str) -> None:
    for text, status, code in [
        (b"", 400, "bad-json"),
        (b"{", 400, "bad-json"),
        (b"\xff", 400, "bad-json"),
        (b"null", 422, "bad-message"),
        (b"1", 422, "bad-message"),
        (b'"x"', 422, "bad-message"),
        (b"true", 422, "bad-message"),
    ]:
        refused(await http.post(f"/demo/{path}", content=text, headers=JSON), status, code)
    for media in ("", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json"):
        answer = await http.post(f"/demo/{path}", content=b"{}", headers={"content-type": media} if media else {})
        refused(answer, 415, "bad-message")


async def test_media_types_are_read_as_they_are_meant(http: httpx.AsyncClient) -> None:
    for media in ("application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;x"):
        answer = await http.post("/demo/items", content=b'{"item": 1}', headers={"content-type": media})
        assert answer.status_code == 201, media


NOWHERE = [
    ("GET", "/demo/nothing", 404),
    ("GET", "/none/items/0123456789abcdef", 404),
    ("POST", "/none/items", 404),
    ("POST", "/none/claim", 404),
    ("POST", "/Demo/claim", 404),
    ("POST", "/_demo/claim", 404),
    ("POST", "/demo//claim", 404),
    ("POST", "/demo/claim/", 404),
    ("GET", "/demo/items/0123456789abcdef", 404),
    ("GET", "/demo/items/0123456789ABCDEF", 404),
    ("GET", "/demo/items/0x23456789abcdef", 404),
    ("GET", "/demo/items/x", 404),
    ("GET", "/demo/items/%00", 404),
    ("GET", "/demo/items/%ff%fe", 404),
    ("GET", "/demo/items/" + "f" * 5_000, 404),
    ("GET", "/demo/items/0123456789abcdef/item", 404),
    ("POST", "/demo/items/0123456789abcdef/cancel", 404),
    ("DELETE", "/demo/claim", 405),
    ("PUT", "/demo/items", 405),
    ("GET", "/demo/claim", 405),
    ("GET", "/demo/items/0123456789abcdef/cancel", 405),
    ("POST", "/_health", 405),
    ("POST", "/_ready", 405),
]


@pytest.mark.protocol("5.11")
async def test_a_path_that_leads_nowhere(http: httpx.AsyncClient) -> None:
    for method, path, status in NOWHERE:
        answer = await http.request(method, path, content=b"{}", headers=JSON)
        refused(answer, status, "not-found" if status == 404 else "bad-message")


@pytest.mark.protocol("5.7", "5.77", "5.78")
async def test_sizes_are_those_of_the_value_as_it_is_written(http: httpx.AsyncClient) -> None:
    """Compact UTF-8: what a client adds in spaces and escapes does not count (PROTOCOL.md §5)."""
    assert len(await post(http, "x" * (LARGEST - 2))) == 16
    refused(await http.post("/demo/items", json={"item": "x" * (LARGEST - 1)}), 413, "too-large")
    spaced = '{"item": [' + " " * 120_000 + '"' + "x" * (LARGEST - 4) + '"]}'
    assert (await http.post("/demo/items", content=spaced, headers=JSON)).status_code == 201
    wide = json.dumps({"item": "ä" * (LARGEST // 2)}, ensure_ascii=False).encode()
    refused(await http.post("/demo/items", content=wide, headers=JSON), 413, "too-large")
    escaped = '{"item": "' + "\\u0061" * 170_000 + '"}'
    assert (await http.post("/demo/items", content=escaped, headers=JSON)).status_code == 201
    refused(await http.post("/demo/items", content=b" " * 1_048_577, headers=JSON), 413, "too-large")


async def test_a_body_that_never_ends_is_refused_at_its_limit(server: TestServer) -> None:
    """Also where its length was not said before; and what is sent on top of it is not waited for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
    writer.write(
        b"POST /demo/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for _ in range(64):
        if answered.done():
            break
        writer.write(chunk)
        await writer.drain()
    assert (await answered).startswith(b"HTTP/1.1 413 ")
    writer.transport.abort()


@pytest.mark.protocol("5.55", "5.56")
async def test_times_far_away_and_other_extremes_are_kept(http: httpx.AsyncClient) -> None:
    item_id = await post(http, 1, dueAt=2**53 - 1, priority=-100, maxAttempts=1_000, meta={"a": None})
    seen = await view(http, item_id)
    wire.check_http("view", seen)
    assert (seen["dueAt"], seen["priority"], seen["maxAttempts"], seen["label"]) == (
        2**53 - 1,
        -100,
        1_000,
        "scheduled",
    )
    assert seen["meta"] == {"a": None}
    past = await post(http, 1, dueAt=1)
    seen = await view(http, past)
    assert seen["dueAt"] == seen["postedAt"], "nobody posts ahead of those who wait"


# ── Waiting ──


@pytest.mark.protocol("5.12")
async def test_a_get_that_waits_is_answered_at_the_end(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    waiting = asyncio.create_task(http.get(f"/demo/items/{item_id}", params={"waitMs": 60_000}))
    async with raw_socket(f"{server.ws_url}/demo/work") as work:
        await work.ask({"claim": {}})
        await work.ask({"progress": {"id": item_id, "value": 1}})
        await watchers(server, 1)
        await work.ask({"result": {"id": item_id, "value": "done"}})
    answer = await waiting
    wire.check_http("view", answer.json())
    assert (answer.status_code, answer.json()["status"], answer.json()["result"]) == (200, "finished", "done")
    again = await http.get(f"/demo/items/{item_id}", params={"waitMs": 60_000})
    assert again.json()["status"] == "finished", "what has ended is not waited for"
    assert len(server.engine("demo").hub) == 0


@pytest.mark.protocol("5.12")
async def test_a_get_that_waits_is_answered_at_its_time_and_with_the_newest_state(
    server: TestServer, http: httpx.AsyncClient
) -> None:
    item_id = await post(http)
    waiting = asyncio.create_task(http.get(f"/demo/items/{item_id}", params={"waitMs": 300}))
    await watchers(server, 1)
    assert (await http.post("/demo/claim", json={})).json()["id"] == item_id
    assert (await waiting).json()["status"] == "processing"
    assert (await http.get(f"/demo/items/{item_id}", params={"waitMs": 1})).json()["status"] == "processing"
    assert len(server.engine("demo").hub) == 0


async def test_a_get_that_waits_and_is_left_is_forgotten(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    waiting = asyncio.create_task(http.get(f"/demo/items/{item_id}", params={"waitMs": 600_000}))
    await watchers(server, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await watchers(server, 0)


async def watchers(server: TestServer, number: int) -> None:
    """Asks the server, over and over, until so many items are watched."""
    async with raw_socket(f"{server.ws_url}/demo/work") as work, asyncio.timeout(10):
        while len(server.engine("demo").hub) != number:
            await work.ask({"hello": {}})


async def test_what_a_wait_may_be(http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    for wait in ("-1", "1.5", "x", "1e3", "²", " 1 "):
        refused(await http.get(f"/demo/items/{item_id}", params={"waitMs": wait}), 422, "bad-message")
    for wait in ("0", "", "00"):
        answer = await http.get(f"/demo/items/{item_id}", params={"waitMs": wait} if wait else {})
        assert answer.status_code == 200


async def test_a_claim_that_waits_takes_what_is_posted(server: TestServer, http: httpx.AsyncClient) -> None:
    waiting = asyncio.create_task(http.post("/demo/claim", json={"waitMs": 60_000, "worker": "w"}))
    await claims(server, 1)
    answer = await http.post("/demo/items", json={"item": "fresh"})
    assert answer.json()["status"] == "processing", "posted and handed out in one commit"
    item = (await waiting).json()
    wire.check_server("work", item)
    assert (item["item"], item["attempts"]) == ("fresh", 1)
    assert (await http.post("/demo/claim", json={"waitMs": 1})).json() == {"type": "empty"}


@pytest.mark.protocol("5.37", "5.39")
async def test_a_claim_for_many_answers_an_array(http: httpx.AsyncClient) -> None:
    ids = [await post(http, number) for number in range(3)]
    answer = (await http.post("/demo/claim", json={"count": 2})).json()
    assert [message["id"] for message in answer] == ids[:2]
    answer = (await http.post("/demo/claim", json={"count": 2})).json()
    assert [message["type"] for message in answer] == ["item", "empty"]
    assert (await http.post("/demo/claim", json={"count": 1})).json() == [{"type": "empty"}]


async def claims(server: TestServer, number: int) -> None:
    """Asks the server, over and over, until so many claims wait."""
    async with raw_socket(f"{server.ws_url}/demo/work") as work, asyncio.timeout(10):
        while len(server.engine("demo")._dispatch) != number:
            await work.ask({"hello": {}})


async def test_a_claim_whose_client_left_is_withdrawn(server: TestServer, http: httpx.AsyncClient) -> None:
    waiting = asyncio.create_task(http.post("/demo/claim", json={"waitMs": 600_000}))
    await claims(server, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await claims(server, 0)
    item_id = await post(http)
    seen = await view(http, item_id)
    assert (seen["status"], seen["attempts"], seen["losses"]) == ("pending", 0, 0)


# ── Leases without a socket ──


@pytest.mark.protocol("4.4", "5.40")
async def test_a_lease_over_http_lasts_until_its_end_and_is_renewed_by_reports(tmp_path: Path) -> None:
    clock = ManualClock()
    toml = '[server]\nping_interval = "1s"\nping_timeout = "1s"\n' + open_queue(lease='"2s"')
    async with (
        running_server(tmp_path, toml, clock=clock) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        item_id = await post(http)
        claimed = (await http.post("/demo/claim", json={"worker": "w"})).json()
        fence = {"id": item_id, "attempts": claimed["attempts"]}
        for verb, more in (("progress", {"value": 1}), ("renew", {}), ("progress", {"value": 2})):
            clock.advance(1_900)
            ack = (await http.post(f"/demo/{verb}", json=fence | more)).json()
            wire.check_server("work", ack)
            assert ack["accepted"], verb
        unfenced = (await http.post("/demo/renew", json={"id": item_id})).json()
        assert (unfenced["accepted"], unfenced["reason"]) == (False, "not-holder")
        async with raw_socket(f"{server.ws_url}/demo/work") as other:
            other.say({"claim": {"waitMs": 60_000}})
            await other.ask({"renew": {"id": item_id}})
            clock.advance(2_000)
            assert (await other.hear())["attempts"] == 2
            late = (await http.post("/demo/result", json=fence | {"value": "late"})).json()
            assert (late["accepted"], late["reason"]) == (False, "fence")
        assert (await view(http, item_id))["losses"] == 1 + 1  # The socket dropped too.


async def test_a_lease_over_http_moves_to_a_socket_by_a_resume(server: TestServer, http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    assert (await http.post("/demo/claim", json={"worker": "w"})).json()["attempts"] == 1
    async with raw_socket(f"{server.ws_url}/demo/work") as socket:
        resumed = await socket.ask({"resume": {"worker": "w", "leases": [{"id": item_id, "attempts": 1}]}})
        assert resumed["leases"][0]["accepted"]
        by_http = (await http.post("/demo/renew", json={"id": item_id, "attempts": 1})).json()
        assert (by_http["accepted"], by_http["reason"]) == (False, "not-holder"), "now the socket holds it"
        assert (await socket.ask({"renew": {"id": item_id}}))["accepted"]
    async with raw_socket(f"{server.ws_url}/demo/work") as other:
        assert (await other.ask({"claim": {"waitMs": 60_000}}))["attempts"] == 2, "and its drop gives it back"


async def test_fail_and_release_over_http(http: httpx.AsyncClient) -> None:
    item_id = await post(http)
    steps: list[tuple[str, Message, str]] = [
        ("release", {"delayMs": 0}, "pending"),
        ("fail", {"error": {"message": "no", "code": "x", "more": 1}, "retryInMs": 0}, "pending"),
        ("fail", {"error": {"message": "never"}, "retryable": False}, "failed"),
    ]
    for number, (verb, more, wanted) in enumerate(steps, start=1):
        claimed = (await http.post("/demo/claim", json={"waitMs": 10_000})).json()
        assert claimed["attempts"] == number
        report = {"id": item_id, "attempts": number} | more
        ack = (await http.post(f"/demo/{verb}", json=report)).json()
        wire.check_server("work", ack)
        assert (ack["accepted"], ack["status"]) == (True, wanted)
        again = (await http.post(f"/demo/{verb}", json=report)).json()
        wire.check_server("work", again)
        assert not again["accepted"]
    seen = await view(http, item_id)
    assert (seen["error"], seen["failures"]) == ({"message": "never"}, 1)


# ── Rights ──


@pytest.mark.protocol("2.26")
async def test_who_may_cancel(tmp_path: Path) -> None:
    toml = '[queues.demo]\naccess = { post = "users", fetch = "users", work = "users", admin = ["root"] }\n'
    users: dict[str, list[Right]] = {"ann": [], "ben": [], "root": [], "eye": ["fetch"]}
    async with (
        running_server(tmp_path, toml, users=users) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):

        async def send(user: str, method: str, path: str, body: object = None) -> httpx.Response:
            headers = {"authorization": f"Bearer {server.tokens[user]}"}
            return await http.request(method, path, json=body, headers=headers)

        ids = [(await send("ann", "POST", "/demo/items", {"item": 1})).json()["id"] for _ in range(3)]
        path = f"/demo/items/{ids[0]}/cancel"
        refused(await send("ben", "POST", path), 403, "not-allowed")
        refused(await send("eye", "POST", path), 403, "not-allowed")
        refused(await http.post(path), 401, "unauthorized")
        assert (await send("ann", "GET", f"/demo/items/{ids[0]}")).json()["status"] == "pending"
        assert (await send("ann", "POST", path)).json()["status"] == "cancelled"
        assert (await send("ann", "POST", path)).status_code == 200, "also where it is cancelled already"
        assert (await send("root", "POST", f"/demo/items/{ids[1]}/cancel")).json()["status"] == "cancelled"
        claimed = (await send("ann", "POST", "/demo/claim", {})).json()
        assert claimed["id"] == ids[2]
        await send("ann", "POST", "/demo/result", {"id": ids[2], "attempts": 1, "value": 1})
        refused(await send("ann", "POST", f"/demo/items/{ids[2]}/cancel"), 409, "conflict")


@pytest.mark.protocol("1.14")
async def test_an_http_lease_is_its_users_alone(tmp_path: Path) -> None:
    toml = '[queues.demo]\naccess = { post = "users", fetch = "users", work = "users" }\n'
    async with (
        running_server(tmp_path, toml, users={"ann": [], "ben": []}) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):

        async def send(user: str, path: str, body: object) -> Message:
            headers = {"authorization": f"Bearer {server.tokens[user]}"}
            return dict((await http.post(path, json=body, headers=headers)).json())

        item_id = (await send("ann", "/demo/items", {"item": 1}))["id"]
        assert (await send("ann", "/demo/claim", {"worker": "w"}))["attempts"] == 1
        fence = {"id": item_id, "attempts": 1}
        for verb, more in (("renew", {}), ("progress", {"value": 1}), ("release", {})):
            ack = await send("ben", f"/demo/{verb}", fence | more)
            assert (ack["accepted"], ack["reason"]) == (False, "not-holder"), verb
        assert (await send("ann", "/demo/renew", fence))["accepted"]


@pytest.mark.protocol("0.8", "5.51", "5.52")
async def test_health_and_readiness(http: httpx.AsyncClient) -> None:
    for path, schema in (("/_health", "health"), ("/_ready", "ready")):
        answer = await http.get(path)
        assert answer.status_code == 200
        wire.check_http(schema, answer.json())
