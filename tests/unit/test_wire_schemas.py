"""The wire schemas and the example queue: sound, complete, and neither too narrow nor too wide."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from leaseway_schemas import example, example_folder, wire, wire_names
from support import wire as held
from support.wire import WireError, check_client, check_http, check_request, check_response, check_server

ID = "9f2c1a0b7d4e6f83"
NOW = 1751500000000

# By hand, from PROTOCOL.md §3, §4 and §5: what this stage of the server speaks.
WORK_VERBS = {
    *("hello", "batch", "claim", "unclaim", "progress", "result", "fail", "release", "renew", "resume"),
}
WORK_TYPES = {
    *("hello", "batch", "error", "item", "empty", "progress-ack", "result-ack", "fail-ack", "release-ack"),
    *("renew-ack", "resume-ack", "cancel"),
}
MONITOR_VERBS = {"hello", "batch", "subscribe", "unsubscribe", "post", "cancel", "stats"}
MONITOR_TYPES = {"hello", "batch", "error", "status", "posted", "cancel-ack", "stats"}
HTTP = {
    *(
        "post",
        "post-all",
        "posted",
        "posted-all",
        "patch",
        "view",
        "problem",
        "claim",
        "progress",
        "result",
        "fail",
        "release",
        "renew",
    ),
    *("ticket", "health", "ready", "queue", "queues", "rates", "attempts", "paused", "workers", "page"),
    *("bulk", "bulk-counts", "why"),
}
SERVER_SCHEMAS = sorted(
    {name for name in wire_names() if "-server-" in name}
    | {f"http-{name}" for name in ("posted", "posted-all", "view", "problem", "ticket", "health", "ready")}
    | {
        f"http-{name}"
        for name in ("queue", "queues", "rates", "attempts", "paused", "workers", "page", "bulk-counts", "why")
    }
)
ANY_VALUE = {"item", "progress", "result", "value"}

GOOD_FROM_CLIENTS: list[tuple[held.Socket, Any]] = [
    ("work", {"claim": {}}),
    ("work", {"claim": {"criteria": {"a": {"b": [1, 2]}, "c": {"$lte": 3}}, "worker": "box", "waitMs": 0}}),
    ("work", {"claim": {"unknown": 1}, "colour": "red", "ref": "x"}),
    ("work", {"claim": {"count": 1}}),
    ("work", {"unclaim": True}),
    ("work", {"progress": {"id": ID, "value": None}}),
    ("work", {"result": {"id": ID, "attempts": 0, "value": [1]}, "ref": -1}),
    ("work", {"fail": {"id": ID, "error": {"message": "", "own": 1}, "retryable": True, "retryInMs": 0}}),
    ("work", {"release": {"id": ID, "delayMs": 0}}),
    ("work", {"renew": {"id": ID}}),
    ("work", {"renew": [{"id": ID}, {"id": ID, "attempts": 1}]}),
    ("work", {"result": [{"id": ID, "value": None}], "ref": 1}),
    ("work", {"resume": {"worker": "box-1", "leases": []}}),
    ("work", {"hello": {}}),
    ("work", {"batch": []}),
    ("work", {"batch": [{"claim": {}}, {"renew": {"id": ID}, "ref": 1}]}),
    ("monitor", {"hello": {"batch": True, "labels": {"a": 1}}}),
    ("monitor", {"subscribe": [ID, "no id"]}),
    ("monitor", {"unsubscribe": []}),
    ("monitor", {"subscribe": {"mine": True}}),
    ("monitor", {"unsubscribe": {"all": True}, "ref": "x"}),
    ("monitor", {"cancel": [ID, "no id"]}),
    ("monitor", {"stats": False}),
    (
        "monitor",
        {"post": {"item": None, "dueAt": NOW, "ttlMs": 1, "key": "ü", "meta": {}, "subscribe": True}},
    ),
    ("monitor", {"post": [{"item": 1}, {"item": 2, "key": "k", "subscribe": False}]}),
    ("monitor", {"batch": [{"subscribe": []}, {"post": {"item": 1}}]}),
]
BAD_FROM_CLIENTS: list[tuple[held.Socket, Any]] = [
    ("work", []),
    ("work", "claim"),
    ("work", {}),
    ("work", {"subscribe": [ID]}),
    ("work", {"claim": {}, "renew": {"id": ID}}),
    ("work", {"claim": {}, "ref": True}),
    ("work", {"claim": {}, "ref": 1.5}),
    ("work", {"claim": []}),
    ("work", {"claim": {"criteria": [1]}}),
    ("work", {"claim": {"waitMs": -1}}),
    ("work", {"claim": {"count": 0}}),
    ("work", {"unclaim": False}),
    ("work", {"claim": {"worker": "a\nb"}}),
    ("work", {"claim": {"worker": "b\n"}}),
    ("work", {"claim": {"worker": "b" * 201}}),
    ("work", {"progress": {"id": ID}}),
    ("work", {"progress": {"id": ID.upper(), "value": 1}}),
    ("work", {"progress": {"id": ID + "\n", "value": 1}}),
    ("work", {"result": {"value": 1}}),
    ("work", {"result": {"id": ID, "attempts": -1, "value": 1}}),
    ("work", {"fail": {"id": ID}}),
    ("work", {"fail": {"id": ID, "error": "text"}}),
    ("work", {"fail": {"id": ID, "error": {"code": "x"}}}),
    ("work", {"fail": {"id": ID, "error": {"message": "x"}, "retryable": "no"}}),
    ("work", {"release": {"id": ID, "delayMs": "5s"}}),
    ("work", {"renew": []}),
    ("work", {"renew": [{"id": ID}, {}]}),
    ("work", {"renew": [{"id": ID}] * 1_001}),
    ("work", {"progress": [[{"id": ID, "value": 1}]]}),
    ("work", {"resume": {"leases": []}}),
    ("work", {"resume": {"worker": "w", "leases": [{"id": ID}]}}),
    ("work", {"hello": {"cancel": 1}}),
    ("work", {"batch": {"claim": {}}}),
    ("work", {"batch": [{"dance": {}}]}),
    ("work", {"batch": [{"claim": {}, "renew": {"id": ID}}]}),
    ("monitor", {"claim": {}}),
    ("monitor", {"subscribe": ID}),
    ("monitor", {"subscribe": [1]}),
    ("monitor", {"subscribe": {}}),
    ("monitor", {"subscribe": {"mine": False}}),
    ("monitor", {"subscribe": {"mine": True, "all": True}}),
    ("monitor", {"unsubscribe": {"all": True, "more": 1}}),
    ("monitor", {"cancel": []}),
    ("monitor", {"cancel": ID}),
    ("monitor", {"cancel": [1]}),
    ("monitor", {"stats": 1}),
    ("monitor", {"post": {}}),
    ("monitor", {"post": {"item": 1, "priority": 101}}),
    ("monitor", {"post": {"item": 1, "priority": 0.5}}),
    ("monitor", {"post": {"item": 1, "delayMs": 0, "dueAt": NOW}}),
    ("monitor", {"post": {"item": 1, "maxAttempts": 0}}),
    ("monitor", {"post": {"item": 1, "meta": []}}),
    ("monitor", {"post": {"item": 1, "subscribe": "yes"}}),
    ("monitor", {"post": {"item": 1, "key": ""}}),
    ("monitor", {"post": []}),
    ("monitor", {"post": [{"item": 1}, {}]}),
    ("monitor", {"post": [{"item": 1, "subscribe": 1}]}),
]
ACK = {"type": "result-ack", "id": ID, "accepted": True, "status": "finished"}
LATE = {"type": "result-ack", "id": ID, "accepted": False, "status": "finished", "reason": "terminal"}
RENEWED = {
    "type": "renew-ack",
    "id": ID,
    "accepted": True,
    "status": "processing",
    "leaseUntil": NOW,
    "leaseMs": 1,
}
RESUMED = {"id": ID, "accepted": True, "status": "processing", "leaseUntil": NOW}
CANCELLED = {"type": "cancel-ack", "id": ID, "accepted": True, "status": "cancelled", "index": 0}
STATS = wire("monitor-server-stats")["examples"][0]
ERROR = {"type": "error", "id": None, "code": "bad-json", "errors": [{"path": "", "message": "no JSON"}]}
VIEW = wire("monitor-server-status")["examples"][0]
GOOD_FROM_SERVER: list[tuple[held.Socket, Any]] = [
    ("work", ACK),
    ("work", {**ACK, "ref": 0}),
    ("work", {**ACK, "index": 0}),
    ("work", {**ERROR, "index": 7, "ref": "r"}),
    ("monitor", CANCELLED),
    ("monitor", {**CANCELLED, "accepted": False, "status": "failed", "reason": "terminal", "ref": 1}),
    ("monitor", {**STATS, "ref": 1}),
    ("monitor", {"type": "batch", "messages": [CANCELLED, STATS]}),
    ("work", LATE),
    ("work", {**LATE, "duplicate": True}),
    ("work", {**LATE, "status": None, "reason": "unknown"}),
    ("work", RENEWED),
    ("work", {**RENEWED, "accepted": False, "leaseUntil": None, "reason": "not-holder"}),
    ("work", {**LATE, "id": "no id", "status": None, "reason": "unknown"}),
    ("work", {"type": "resume-ack", "leases": [RESUMED]}),
    ("work", ERROR),
    ("work", {**ERROR, "code": "schema", "errors": [{"path": "/a~1b/0", "message": "x"}] * 10}),
    ("work", {"type": "cancel", "id": ID, "reason": "resumed"}),
    ("work", {"type": "batch", "messages": [ACK, {"type": "empty"}]}),
    ("monitor", VIEW),
    ("monitor", {**VIEW, "error": {"message": "m", "code": "c", "own": []}}),
    ("monitor", {"type": "posted", "id": ID, "status": "processing", "duplicate": False}),
    ("monitor", {"type": "posted", "items": [{"id": ID, "status": "pending", "duplicate": True}], "ref": 1}),
    ("monitor", {"type": "batch", "messages": [VIEW, ERROR]}),
]
BAD_FROM_SERVER: list[tuple[held.Socket, Any]] = [
    ("work", {"type": "posted", "id": ID, "status": "pending", "duplicate": False}),
    ("monitor", {"type": "empty"}),
    ("monitor", {"type": "posted", "items": []}),
    ("monitor", {"type": "posted", "id": ID, "items": [{"id": ID, "status": "pending", "duplicate": True}]}),
    ("monitor", {"type": "posted", "items": [{"id": ID, "status": "pending"}]}),
    ("work", {**ACK, "reason": "fence"}),
    ("work", {**ACK, "index": -1}),
    ("work", CANCELLED),
    ("monitor", {**CANCELLED, "status": "finished"}),
    ("monitor", {**CANCELLED, "accepted": False}),
    ("monitor", {**CANCELLED, "accepted": False, "reason": "fence"}),
    ("monitor", {**STATS, "counts": {**STATS["counts"], "lost": 1}}),
    ("monitor", {**STATS, "counts": {"pending": 1}}),
    ("monitor", {**STATS, "rates": {}}),
    ("monitor", {**VIEW, "index": 0}),
    ("work", {**ACK, "duplicate": True}),
    ("work", {**LATE, "duplicate": False}),
    ("work", {**LATE, "reason": "late"}),
    ("work", {"type": "result-ack", "id": ID, "accepted": False, "status": "finished"}),
    ("work", {**RENEWED, "leaseUntil": None}),
    ("work", {"type": "resume-ack", "leases": [{**RESUMED, "accepted": False}]}),
    ("work", {"type": "resume-ack", "leases": [{**RESUMED, "leaseMs": 1}]}),
    ("work", {**ERROR, "code": "not-found"}),
    ("work", {**ERROR, "errors": [{"path": "a", "message": "x"}]}),
    ("work", {**ERROR, "errors": [{"path": "/a~2", "message": "x"}]}),
    ("work", {**ERROR, "errors": [{"path": "", "message": "x" * 201}]}),
    ("work", {**ERROR, "errors": [{"path": "", "message": "x"}] * 11}),
    ("work", {"type": "batch", "messages": []}),
    ("work", {"type": "batch", "messages": [VIEW]}),
    ("work", {"type": "batch", "messages": [{"type": "empty", "extra": 1}]}),
    ("monitor", {**VIEW, "finishedAt": NOW}),
    ("monitor", {**VIEW, "status": "finished"}),
    ("monitor", {**VIEW, "status": "lost"}),
    ("monitor", {**VIEW, "error": "text"}),
]


@pytest.mark.parametrize("name", wire_names())
def test_each_is_a_schema_that_says_what_it_is(name: str) -> None:
    schema = wire(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith(f"/{name}.json")
    assert schema["title"]
    assert "PROTOCOL.md" in schema["description"]
    assert all(not isinstance(part.get("format"), str) for part in _objects(schema))


@pytest.mark.parametrize("name", wire_names())
def test_each_reference_stays_in_the_package(name: str) -> None:
    schema = wire(name)
    resolver = held.registry().resolver(schema["$id"])
    for reference in [part["$ref"] for part in _objects(schema) if "$ref" in part]:
        file = reference.partition("#")[0]
        assert not file or file.removesuffix(".json") in wire_names()
        assert resolver.lookup(reference).contents


def test_each_verb_and_type_of_the_protocol_has_its_schema() -> None:
    assert held.verbs("work") == WORK_VERBS
    assert held.verbs("monitor") == MONITOR_VERBS
    assert held.types("work") == WORK_TYPES
    assert held.types("monitor") == MONITOR_TYPES
    assert {name.removeprefix("http-") for name in wire_names() if name.startswith("http-")} == HTTP


def test_batches_hold_all_messages_of_their_socket() -> None:
    for socket, side in (
        ("work", "client"),
        ("work", "server"),
        ("monitor", "client"),
        ("monitor", "server"),
    ):
        of_socket = {name for name in wire_names() if name.startswith((f"{socket}-{side}-", f"socket-{side}-"))}
        assert _references(wire(f"{socket}-{side}-batch")) == of_socket - {f"{socket}-{side}-batch"}


@pytest.mark.protocol("4.21", "4.22")
def test_codes_reasons_and_statuses_are_the_protocols() -> None:
    shared = wire("defs")["$defs"]
    codes = [
        "bad-json",
        "bad-message",
        "schema",
        "too-large",
        "limit",
        "conflict",
        "not-allowed",
        "unavailable",
    ]
    assert shared["code"]["enum"] == codes
    assert shared["httpCode"]["enum"] == [*codes, "not-found", "unauthorized"]
    assert set(shared["reason"]["enum"]) == {"unknown", "terminal", "fence", "not-holder", "settled"}
    statuses = {"pending", "processing", "finished", "failed", "dead", "cancelled", "expired"}
    assert set(shared["status"]["enum"]) == statuses
    assert set(shared["label"]["enum"]) == statuses | {"scheduled", "retrying"}


@pytest.mark.parametrize("name", [name for name in wire_names() if name != "defs"])
def test_each_has_examples_that_meet_it(name: str) -> None:
    for shown in wire(name)["examples"]:
        held.check(name, shown)


@pytest.mark.parametrize(("socket", "message"), GOOD_FROM_CLIENTS)
def test_a_client_may_say(socket: held.Socket, message: Any) -> None:
    check_client(socket, message)


@pytest.mark.parametrize(("socket", "message"), BAD_FROM_CLIENTS)
def test_a_client_may_not_say(socket: held.Socket, message: Any) -> None:
    with pytest.raises(WireError):
        check_client(socket, message)


@pytest.mark.parametrize(("socket", "message"), GOOD_FROM_SERVER)
def test_the_server_may_say(socket: held.Socket, message: Any) -> None:
    check_server(socket, message)


@pytest.mark.parametrize(("socket", "message"), BAD_FROM_SERVER)
def test_the_server_may_not_say(socket: held.Socket, message: Any) -> None:
    with pytest.raises(WireError):
        check_server(socket, message)


@pytest.mark.parametrize("name", SERVER_SCHEMAS)
def test_what_the_server_says_is_exact(name: str) -> None:
    for shown in wire(name)["examples"]:
        for broken in _broken(shown, _optional(name)):
            with pytest.raises(WireError):
                held.check(name, broken)


def test_http_bodies() -> None:
    check_http("claim", {"waitMs": 5})
    check_request("POST", "/items", {"item": 1})
    check_request("POST", "/fail", {"id": ID, "error": {"message": "x"}})
    check_request("POST", "/items", [{"item": 1, "key": "k"}, {"item": 2}])
    check_request("PATCH", f"/items/{ID}", {"priority": 1})
    check_request("POST", f"/items/{ID}/cancel", "anything")
    for patch in ({}, {"priority": 101}, {"dueAt": -1}, {"dueAt": 1, "meta": {}}):
        with pytest.raises(WireError):
            check_request("PATCH", f"/items/{ID}", patch)
    for path, body in (("/items", {}), ("/items", []), ("/items", [{}]), ("/claim", {"waitMs": -1}), ("/renew", {})):
        with pytest.raises(WireError):
            check_request("POST", path, body)


def test_http_answers() -> None:
    problem = {"title": "No such item", "status": 404, "code": "not-found"}
    check_response("GET", f"/items/{ID}?waitMs=5", 200, VIEW)
    check_response("POST", f"/items/{ID}/cancel", 200, VIEW)
    check_response("POST", f"/items/{ID}/retry", 200, VIEW)
    check_response("PATCH", f"/items/{ID}", 200, VIEW)
    check_response("POST", "/items", 201, wire("http-posted-all")["examples"][0])
    check_response("GET", f"/items/{ID}/item", 200, ["anything"])
    check_response("POST", "/claim", 200, {"type": "empty"})
    check_response("POST", "/claim", 200, [wire("work-server-item")["examples"][0], {"type": "empty"}])
    check_response("GET", "/_ready", 200, {"status": "ready"})
    check_response("POST", "/tickets", 201, {"ticket": "x" * 22, "expiresAt": NOW})
    check_response("GET", f"/items/{ID}", 404, problem)
    refused: list[Callable[[], None]] = [
        partial(check_response, "GET", f"/items/{ID}", 200, {**VIEW, "ref": 1}),
        partial(check_response, "GET", f"/items/{ID}", 403, problem),
        partial(check_response, "POST", "/items", 422, {**problem, "status": 422, "code": "schema"}),
        partial(check_response, "POST", "/claim", 200, {"type": "posted"}),
        partial(check_response, "POST", "/claim", 200, [{"type": "empty"}, {"type": "posted"}]),
        partial(check_response, "POST", "/items", 201, VIEW),
        partial(check_response, "POST", "/items", 201, {"items": [VIEW]}),
        partial(check_response, "GET", "/_health", 200, {"status": "ready"}),
        partial(check_response, "POST", "/tickets", 201, {"ticket": "x" * 21, "expiresAt": NOW}),
        partial(check_response, "POST", "/tickets", 201, {"ticket": "x" * 22, "expiresAt": None}),
        partial(check_response, "POST", "/tickets", 201, {"ticket": "x" * 22, "expiresAt": NOW, "token": "x"}),
    ]
    for check in refused:
        with pytest.raises(WireError):
            check()


# ── The package ─────────────────────────────────────────────────────────────────────────────────────────


def test_unknown_names_are_no_files() -> None:
    with pytest.raises(FileNotFoundError):
        wire("none")
    with pytest.raises(FileNotFoundError):
        example("resize", "none")
    with pytest.raises(FileNotFoundError):
        example_folder("none")


def test_what_a_caller_got_is_its_own() -> None:
    wire("defs").clear()
    assert wire("defs")


# ── The example queue ───────────────────────────────────────────────────────────────────────────────────

PICTURE = "data:image/png;base64,iVBORw0KGgo="
GOOD_RESIZE: dict[str, dict[str, Any]] = {
    "item": {"image": PICTURE, "format": "webp", "width": 4096},
    "progress": {"percent": 99.5, "stage": "encoding"},
    "result": {
        "image": PICTURE,
        "width": 1,
        "height": 5000,
        "palette": ["#00ff7a"] * 8,
        "luminance": 1,
    },
}
BAD_RESIZE: list[tuple[str, str, list[Any]]] = [
    ("item", "image", ["", "https://x/y.png", "data:image/gif;base64,AA==", "data:image/png;base64,", 7]),
    ("item", "image", ["data:image/png;base64,A A=", "data:image/png,AA", "x" + PICTURE]),
    ("item", "format", ["jpeg", "PNG", None]),
    ("item", "width", [0, 4097, 1.5, "64"]),
    ("progress", "percent", [-0.1, 100.1, "40"]),
    ("progress", "stage", ["", "x" * 101, 1]),
    ("result", "image", ["AA=="]),
    ("result", "width", [0, 4097]),
    ("result", "height", [0]),
    ("result", "palette", [[], ["#00ff7a"] * 9, ["red"], ["#00FF7A"], "#00ff7a"]),
    ("result", "luminance", [-0.1, 1.1, None]),
]


@pytest.mark.parametrize("kind", GOOD_RESIZE)
def test_resize_takes_what_it_should(kind: str) -> None:
    schema = example("resize", kind)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid(GOOD_RESIZE[kind])
    for member in schema["required"]:
        assert not validator.is_valid({k: v for k, v in GOOD_RESIZE[kind].items() if k != member})
    assert not validator.is_valid({**GOOD_RESIZE[kind], "extra": 1})
    assert not validator.is_valid([])


@pytest.mark.parametrize(("kind", "member", "values"), BAD_RESIZE)
def test_resize_refuses_what_it_should(kind: str, member: str, values: list[Any]) -> None:
    validator = Draft202012Validator(example("resize", kind))
    for value in values:
        assert not validator.is_valid({**GOOD_RESIZE[kind], member: value}), value


def test_progress_needs_no_stage() -> None:
    assert Draft202012Validator(example("resize", "progress")).is_valid({"percent": 40})


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, its examples aside."""
    if isinstance(value, dict):
        yield value
        for key, part in value.items():
            if key != "examples":
                yield from _objects(part)
    elif isinstance(value, list):
        for part in value:
            yield from _objects(part)


def _references(schema: dict[str, Any]) -> set[str]:
    found = {part["$ref"].partition("#")[0].removesuffix(".json") for part in _objects(schema) if "$ref" in part}
    return found - {"defs"}


def _optional(name: str) -> set[str]:
    schema = wire("monitor-server-status" if name == "http-view" else name)
    return set(schema["properties"]) - set(schema["required"])


def _broken(shown: dict[str, Any], optional: set[str]) -> Iterator[dict[str, Any]]:
    """The example with a member too many, with one missing, and with one of a type that nothing has."""
    yield {**shown, "extra": 1}
    for member in shown:
        if member not in optional:
            yield {key: value for key, value in shown.items() if key != member}
        if member not in ANY_VALUE:
            yield {**shown, member: [[]]}
