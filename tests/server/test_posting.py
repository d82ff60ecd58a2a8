"""Posting in full over both doors: arrays, NDJSON, keys and `Idempotency-Key`, and all that can be wrong with them."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx
import pytest

from leaseway_server.core.access import Right
from support import wire
from support.clock import ManualClock
from support.http_client import http_client
from support.plain_http import exchange, request
from support.raw import TEXT, raw_socket
from support.server import TestServer, open_queue, running_server
from support.wrong import POST, wrong

JSON: Final = {"content-type": "application/json"}
LINES: Final = {"content-type": "application/x-ndjson"}
STATUS: Final = {"bad-message": 422, "bad-json": 400, "too-large": 413}
LARGEST: Final = 1_048_576


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, open_queue(max_bulk_items="5"), clock=ManualClock()) as server:
        yield server


@pytest.fixture
async def http(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(server.base_url) as http:
        yield http


async def posted(
    http: httpx.AsyncClient, body: Any, status: int = 201, headers: Mapping[str, str] = MappingProxyType({})
) -> Any:
    """The answer to a post that is taken."""
    answer = await http.post("/demo/items", json=body, headers=headers)
    assert answer.status_code == status, answer.text[:500]
    wire.check_response("POST", "/items", status, answer.json())
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str, path: str = "") -> None:
    """The answer is a problem that says this, at this place."""
    assert answer.status_code == status, answer.text[:500]
    problem = answer.json()
    wire.check_http("problem", problem)
    assert (problem["code"], problem.get("errors", [{"path": ""}])[0]["path"]) == (code, path), problem


async def waiting(http: httpx.AsyncClient) -> list[Any]:
    """The items that can be claimed; they are claimed by that."""
    answer = await http.post("/demo/claim", json={"count": 1_000})
    return [message["item"] for message in answer.json() if message["type"] == "item"]


# ── Arrays ──


@pytest.mark.protocol("5.66")
async def test_an_array_is_answered_item_by_item(http: httpx.AsyncClient) -> None:
    first = await posted(http, {"item": 1, "key": "a"})
    answer = await posted(http, [{"item": 1.0, "key": "a"}, {"item": 2, "delayMs": 9_000}, {"item": 3, "key": "b"}])
    items = answer["items"]
    assert [each["duplicate"] for each in items] == [True, False, False]
    assert items[0] == first | {"duplicate": True}
    assert items[1]["dueAt"] == items[1]["postedAt"] + 9_000
    again = await posted(http, [{"item": 3, "key": "b"}, {"item": 1, "key": "a"}], 200)
    assert [each["id"] for each in again["items"]] == [items[2]["id"], first["id"]]
    assert await waiting(http) == [1, 3]


@pytest.mark.protocol("5.60", "5.90")
async def test_an_array_has_at_most_max_bulk_items_and_at_least_one(http: httpx.AsyncClient) -> None:
    assert len((await posted(http, [{"item": 1}] * 5))["items"]) == 5
    for content, headers in ((json.dumps([{"item": 1}] * 6), JSON), ('{"item":1}\n' * 6, LINES)):
        refused(await http.post("/demo/items", content=content, headers=headers), 422, "limit")
    for content, headers in (("[]", JSON), ("", LINES), ("\n", LINES)):
        answer = await http.post("/demo/items", content=content, headers=headers)
        refused(answer, 422, "bad-message")
        assert "at least one" in answer.json()["detail"]
    assert await waiting(http) == [1] * 5


@pytest.mark.protocol("5.64", "5.65")
async def test_an_array_of_which_one_member_is_bad_is_refused_whole(http: httpx.AsyncClient) -> None:
    """Each member of a post: missing, of a wrong type, empty, huge, negative, null; as JSON and as NDJSON."""
    tried = 0
    for _, body, member, code in wrong(POST):
        members = [{"item": "good"}, body, {"item": "good", "key": "k"}]
        for content, headers in (
            (json.dumps(members), JSON),
            ("\n".join(map(json.dumps, members)), LINES),
        ):
            answer = await http.post("/demo/items", content=content, headers=headers)
            assert answer.status_code == STATUS[code], (member, answer.text[:300])
            path = answer.json().get("errors", [{"path": ""}])[0]["path"]
            if body.get("ttlMs") == 0:
                assert path == "/1/ttlMs"
            elif code == "bad-json" and headers is LINES:
                assert path == "/1"
            elif code != "bad-json":
                assert path == f"/1/{member}", (member, path)
            tried += 1
    assert tried > 100
    assert await waiting(http) == []
    await posted(http, {"item": "other", "key": "k"})


@pytest.mark.protocol("4.17", "5.65")
async def test_the_index_comes_before_what_the_schema_says(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "item.json").write_text('{"properties": {"format": {"enum": ["jpg"]}}}')
    toml = open_queue(schemas='"schemas"')
    async with (
        running_server(tmp_path, toml) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        posts = [{"item": {"format": "jpg"}}, {"item": {"format": "gif"}}]
        refused(await http.post("/demo/items", json=posts), 422, "schema", "/1/item/format")
        error = await monitor.ask({"post": posts, "ref": 1})
        assert (error["code"], error["errors"][0]["path"], error["ref"]) == ("schema", "/1/item/format", 1)
        assert await waiting(http) == []


@pytest.mark.protocol("5.67", "5.69")
async def test_a_full_queue_refuses_the_whole_array_and_still_knows_its_keys(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, open_queue(max_pending="2")) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        await posted(http, {"item": 1, "key": "a"})
        refused(await http.post("/demo/items", json=[{"item": 2}, {"item": 3}]), 429, "limit")
        await posted(http, [{"item": 1, "key": "a"}, {"item": 2}])
        await posted(http, {"item": 1}, 200, {"idempotency-key": "a"})
        refused(await http.post("/demo/items", json={"item": 3}), 429, "limit")
        assert await waiting(http) == [1, 2]


# ── NDJSON ──


@pytest.mark.protocol("5.62")
async def test_lines_are_posts(http: httpx.AsyncClient) -> None:
    for content in (
        '{"item":1,"key":"a"}\n{"item":2}',
        '{"item":1,"key":"a"}\r\n  {"item":2}\t\r\n',
        '{"item":1,"key":"a"}\n{"item":2}\n',
    ):
        answer = await http.post("/demo/items", content=content, headers={"content-type": "Application/X-NDJSON; a=b"})
        assert answer.status_code == 201, answer.text
        wire.check_response("POST", "/items", 201, answer.json())
        assert len(answer.json()["items"]) == 2
    assert await waiting(http) == [1, 2, 2, 2]


@pytest.mark.protocol("5.90")
@pytest.mark.parametrize(
    ("content", "status", "code", "path"),
    [
        ('{"item":1}\n\n{"item":2}', 400, "bad-json", "/1"),
        ('{"item":1}\n{"item":', 400, "bad-json", "/1"),
        ('{"item":1}\n[{"item":2}]', 422, "bad-message", "/1"),
        ('{"item":1}{"item":2}', 400, "bad-json", "/0"),
        ("null", 422, "bad-message", "/0"),
        ('{"item":1}\n\n', 400, "bad-json", "/1"),
    ],
)
async def test_lines_that_are_no_posts(
    http: httpx.AsyncClient, content: str, status: int, code: str, path: str
) -> None:
    refused(await http.post("/demo/items", content=content, headers=LINES), status, code, path)
    assert await waiting(http) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"item":2,}', "line 1, column 10"),
        ('{"item":1}\n{"item":2,}\n', "line 2, column 10"),
        ('{"item":1}\r\n{"item":2}\r\nnot', "line 3, column "),
        ('{"item":1}\n\n{"item":2}', "an empty text is no JSON (line 2, column 1)"),
        ('{"item":1}\n{"item":1}\n{"item":1e999}', "line 3, column "),
        ('{"item":1}\n{"item":"\\ud800"}', "line 2, column "),
    ],
)
async def test_what_is_wrong_in_a_line_is_told_with_its_line(http: httpx.AsyncClient, content: str, told: str) -> None:
    problem = (await http.post("/demo/items", content=content, headers=LINES)).json()
    assert problem["code"] == "bad-json"
    assert told in problem["detail"]
    assert told in problem["errors"][0]["message"]
    assert await waiting(http) == []


@pytest.mark.protocol("5.88", "5.89")
async def test_a_line_is_bound_as_a_body_is_and_all_of_them_by_eight_of_those(http: httpx.AsyncClient) -> None:
    """An array, which has to be read at once, is bound as one body."""
    line = json.dumps({"item": "x" * (LARGEST - 131_072 - 2)}).encode()
    whole = b"\n".join([line] * 5)
    assert (await http.post("/demo/items", content=whole, headers=LINES)).status_code == 201
    long = b'{"item": 1, "more": "' + b"x" * LARGEST + b'"}'
    refused(await http.post("/demo/items", content=b'{"item":1}\n' + long, headers=LINES), 413, "too-large", "/1")
    refused(await http.post("/demo/items", content=b"[" + long + b"]", headers=JSON), 413, "too-large")
    refused(await http.post("/demo/items", content=b" " * (8 * LARGEST + 1), headers=LINES), 413, "too-large")
    assert len(await waiting(http)) == 5


# ── Keys over HTTP ──


@pytest.mark.protocol("5.4", "5.6", "5.75", "5.76")
async def test_a_known_key_is_answered_as_it_was_and_whatever_became_of_the_item(http: httpx.AsyncClient) -> None:
    first = await posted(http, {"item": {"a": 1, "b": [2]}, "key": "k"})
    again = await posted(http, {"item": {"b": [2.0], "a": 1}, "key": "k", "priority": 9}, 200)
    assert again == first | {"duplicate": True}
    assert (await http.post("/demo/claim", json={})).json()["id"] == first["id"]
    await http.post("/demo/result", json={"id": first["id"], "value": 1})
    assert (await posted(http, {"item": {"a": 1, "b": [2]}, "key": "k"}, 200))["status"] == "finished"
    view = (await http.get(f"/demo/items/{first['id']}")).json()
    assert (view["key"], view["priority"]) == ("k", 0)
    refused(await http.post("/demo/items", json={"item": 2, "key": "k"}), 409, "conflict", "/key")
    refused(await http.post("/demo/items", json=[{"item": 1}, {"item": 2, "key": "k"}]), 409, "conflict", "/1/key")


@pytest.mark.protocol("5.75")
async def test_twenty_equal_posts_at_once_make_one_item(http: httpx.AsyncClient, server: TestServer) -> None:
    """Over HTTP and on the monitor socket, each on its own connection."""

    async def over_http() -> str:
        answer = await http.post("/demo/items", json={"item": [1, 2], "key": "k"})
        return str(answer.json()["id"])

    async def over_a_socket() -> str:
        async with raw_socket(f"{server.ws_url}/demo/monitor") as socket:
            return str((await socket.ask({"post": {"item": [1, 2.0], "key": "k"}}))["id"])

    ids = await asyncio.gather(*(over_http() for _ in range(10)), *(over_a_socket() for _ in range(10)))
    assert len(set(ids)) == 1
    assert len(await waiting(http)) == 1


@pytest.mark.protocol("5.72")
async def test_the_header_is_the_same_as_the_member(http: httpx.AsyncClient) -> None:
    first = await posted(http, {"item": 1}, headers={"Idempotency-Key": "order 7"})
    for body, headers in (
        ({"item": 1}, {"idempotency-key": "order 7"}),
        ({"item": 1, "key": "order 7"}, {}),
        ({"item": 1, "key": "order 7"}, {"IDEMPOTENCY-KEY": "order 7"}),
    ):
        assert (await posted(http, body, 200, headers))["id"] == first["id"]
    refused(
        await http.post("/demo/items", json={"item": 1, "key": "other"}, headers={"idempotency-key": "order 7"}),
        422,
        "bad-message",
        "/key",
    )
    refused(
        await http.post("/demo/items", json={"item": 2}, headers={"idempotency-key": "order 7"}),
        409,
        "conflict",
        "/key",
    )


KEYS: Final = {
    "in UTF-8": ("Idempotency-Key: ü".encode(), 201),
    "twice the same": (b"Idempotency-Key: a\r\nIdempotency-Key: a", 201),
    "of 200": (b"Idempotency-Key: " + b"x" * 200, 201),
    "in quotes, which are of the key": (b'Idempotency-Key: "a"', 201),
    "empty": (b"Idempotency-Key: ", 422),
    "of 201": (b"Idempotency-Key: " + b"x" * 201, 422),
    "with a control": (b"Idempotency-Key: a\tb", 422),
    "with a separator of lines": ("Idempotency-Key: a\u2028b".encode(), 422),
    "not in UTF-8": (b"Idempotency-Key: \xfc", 422),
    "twice": (b"Idempotency-Key: a\r\nIdempotency-Key: b", 422),
}


@pytest.mark.parametrize("name", KEYS)
async def test_what_can_be_a_key_in_the_header(server: TestServer, http: httpx.AsyncClient, name: str) -> None:
    header, status = KEYS[name]
    plain = request("POST /demo/items", "localhost", "Content-Type: application/json", "Content-Length: 10", "Key: x")
    answered = await exchange(int(server.base_url.rpartition(":")[2]), plain.replace(b"Key: x", header) + b'{"item":1}')
    assert answered.status == status
    keys = [message["item"] for message in (await http.post("/demo/claim", json={"count": 9})).json()[:-1]]
    assert len(keys) == (status == 201)


async def test_a_key_in_the_header_is_text_as_in_the_body(server: TestServer, http: httpx.AsyncClient) -> None:
    first = await posted(http, {"item": 1, "key": "ü"})
    answer = await http.post("/demo/items", json={"item": 1}, headers=[(b"idempotency-key", "ü".encode())])
    assert answer.json() == first | {"duplicate": True}


@pytest.mark.protocol("0.18", "0.19")
@pytest.mark.parametrize("value", [None, 1, "", "x" * 201, "a\nb", "a\x00", "a\u2028", "\u2029b", True, [], {}])
async def test_what_is_no_key(http: httpx.AsyncClient, server: TestServer, value: Any) -> None:
    refused(await http.post("/demo/items", json={"item": 1, "key": value}), 422, "bad-message", "/key")
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        error = await monitor.ask({"post": {"item": 1, "key": value}})
        assert (error["code"], error["errors"][0]["path"]) == ("bad-message", "/key")
        assert (await monitor.ask({"post": {"item": 2, "key": "k"}}))["type"] == "posted"
    assert await waiting(http) == [2]


@pytest.mark.protocol("5.90")
async def test_the_header_is_for_one_item(http: httpx.AsyncClient) -> None:
    for content, media in (('[{"item":1}]', JSON), ('{"item":1}', LINES)):
        answer = await http.post("/demo/items", content=content, headers=media | {"idempotency-key": "k"})
        refused(answer, 422, "bad-message")
        assert "Idempotency-Key" in answer.json()["detail"]
    assert await waiting(http) == []


@pytest.mark.protocol("5.31", "5.73")
async def test_a_key_is_free_after_its_window_and_after_a_delete(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, open_queue(dedupe_window='"1h"'), clock=clock) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        first = await posted(http, {"item": 1, "key": "k"})
        await http.post(f"/demo/items/{first['id']}/cancel")
        clock.advance(3_600_000 - 1)
        refused(await http.post("/demo/items", json={"item": 2, "key": "k"}), 409, "conflict", "/key")
        clock.advance(1)
        second = await posted(http, {"item": 2, "key": "k"})
        await http.post(f"/demo/items/{second['id']}/cancel")
        assert (await http.delete(f"/demo/items/{second['id']}")).status_code == 204
        await posted(http, {"item": 3, "key": "k"})


@pytest.mark.protocol("5.4")
async def test_the_same_key_twice_also_after_a_restart_is_one_item_and_the_same_answer(tmp_path: Path) -> None:
    clock = ManualClock()
    answers = []
    for status in (201, 200, 200):
        async with (
            running_server(tmp_path, clock=clock) as server,
            httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
        ):
            answers.append(await posted(http, {"item": {"a": 1.0}}, status, {"idempotency-key": "k"}))
    first, *later = answers
    assert later == [first | {"duplicate": True}] * 2


@pytest.mark.protocol("2.23")
async def test_keys_of_posters_who_see_only_their_own_are_their_own(tmp_path: Path) -> None:
    toml = '[queues.demo]\nvisibility = "own"\naccess = { work = ["box"] }\n'
    users: dict[str, list[Right]] = {"ann": [], "bob": []}
    async with (
        running_server(tmp_path, toml, users=users) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as http,
    ):
        ids = []
        for user, item in (("ann", 1), ("bob", 2)):
            bearer = {"authorization": f"Bearer {server.tokens[user]}"}
            answer = await posted(http, {"item": item, "key": "k"}, 201, bearer)
            assert await posted(http, {"item": item, "key": "k"}, 200, bearer) == answer | {"duplicate": True}
            ids.append(answer["id"])
        assert ids[0] != ids[1]


# ── The monitor socket ──


@pytest.mark.protocol("3.27")
async def test_an_array_on_the_monitor_socket_and_what_it_watches(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        known = await monitor.ask({"post": {"item": 1, "key": "a"}})
        posts = [
            {"item": 1, "key": "a", "subscribe": True},
            {"item": 2},
            {"item": 3, "priority": 5, "subscribe": True},
        ]
        monitor.say({"post": posts, "ref": "r"})
        answer = await monitor.hear()
        wire.check_server("monitor", answer)
        assert (answer["type"], answer["ref"]) == ("posted", "r")
        assert [each["duplicate"] for each in answer["items"]] == [True, False, False]
        assert answer["items"][0]["id"] == known["id"]
        views = [await monitor.hear() for _ in range(2)]
        assert {view["id"]: view["rev"] for view in views} == {known["id"]: 1, answer["items"][2]["id"]: 1}
        assert (await monitor.ask({"hello": {}}))["type"] == "hello", "and nothing more is told"


async def test_a_socket_lives_on_after_an_array_that_is_refused(server: TestServer, http: httpx.AsyncClient) -> None:
    clock = server.running._clock
    assert isinstance(clock, ManualClock)
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        for _, body, _, code in wrong(POST):
            clock.advance(1_000)
            text = json.dumps({"post": [{"item": 1, "subscribe": True}, body]})
            monitor.frame(TEXT, text.encode())
            error = await monitor.hear()
            assert (error["type"], error["code"]) == ("error", code), body
        assert (await monitor.ask({"post": [{"item": "good"}]}))["items"][0]["status"] == "pending"
    assert await waiting(http) == ["good"]
