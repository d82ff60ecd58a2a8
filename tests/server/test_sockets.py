"""What the transcripts do not tell of the sockets: each member of each message, wrong in each way, and the limits."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support import wire
from support.clock import ManualClock
from support.raw import PING, TEXT, RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server
from support.wrong import CLAIM, HELLO, NO_OBJECT, POST, REPORTS, SOCKET_ONLY, wrong

Message = dict[str, Any]


async def ask_badly(server: TestServer, socket: RawSocket, message: Message) -> Message:
    """As `ask`, at a time when bad messages are forgiven again: too many at once would end the socket (§6, 1008)."""
    clock = server.running._clock
    assert isinstance(clock, ManualClock)
    clock.advance(1_000)
    return dict(await socket.ask(message))


@asynccontextmanager
async def held(server: TestServer) -> AsyncIterator[tuple[RawSocket, str]]:
    """A work socket that holds an item, and the item's id. At the end it still does, and nothing has happened to it."""
    async with (
        raw_socket(f"{server.ws_url}/demo/monitor") as monitor,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        item_id = (await monitor.ask({"post": {"item": 1}}))["id"]
        claimed = await work.ask({"claim": {"worker": "w"}})
        assert claimed["id"] == item_id
        before = await monitor.ask({"subscribe": [item_id]})
        yield work, item_id
        renewed = await work.ask({"renew": {"id": item_id}, "ref": "last"})
        assert (renewed["accepted"], renewed["ref"]) == (True, "last"), "some message was answered twice, or not at all"
        assert await monitor.ask({"subscribe": [item_id]}) == before


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, open_queue(lease='"1h"'), clock=ManualClock()) as server:
        yield server


def of(item_id: str, body: Message) -> Message:
    """The body, about the item that is there."""
    return body | ({"id": item_id} if body.get("id") == "0123456789abcdef" else {})


@pytest.mark.protocol("0.18", "5.79", "7.10")
async def test_a_work_message_with_a_wrong_member_is_refused_once_and_changes_nothing(server: TestServer) -> None:
    tried = 0
    async with held(server) as (work, item_id):
        for verb, body, member, code in wrong(REPORTS | CLAIM | SOCKET_ONLY | HELLO):
            answer = await ask_badly(server, work, {verb: of(item_id, body), "ref": tried})
            where = (verb, member, str(body.get(member, "left out"))[:60], answer)
            assert (answer["type"], answer["code"]) == ("error", code), where
            if code != "bad-json":  # Else nobody can know what the text says.
                assert answer["ref"] == tried, where
                assert answer["errors"][0]["path"].startswith(f"/{member}") or code == "too-large", where
                named = verb in REPORTS and isinstance(body.get("id"), str)
                assert answer["id"] == (item_id if named else None), where
            wire.check_server("work", answer)
            tried += 1
    assert tried > 200


async def test_a_post_on_the_socket_with_a_wrong_member_posts_nothing(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        for verb, body, member, code in wrong(POST):
            answer = await ask_badly(server, monitor, {verb: body})
            where = (member, str(body.get(member, "left out"))[:60], answer)
            assert (answer["type"], answer["code"]) == ("error", code), where
            wire.check_server("monitor", answer)
        for flag in (None, 0, "yes"):
            assert (await ask_badly(server, monitor, {"post": {"item": 1, "subscribe": flag}}))["code"] == "bad-message"
    async with raw_socket(f"{server.ws_url}/demo/work") as work:
        assert await work.ask({"claim": {}}) == {"type": "empty"}


@pytest.mark.parametrize("verb", ["claim", "progress", "result", "fail", "release", "renew", "resume", "hello"])
async def test_what_stands_behind_a_verb_is_an_object(verb: str, server: TestServer) -> None:
    async with held(server) as (work, _):
        for value in NO_OBJECT:
            answer = await work.ask({verb: value})
            assert (answer["type"], answer["code"]) == ("error", "bad-message"), value


@pytest.mark.protocol("0.12", "4.77")
@pytest.mark.parametrize("kind", ["work", "monitor"])
async def test_what_is_no_message_is_an_error_and_the_socket_lives(kind: str, server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/{kind}") as socket:
        for text, code in {
            "": "bad-json",
            " ": "bad-json",
            "{": "bad-json",
            "nonsense": "bad-json",
            "null": "bad-message",
            "1": "bad-message",
            '"claim"': "bad-message",
            "[]": "bad-message",
            '[{"hello": {}}]': "bad-message",
            "{}": "bad-message",
            '{"Hello": {}}': "bad-message",
            '{"hello": {}, "batch": []}': "bad-message",
            '{"type": "claim"}': "bad-message",
        }.items():
            socket.frame(TEXT, text.encode())
            answer = await socket.hear()
            assert (answer["type"], answer["id"], answer["code"]) == ("error", None, code), text
            wire.check_server("work" if kind == "work" else "monitor", answer)
        wrong_refs: list[Any] = [1.5, True, [], {}, "x" * 201]
        for ref in wrong_refs:
            answer = await socket.ask({"hello": {}, "ref": ref})
            assert (answer["type"], answer["code"], answer["errors"][0]["path"]) == ("error", "bad-message", "/ref")
            assert "ref" not in answer
        for ref in (0, -1, 2**64 - 1, "", "x" * 200, "ä\u0000"):
            assert (await socket.ask({"hello": {}, "ref": ref}))["ref"] == ref
        assert "ref" not in await socket.ask({"hello": {}, "ref": None})


@pytest.mark.protocol("4.74")
@pytest.mark.parametrize("kind", ["work", "monitor"])
async def test_a_batch_has_bounds_and_no_batch_in_it(kind: str, server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/{kind}") as socket:
        for value, code in (({}, "bad-message"), (None, "bad-message"), ([{}] * 1_001, "limit")):
            answer = await socket.ask({"batch": value, "ref": "b"})
            assert (answer["type"], answer["code"], answer["ref"]) == ("error", code, "b")
        socket.say(
            {"batch": [{"hello": {}, "ref": 1}, {"batch": [{"hello": {}}], "ref": 2}, 3, {"hello": {}, "ref": 4}]}
        )
        answers = [await socket.hear() for _ in range(4)]
        assert [(answer["type"], answer.get("ref")) for answer in answers] == [
            ("hello", 1),
            ("error", 2),
            ("error", None),
            ("hello", 4),
        ]
        socket.say({"batch": [{"hello": {}, "ref": number} for number in range(1_000)]})
        assert [(await socket.hear())["ref"] for _ in range(1_000)] == list(range(1_000))
        socket.say({"batch": []})
        assert (await socket.ask({"hello": {}, "ref": "next"}))["ref"] == "next"


@pytest.mark.protocol("3.5", "3.36")
async def test_ids_to_watch_have_bounds_and_what_is_none_is_ignored(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
        item_id = (await monitor.ask({"post": {"item": 1}}))["id"]
        for verb in ("subscribe", "unsubscribe"):
            for value in (None, 1, "x", {}, {"mine": 1}, True):
                assert (await monitor.ask({verb: value}))["code"] == "bad-message", (verb, value)
            many = [f"{number:016x}" for number in range(10_001)]
            assert (await monitor.ask({verb: many}))["code"] == "limit"
        odd = [None, 1, [], {}, "", "x", item_id.upper() + " ", f"0x{item_id[2:]}", "𝟏" * 16, "f" * 17, "\x00" * 16]
        monitor.say({"unsubscribe": odd})
        assert (await monitor.ask({"subscribe": [*odd, item_id, item_id]}))["id"] == item_id
        monitor.say({"subscribe": odd})
        assert (await monitor.ask({"hello": {}}))["type"] == "hello", "an unknown id costs nothing and says nothing"
        assert len(server.engine("demo").hub) == 1


@pytest.mark.protocol("3.36", "3.37")
async def test_the_limit_of_subscriptions_leaves_what_was_there(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor, raw_socket(f"{server.ws_url}/demo/work") as work:
        item_id = (await monitor.ask({"post": {"item": 1, "subscribe": True}}))["id"]
        assert (await monitor.hear())["status"] == "pending"
        await work.ask({"claim": {}})
        assert (await monitor.hear())["status"] == "processing"
        # Ids that name nothing cost nothing once that is known; until then they count.
        monitor.say({"batch": [{"subscribe": [f"{number:016x}" for number in range(10_000)]}, {"hello": {}}]})
        assert (await monitor.hear())["code"] == "limit"
        assert (await monitor.hear())["type"] == "hello"
        assert (await work.ask({"result": {"id": item_id, "value": 1}}))["accepted"]
        assert (await monitor.hear())["status"] == "finished"


@pytest.mark.protocol("5.78", "5.79", "5.80", "5.81")
async def test_what_was_accepted_can_be_handed_out_and_shown(server: TestServer) -> None:
    """The largest item, checkpoint and result: no message is larger than `maxMessageBytes`, with a batch or without."""
    largest = "x" * (1_048_576 - 131_072 - 2)
    record = "y" * (32 * 1_024 - 2)
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor, raw_socket(f"{server.ws_url}/demo/work") as work:
        await work.ask({"hello": {"batch": True, "worker": "w"}})
        await monitor.ask({"hello": {"batch": True}})
        ids = [(await monitor.ask({"post": {"item": largest, "meta": {"m": "z" * 1_900}}}))["id"] for _ in range(3)]
        work.say({"claim": {"count": 3, "waitMs": 0}, "ref": "r" * 200})
        for item_id in ids:
            frame = await work.next()
            assert len(frame.data) <= 1_048_576
            message = json.loads(frame.data)
            assert (message["id"], message["item"]) == (item_id, largest)
        for item_id in ids:
            assert (await work.ask({"progress": {"id": item_id, "value": record}}))["accepted"]
            assert (await work.ask({"result": {"id": item_id, "value": largest}}))["accepted"]
        monitor.say({"subscribe": ids})
        for item_id in ids:
            while (frame := await monitor.next()).opcode == PING:
                continue  # Receipts are asked for in between.
            assert len(frame.data) <= 1_048_576
            assert json.loads(frame.data)["id"] == item_id


@pytest.mark.protocol("4.38", "5.70")
async def test_larger_claims_are_cut_and_ended_by_empty(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor, raw_socket(f"{server.ws_url}/demo/work") as work:
        for _ in range(2):
            await monitor.ask({"post": {"item": 1}})
        work.say({"claim": {"count": 2**53 - 1}})
        assert [(await work.hear())["type"] for _ in range(3)] == ["item", "item", "empty"]
        work.say({"claim": {"waitMs": 2**53 - 1}})
        work.say({"unclaim": True})
        assert (await work.hear())["type"] == "empty"
        assert (await work.ask({"hello": {}}))["type"] == "hello"


@pytest.mark.protocol("2.16")
@pytest.mark.parametrize(
    ("path", "user", "code"),
    [
        ("/demo/work", None, 4401),
        ("/demo/monitor", None, 4401),
        ("/none/work", None, 4401),
        ("/none/monitor", "ann", 4404),
        ("/demo/work", "ann", 4403),
        ("/_demo/work", "ann", 4404),
        ("/Demo/work", "ann", 4404),
        ("/demo%2fx/work", "ann", None),
    ],
)
async def test_who_may_not_is_told_by_the_close_code(
    path: str, user: str | None, code: int | None, tmp_path: Path
) -> None:
    toml = '[queues.demo]\naccess = { post = "users", fetch = "users", work = ["box"] }\n'
    async with running_server(tmp_path, toml, users={"ann": [], "box": []}) as server:
        query = f"?token={server.tokens[user]}" if user else ""
        if code is None:
            with pytest.raises(AssertionError, match="403 Forbidden"):
                async with raw_socket(f"{server.ws_url}{path}{query}"):
                    pass
            return
        async with raw_socket(f"{server.ws_url}{path}{query}") as socket:
            assert await socket.closed() == code


async def test_an_open_queue_takes_sockets_without_a_token_but_not_with_a_bad_one(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        async with raw_socket(f"{server.ws_url}/demo/work?token=none") as socket:
            assert await socket.closed() == 4401
        async with raw_socket(f"{server.ws_url}/none/work") as socket:
            assert await socket.closed() == 4404
        async with raw_socket(f"{server.ws_url}/demo/work", {"Authorization": "Basic x"}) as socket:
            assert (await socket.ask({"hello": {}}))["type"] == "hello"
