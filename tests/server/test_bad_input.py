"""Bad input of every kind, at every door: refused once, with code and place, and nothing is changed (PROTOCOL.md §7.5).

The messages come from the wire schemas (`support.mutations`); what the server takes on purpose is in `TAKEN`.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from leaseway_schemas import wire as wire_schema
from leaseway_server.store.sqlite.store import SqliteStore
from support import wire
from support.clock import START, ManualClock
from support.http_client import http_client
from support.mutations import DEEP, UNKEEPABLE, Mutant, client_schemas, mutants, request_bodies
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server

Message = dict[str, Any]
SocketName = Literal["work", "monitor"]

NOBODYS: Final = "9f2c1a0b7d4e6f83"
"""The id of the schemas' examples. No item has it."""
SOCKETS: Final = [
    (socket, verb, schema) for socket in ("work", "monitor") for verb, schema in client_schemas(socket).items()
]
TOML: Final = "[server]\n[server.limits]\nbad_messages = 1_000_000\n" + open_queue(lease='"1h"')
TAKEN: Final[Mapping[str, Callable[[str, str, Mutant], bool]]] = {
    # By door and message: the schemas, which are for those who write clients, forbid it.
    "a ref that is null is none": lambda _door, _says, it: it.pointer == "/ref" and it.value is None,
    "criteria that are null are none": lambda _door, _says, it: it.pointer.endswith("/criteria") and it.value is None,
    "a text that is no id names no item": lambda _door, _says, it: (
        it.place[-1:] == ("id",) and isinstance(it.value, str)
    ),
    "what is no id is not watched": lambda _door, says, it: (
        says in ("subscribe", "unsubscribe")
        and (it.place == (says, 0) or (it.place == (says,) and isinstance(it.value, list) and len(it.value) <= 10_000))
    ),
}


def is_taken(door: str, says: str, mutant: Mutant) -> bool:
    """Whether the server takes it on purpose. What JSON cannot keep it takes nowhere."""
    return not is_unkeepable(mutant) and any(takes(door, says, mutant) for takes in TAKEN.values())


def is_unkeepable(mutant: Mutant) -> bool:
    """Whether its whole text is no JSON of the protocol."""
    return any(mutant.value is value for value in UNKEEPABLE)


def wrong(door: str, says: str, schema: str) -> Iterator[Mutant]:
    """The mutants of a message that are to be refused. Those of a batch's members are the members' own."""
    for mutant in mutants(schema):
        if mutant.refused and not is_taken(door, says, mutant) and mutant.place[:2] != ("batch", 0):
            yield mutant


def allowed(door: str, says: str, schema: str) -> Iterator[Mutant]:
    """The mutants of a message that are not to be refused for their form."""
    return (mutant for mutant in mutants(schema) if not mutant.refused or is_taken(door, says, mutant))


def rows(server: TestServer) -> dict[str, list[Any]]:
    """All that the queue's store holds."""
    store = server.engine("demo")._store
    assert isinstance(store, SqliteStore)
    tables = [name for (name,) in store.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {table: store.connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, and a work socket that holds an item."""

    server: TestServer
    worker: RawSocket
    item_id: str

    def about_it(self, message: Any) -> Any:
        """The message, about the item that is held."""
        return json.loads(json.dumps(message).replace(NOBODYS, self.item_id))

    async def answers(self, socket: RawSocket, message: Any) -> list[Message]:
        """What comes for a message, until a greeting behind it is answered: the socket lives."""
        socket.say(message)
        socket.say({"hello": {}, "ref": "the end"})
        heard: list[Message] = []
        while not heard or heard[-1].get("ref") != "the end":
            told = await socket.hear()
            heard += told["messages"] if told["type"] == "batch" else [told]
        return heard[:-1]


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    async with (
        running_server(folder, TOML, clock=ManualClock()) as server,
        raw_socket(f"{server.ws_url}/demo/work") as worker,
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
    ):
        item_id = (await monitor.ask({"post": {"item": 1}}))["id"]
        assert (await worker.ask({"claim": {"worker": "w"}}))["id"] == item_id
        yield Scene(server, worker, item_id)


@asynccontextmanager
async def speaker(at: Scene, socket: str) -> AsyncIterator[RawSocket]:
    """The worker, or a monitor."""
    if socket == "work":
        yield at.worker
    else:
        async with raw_socket(f"{at.server.ws_url}/demo/monitor") as monitor:
            yield monitor


def check_error(told: Message, body: str, mutant: Mutant) -> None:
    """It points, from the body on, to what was changed, to what holds it or into it, or says that it is no JSON."""
    path = told["errors"][0]["path"] if told.get("errors") else ""
    place = mutant.pointer.removeprefix(body)
    assert place.startswith(path) or path.startswith(place), (body, str(mutant), told)
    assert (told["code"] == "bad-json") == is_unkeepable(mutant) or mutant.value is DEEP, (body, str(mutant), told)


# ── The sockets ──


@pytest.mark.protocol("7.10", "0.16", "4.13", "4.14")
@pytest.mark.parametrize(("socket", "verb", "schema"), SOCKETS)
async def test_a_message_with_a_wrong_member_is_refused_once_and_changes_nothing(
    socket: SocketName, verb: str, schema: str, tmp_path: Path
) -> None:
    tried = 0
    async with scene(tmp_path) as at, speaker(at, socket) as speaks:
        before = rows(at.server)
        for mutant in wrong(socket, verb, schema):
            answers = await at.answers(speaks, at.about_it(mutant.message))
            assert [answer["type"] for answer in answers] == ["error"], (verb, str(mutant), answers)
            wire.check_server(socket, answers[0])
            check_error(answers[0], f"/{verb}", mutant)
            tried += 1
        assert rows(at.server) == before
    assert tried > 50


@pytest.mark.parametrize(("socket", "verb", "schema"), SOCKETS)
async def test_what_the_schemas_allow_or_the_server_takes_does_no_harm(
    socket: SocketName, verb: str, schema: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as at, raw_socket(f"{at.server.ws_url}/demo/{socket}") as speaks:
        for mutant in allowed(socket, verb, schema):
            answers = await at.answers(speaks, mutant.message)
            for answer in answers:
                wire.check_server(socket, answer)
            if mutant.refused:
                codes = {answer.get("code") for answer in answers}
                assert not codes & {"bad-message", "bad-json"}, (verb, str(mutant), answers)
        assert (await at.worker.ask({"renew": {"id": at.item_id}}))["accepted"], "others are not concerned"
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.protocol("0.14")
@pytest.mark.parametrize("socket", ["work", "monitor"])
async def test_two_verbs_are_none(socket: SocketName, tmp_path: Path) -> None:
    examples = {verb: wire_schema(schema)["examples"][0] for verb, schema in client_schemas(socket).items()}
    async with scene(tmp_path) as at, speaker(at, socket) as speaks:
        before = rows(at.server)
        for one, other in combinations(examples, 2):
            answers = await at.answers(speaks, at.about_it(examples[one] | examples[other]))
            assert [(answer["type"], answer["code"]) for answer in answers] == [("error", "bad-message")], (one, other)
        assert rows(at.server) == before


@pytest.mark.protocol("4.74")
@pytest.mark.parametrize(("socket", "verb", "schema"), [each for each in SOCKETS if each[1] != "batch"])
async def test_a_bad_message_in_a_batch_spoils_no_other(
    socket: SocketName, verb: str, schema: str, tmp_path: Path
) -> None:
    async with scene(tmp_path) as at, speaker(at, socket) as speaks:
        for mutant in wrong(socket, verb, schema):
            if is_unkeepable(mutant):
                continue  # Then the whole batch is none.
            batch = [{"hello": {}, "ref": "before"}, mutant.message, {"hello": {}, "ref": "after"}]
            answers = await at.answers(speaks, {"batch": at.about_it(batch)})
            assert [answer["type"] for answer in answers] == ["hello", "error", "hello"], (verb, str(mutant), answers)
            assert (answers[0]["ref"], answers[2]["ref"]) == ("before", "after")


def in_array(verb: str, schema: str) -> Any:
    """What the example says behind the verb, where the schema takes an array of such too; else None."""
    inner = wire_schema(schema)["examples"][0].get(verb)
    return inner if isinstance(inner, dict) and wire.is_valid(schema, {verb: [inner, inner]}) else None


@pytest.mark.parametrize(("socket", "verb", "schema"), [each for each in SOCKETS if in_array(*each[1:])])
async def test_a_bad_member_of_an_array_is_named(socket: SocketName, verb: str, schema: str, tmp_path: Path) -> None:
    """Of reports it spoils no other; of posts, which are one transaction, all. The good one is about no item."""
    good = in_array(verb, schema)
    async with scene(tmp_path) as at, speaker(at, socket) as speaks:
        before = rows(at.server)
        for mutant in wrong(socket, verb, schema):
            if mutant.place[:1] != (verb,) or verb not in mutant.message or is_unkeepable(mutant):
                continue
            answers = await at.answers(speaks, {verb: [good, at.about_it(mutant.message[verb])]})
            errors = [answer for answer in answers if answer["type"] == "error"]
            assert len(errors) == 1, (verb, str(mutant), answers)
            assert errors[0].get("index") == 1 or errors[0]["errors"][0]["path"].startswith("/1"), errors
        assert rows(at.server) == before


SPECIAL: Final[list[tuple[SocketName, Message, str, str]]] = [
    ("work", {"claim": {"criteria": {f"m{number}": 1 for number in range(10_000)}}}, "bad-message", "/criteria"),
    ("work", {"claim": {"criteria": {"a": {"$in": list(range(10_000))}}}}, "bad-message", "/criteria"),
    ("work", {"claim": {"criteria": {"a": {"b": {"$like": "x"}}}}}, "bad-message", "/criteria/a/b/$like"),
    ("work", {"claim": {"criteria": {"$or": []}}}, "bad-message", "/criteria/$or"),
    ("work", {"claim": {"criteria": {"a": {"$lt": 1, "b": 1}}}}, "bad-message", "/criteria/a"),
    ("work", {"claim": {"criteria": {"a": {"$exists": 1}}}}, "bad-message", "/criteria/a/$exists"),
    ("work", {"claim": {"criteria": {"a": {"$in": {}}}}}, "bad-message", "/criteria/a/$in"),
    ("work", {"claim": {"criteria": {"a": {"$lt": {}}}}}, "bad-message", "/criteria/a/$lt"),
    ("monitor", {"post": {"item": 1, "delayMs": 1, "dueAt": START + 1}}, "bad-message", "/dueAt"),
    ("monitor", {"post": {"item": 1, "delayMs": 5, "ttlMs": 5}}, "bad-message", "/ttlMs"),
    ("monitor", {"post": {"item": 1, "dueAt": START + 9, "ttlMs": 5}}, "bad-message", "/ttlMs"),
    ("monitor", {"post": {"item": 1, "meta": {"m": "x" * 2_000}}}, "too-large", "/meta"),
    ("monitor", {"post": {"item": "x" * 918_000}}, "too-large", "/item"),
]


@pytest.mark.protocol("4.51", "5.58", "5.78")
@pytest.mark.parametrize(("socket", "message", "code", "path"), SPECIAL, ids=lambda value: str(value)[:60])
async def test_what_no_schema_of_a_message_can_forbid_is_refused_at_both_doors(
    socket: SocketName, message: Message, code: str, path: str, tmp_path: Path
) -> None:
    ((verb, body),) = message.items()
    async with scene(tmp_path) as at, speaker(at, socket) as speaks, http_client(at.server.base_url) as http:
        before = rows(at.server)
        (told,) = await at.answers(speaks, message)
        answer = await http.post("/demo/items" if verb == "post" else f"/demo/{verb}", json=body)
        problem = answer.json()
        wire.check_http("problem", problem)
        for each in (told, problem):
            assert (each["code"], each["errors"][0]["path"]) == (code, path), each
        assert rows(at.server) == before


# ── HTTP ──


BODIES: Final = [(schema, method, path) for schema, (method, path) in request_bodies().items()]


@pytest.mark.protocol("7.10", "5.2", "5.71")
@pytest.mark.parametrize(("schema", "method", "path"), BODIES)
async def test_a_request_with_a_wrong_member_is_refused_and_changes_nothing(
    schema: str, method: str, path: str, tmp_path: Path
) -> None:
    tried = 0
    async with scene(tmp_path) as at, http_client(at.server.base_url) as http:
        url = path.replace("<queue>", "demo").replace("<id>", at.item_id)
        before = rows(at.server)
        for mutant in wrong("http", schema, schema):
            content = json.dumps(at.about_it(mutant.message))
            answer = await http.request(method, url, content=content, headers={"content-type": "application/json"})
            assert 400 <= answer.status_code < 500, (str(mutant), answer.text[:300])
            wire.check_http("problem", answer.json())
            check_error(answer.json(), "", mutant)
            tried += 1
        assert rows(at.server) == before
        assert (await at.worker.ask({"renew": {"id": at.item_id}}))["accepted"]
    assert tried > 50


@pytest.mark.parametrize(("schema", "method", "path"), BODIES)
async def test_a_request_that_the_schemas_allow_does_no_harm(
    schema: str, method: str, path: str, tmp_path: Path
) -> None:
    async with scene(tmp_path) as at, http_client(at.server.base_url) as http:
        url = path.replace("<queue>", "demo").replace("<id>", NOBODYS)
        for mutant in allowed("http", schema, schema):
            await http.post("/demo/items", json={"item": "for a claim that would wait"})
            content = json.dumps(mutant.message)
            answer = await http.request(method, url, content=content, headers={"content-type": "application/json"})
            assert answer.status_code < 500, (str(mutant), answer.text[:300])
        assert (await at.worker.ask({"renew": {"id": at.item_id}}))["accepted"]


def test_each_excuse_is_one_for_something() -> None:
    said = [*SOCKETS, *(("http", schema, schema) for schema, _, _ in BODIES)]
    for name, takes in TAKEN.items():
        assert any(takes(door, says, it) and it.refused for door, says, schema in said for it in mutants(schema)), name
