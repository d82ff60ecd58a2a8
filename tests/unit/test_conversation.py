"""What both sockets share: one verb a message, `ref`, `batch`, `hello`, and answers in the order asked."""

from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.commands import Changed, Empty, Failed, Found, Handed
from leaseway_server.core.conversation import frames
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.hello import LABELS_LIMIT, Greeting
from leaseway_server.core.jsontext import Json
from leaseway_server.core.limits import Allowance, Allowances
from leaseway_server.core.monitor_session import Lookout, MonitorSession
from leaseway_server.core.queue import Limits, Queue, Schemas
from leaseway_server.core.reports import REPORTS
from leaseway_server.core.schema import Schema
from leaseway_server.core.session import WorkSession
from support.model import POLICY, SOCKET, held
from support.talk import Talk

QUEUE = Queue("resize", POLICY, Schemas(item=Schema.compile({"type": "object"})), Limits(batch=3))
ID = "00000000000000a1"


def work(queue: Queue = QUEUE) -> Talk:
    return Talk(WorkSession(queue, SOCKET, "box", lambda: 0.5, Allowance(Allowances(100), "box")), "work")


def monitor(queue: Queue = QUEUE) -> Talk:
    return Talk(MonitorSession(queue, "ann", frozenset({"post", "fetch"}), Lookout()), "monitor")


both = pytest.mark.parametrize("open_talk", [work, monitor])


def renewed(ref: Json = None) -> dict[str, object]:
    message: dict[str, object] = {"renew": {"id": ID, "attempts": 1}}
    return message if ref is None else {**message, "ref": ref}


OK = Changed(accepted=True, item=held())


# ── Messages that are none ──


@both
@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", "bad-json"),
        (b"hello", "bad-json"),
        (b'{"hello": {}', "bad-json"),
        (b'{"hello": NaN}', "bad-json"),
        (b'{"hello": 1e999}', "bad-json"),
        (b'{"ref": 18446744073709551616}', "bad-json"),
        (b"\xff", "bad-json"),
        (b"[" * 2_000, "bad-json"),
        (b"null", "bad-message"),
        (b"1", "bad-message"),
        (b'"hello"', "bad-message"),
        (b'[{"hello": {}}]', "bad-message"),
        (b"{}", "bad-message"),
        (b'{"Hello": {}}', "bad-message"),
        (b'{"ref": 1}', "bad-message"),
        (b'{"__proto__": {}, "constructor": 1}', "bad-message"),
    ],
)
def test_what_is_no_message_is_an_error_and_the_next_one_works(
    open_talk: Callable[[], Talk], frame: bytes, code: str
) -> None:
    talk = open_talk()
    assert talk.session.receive(frame) == []
    (error,) = talk.hears()
    assert (error["type"], error["code"], error["id"]) == ("error", code, None)
    talk.says({"hello": {}})
    assert talk.hears()[0]["type"] == "hello"


@pytest.mark.protocol("0.14")
@both
def test_a_message_has_one_verb(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    assert talk.refused({"hello": {}, "batch": []}) == ("bad-message", "", None)
    assert talk.refused({"hullo": {}}) == ("bad-message", "", None)


def test_each_socket_has_its_own_verbs() -> None:
    assert work().refused({"subscribe": []})[0] == "bad-message"
    assert monitor().refused({"claim": {}})[0] == "bad-message"


@pytest.mark.protocol("0.13")
def test_members_that_are_neither_verb_nor_ref_are_ignored() -> None:
    assert len(work().says({**renewed(), "later": {"claim": {}}, "type": "renew"})) == 1


def test_of_two_equal_names_the_last_counts() -> None:
    talk = work()
    (exchange,) = talk.session.receive(f'{{"renew": 1, "renew": {{"id": "{ID}"}}}}')
    assert exchange.verb == "renew"


# ── ref ──


@pytest.mark.protocol("4.78")
@pytest.mark.parametrize("ref", ["", "a" * 200, "№\n", 0, -(2**63), 2**64 - 1])
def test_every_direct_answer_repeats_the_ref(ref: Json) -> None:
    talk = work()
    talk.settle(talk.asks(renewed(ref)), OK)
    talk.says({"hello": {}, "ref": ref})
    talk.says_anything({"renew": 1, "ref": ref})
    talk.settle(talk.asks(renewed(ref)), Failed(Unavailable("not now")))
    waiting = talk.asks({"claim": {"count": 2, "waitMs": 5}, "ref": ref})
    talk.settle(waiting, Handed(held()), Empty())
    assert [(each["type"], each["ref"]) for each in talk.hears()] == [
        ("renew-ack", ref),
        ("hello", ref),
        ("error", ref),
        ("error", ref),
        ("item", ref),
        ("empty", ref),
    ]


def test_without_a_ref_the_answers_have_none() -> None:
    talk = work()
    talk.settle(talk.asks(renewed()), OK)
    talk.settle(talk.asks({"claim": {}}), Handed(held()))
    talk.says_anything({"renew": {"id": ID}, "ref": None})
    assert all("ref" not in each for each in talk.hears())


@both
@pytest.mark.parametrize("ref", [True, 1.0, [], {}, "a" * 201])
def test_a_ref_that_is_none_is_refused_and_not_repeated(open_talk: Callable[[], Talk], ref: Json) -> None:
    talk = open_talk()
    assert talk.says_anything({"hello": {}, "ref": ref}) == []
    (error,) = talk.hears()
    assert (error["code"], error["errors"][0]["path"]) == ("bad-message", "/ref")
    assert "ref" not in error


# ── The order of answers ──


def test_answers_come_in_the_order_asked_whatever_is_settled_first() -> None:
    talk = work()
    first, second, third = (talk.asks(renewed(ref)) for ref in (1, 2, 3))
    talk.settle(third, OK)
    assert talk.hears() == []
    talk.settle(first, OK)
    assert [each["ref"] for each in talk.hears()] == [1]
    talk.settle(second, OK)
    assert [each["ref"] for each in talk.hears()] == [2, 3]


def test_an_error_waits_for_the_answers_before_it() -> None:
    talk = work()
    first = talk.asks(renewed(1))
    talk.says_anything({"nothing": 1, "ref": 2})
    talk.session.receive("{")
    talk.says({"hello": {}, "ref": 3})
    assert talk.hears() == []
    assert talk.session.backlog == 4
    talk.settle(first, OK)
    assert [each["type"] for each in talk.hears()] == ["renew-ack", "error", "error", "hello"]
    assert talk.session.backlog == 0


@pytest.mark.protocol("4.27")
def test_only_waiting_claims_are_answered_out_of_order() -> None:
    talk = work()
    waiting = talk.asks({"claim": {"waitMs": 1_000}, "ref": 1})
    at_once = talk.asks({"claim": {}, "ref": 2})
    report = talk.asks(renewed(3))
    talk.settle(report, OK)
    assert talk.hears() == [], "a claim that does not wait is answered in its turn"
    talk.settle(at_once, Empty())
    assert [each["ref"] for each in talk.hears()] == [2, 3]
    talk.settle(waiting, Handed(held()))
    assert [each["ref"] for each in talk.hears()] == [1]


def test_a_claim_for_several_is_answered_until_it_has_all() -> None:
    talk = work()
    claim, report = talk.asks({"claim": {"count": 3}, "ref": 1}), talk.asks(renewed(2))
    talk.settle(report, OK)
    talk.settle(claim, Handed(held()), Handed(held(id="00000000000000a2")))
    assert talk.hears() == []
    talk.settle(claim, Empty())
    assert [each["type"] for each in talk.hears()] == ["item", "item", "empty", "renew-ack"]


def test_what_was_refused_is_over() -> None:
    talk = work()
    talk.settle(talk.asks({"claim": {"count": 3}}), Failed(Unavailable("not now")))
    (error,) = talk.hears()
    assert (error["type"], error["code"], error["id"]) == ("error", "unavailable", None)
    talk.settle(talk.asks(renewed()), Failed(Unavailable("not now")))
    assert talk.hears()[0]["id"] == ID
    assert talk.session.backlog == 0


def test_bytes_are_unanswered_until_their_message_is() -> None:
    talk = work()
    first, second = talk.asks(renewed(1)), talk.asks(renewed(2))
    assert talk.session.unanswered > 0
    waiting = talk.asks({"claim": {"waitMs": 1_000}})
    before = talk.session.unanswered
    talk.settle(waiting, Handed(held()))
    assert talk.session.unanswered == before, "a claim that waits is none of them"
    talk.settle(second, OK)
    assert 0 < talk.session.unanswered < before
    talk.settle(first, Failed(Unavailable("not now")))
    assert talk.session.unanswered == 0


def test_the_bytes_of_a_batch_are_its_first_answers() -> None:
    talk = work()
    claim, report = talk.says({"batch": [{"claim": {"waitMs": 1_000}}, renewed(1)]})
    assert talk.session.unanswered > 0
    talk.settle(report, OK)
    assert talk.session.unanswered == 0
    talk.settle(claim, Empty())
    assert talk.session.unanswered == 0


# ── batch ──


@both
def test_a_batch_is_handled_as_if_its_messages_came_one_by_one(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    talk.says_anything({"batch": [{"hello": {}, "ref": 1}, {"no": 1, "ref": 2}, 7]})
    assert [(each["type"], each.get("ref")) for each in talk.hears()] == [("hello", 1), ("error", 2), ("error", None)]


def test_the_commands_of_a_batch_keep_their_order() -> None:
    talk = work()
    exchanges = talk.says({"batch": [renewed(1), {"claim": {}}, renewed(2)]})
    assert [exchange.verb for exchange in exchanges] == ["renew", "claim", "renew"]


@both
def test_a_batch_may_be_empty(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    assert talk.says({"batch": []}) == []
    assert talk.hears() == []


@both
@pytest.mark.parametrize(("batch", "code"), [({}, "bad-message"), ("x", "bad-message"), ([{}] * 4, "limit")])
def test_a_batch_is_an_array_and_not_too_long(open_talk: Callable[[], Talk], batch: Json, code: str) -> None:
    assert open_talk().refused({"batch": batch, "ref": 1})[0] == code


TEN = [f"{number:016x}" for number in range(10)]
ONE_EACH = [
    *((work, {verb: [{"id": ID}]}) for verb in sorted(REPORTS)),
    (work, {"resume": {"worker": "w", "leases": [{"id": each, "attempts": 1} for each in TEN]}}),
    (monitor, {"post": [{"item": {}}]}),
    (monitor, {"cancel": [ID]}),
    (monitor, {"subscribe": TEN}),
]
"""What counts as one message beside the message that it is in."""


@pytest.mark.protocol("4.84")
@pytest.mark.parametrize(("open_talk", "message"), ONE_EACH)
def test_what_arrays_hold_counts_in_a_batch(open_talk: Callable[[], Talk], message: dict[str, Json]) -> None:
    """However it is packed, one frame holds no more than a batch may."""
    fits, full = multiplied(message, 2), multiplied(message, 3)
    assert refusals(open_talk(), {"batch": [fits, {"hello": {}, "ref": "next"}]}) == []
    assert refusals(open_talk(), {"batch": [full, {"hello": {}, "ref": "next"}]}) == [("next", "limit")]
    assert refusals(open_talk(), {"batch": [{"hello": {}}, {"hello": {}}, full]}) == []


def multiplied(message: dict[str, Json], times: int) -> dict[str, Json]:
    """The message with so many times what it counts as; with `subscribe` and `resume` besides what is free."""
    (verb, value), *_ = message.items()
    if verb == "resume":
        assert isinstance(value, dict)
        assert isinstance(value["leases"], list)
        return {verb: value | {"leases": value["leases"] * (times - 1)}}
    assert isinstance(value, list)
    return {verb: [f"{number:016x}" for number in range(10 * (times - 1))] if verb == "subscribe" else value * times}


def refusals(talk: Talk, message: Json) -> list[tuple[Json, str]]:
    """What is said to be past a limit, by `ref`; once all that was asked is answered."""
    for exchange in talk.says_anything(message):
        talk.settle(exchange, Failed(Unavailable("")))
    heard = (each for each in talk.hears() if each["type"] == "error")
    return [(each.get("ref"), each["code"]) for each in heard if each["code"] == "limit"]


@both
def test_no_batch_holds_a_batch(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    assert talk.refused({"batch": [{"batch": []}]})[0] == "bad-message"


@pytest.mark.protocol("0.5", "4.73")
def test_batches_are_sent_only_to_those_who_asked() -> None:
    talk = work()
    for batch in (False, True, False):
        talk.says({"hello": {"batch": batch}})
        talk.hears()
        for ref in (1, 2):
            talk.settle(talk.asks(renewed(ref)), OK)
        messages = talk.hears()
        if batch:
            (message,) = messages
            assert message["type"] == "batch"
            messages = message["messages"]
        assert [each["ref"] for each in messages] == [1, 2]


def test_one_message_is_no_batch() -> None:
    talk = work()
    talk.says({"hello": {"batch": True}})
    assert [each["type"] for each in talk.hears()] == ["hello"]
    assert talk.hears() == []


@pytest.mark.protocol("4.73", "5.80")
@given(st.lists(st.integers(2, 60), max_size=30), st.integers(70, 200))
def test_batches_hold_all_in_order_and_none_is_longer_than_may_be(sizes: list[int], limit: int) -> None:
    messages = [b'"' + b"x" * (size - 2) + b'"' for size in sizes]
    sent = frames(messages, True, limit)
    told: list[bytes] = []
    for frame in sent:
        assert len(frame) <= limit
        value = orjson.loads(frame)
        told += [orjson.dumps(each) for each in value["messages"]] if isinstance(value, dict) else [frame]
    assert told == messages
    assert frames(messages, False, limit) == messages


def test_a_batch_is_split_no_earlier_than_need_be() -> None:
    envelope = len(b'{"type":"batch","messages":[]}')
    messages = [b'"xxxxxxxx"'] * 4
    fits = envelope + 4 * 10 + 3
    assert len(frames(messages, True, fits)) == 1
    assert len(frames(messages, True, fits)[0]) == fits
    assert [len(frame) for frame in frames(messages, True, fits - 1)] == [envelope + 32, 10]


# ── hello ──


@pytest.mark.protocol("4.66")
@both
def test_hello_says_what_a_client_must_know(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    talk.says({"hello": {}})
    assert talk.hears() == [
        {
            "type": "hello",
            "protocol": 1,
            "queue": "resize",
            "leaseMs": 10_000,
            "schemas": {"item": {"type": "object"}, "progress": None, "result": None},
            "maxMessageBytes": 1_048_576,
        }
    ]


@both
@pytest.mark.parametrize(
    ("hello", "path"),
    [
        (1, ""),
        ([], ""),
        ({"worker": ""}, "/worker"),
        ({"worker": 1}, "/worker"),
        ({"worker": None}, "/worker"),
        ({"worker": "a" * 201}, "/worker"),
        ({"worker": "a\nb"}, "/worker"),
        ({"batch": 1}, "/batch"),
        ({"batch": None}, "/batch"),
        ({"batch": True, "worker": "box", "cancel": 1}, "/cancel"),
        ({"client": ""}, "/client"),
        ({"client": None}, "/client"),
        ({"client": {}}, "/client"),
        ({"client": "c" * 201}, "/client"),
        ({"worker": "box", "labels": []}, "/labels"),
        ({"labels": None}, "/labels"),
        ({"labels": "zone"}, "/labels"),
        *(({"paceMs": pace}, "/paceMs") for pace in (0, -1, 60_001, 500.0, True, None, "500")),
        *(({"paceMs": 500, "paceOffsetMs": offset}, "/paceOffsetMs") for offset in (-1, 500, 0.0, True, None, "0")),
        ({"paceOffsetMs": 0}, ""),
        ({"stamp": None}, "/stamp"),
        ({"stamp": "false"}, "/stamp"),
    ],
)
def test_a_hello_that_is_wrong_changes_nothing(open_talk: Callable[[], Talk], hello: Json, path: str) -> None:
    talk = open_talk()
    assert talk.refused({"hello": hello}) == ("bad-message", path, None)
    assert talk.session.greeting == Greeting()


@pytest.mark.protocol("4.80")
@both
def test_labels_are_bounded(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    room = LABELS_LIMIT - len('{"a":""}')
    assert talk.refused({"hello": {"worker": "box", "labels": {"a": "x" * (room + 1)}}})[:2] == ("too-large", "/labels")
    nested: Json = 1
    for _ in range(65):
        nested = [nested]
    assert talk.refused({"hello": {"labels": {"a": nested}}})[:2] == ("bad-json", "/labels")
    assert talk.session.greeting == Greeting()
    talk.says({"hello": {"labels": {"a": "x" * room}}})
    assert len(talk.session.greeting.labels) == LABELS_LIMIT


@both
def test_what_a_hello_said_is_kept_until_the_next_one(open_talk: Callable[[], Talk]) -> None:
    talk = open_talk()
    talk.says({"hello": {"worker": "box", "client": "c/1", "labels": {"ü": [1]}, "cancel": True, "batch": True}})
    assert talk.session.greeting == Greeting("box", "c/1", '{"ü":[1]}', cancel=True, batch=True)
    talk.says({"hello": {"paceMs": 60_000, "paceOffsetMs": 59_999, "stamp": False}})
    assert talk.session.greeting == Greeting(pace_ms=60_000, pace_offset_ms=59_999, stamp=False)
    talk.says({"hello": {}})
    assert talk.session.greeting == Greeting()


def test_a_found_view_is_no_answer_that_a_worker_gets() -> None:
    talk = work()
    with pytest.raises(AssertionError):
        talk.settle(talk.asks({"unclaim": True}), Found())


@pytest.mark.protocol("4.19")
def test_an_error_names_at_most_ten_faults_and_cuts_long_texts() -> None:
    schema = Schema.compile({"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}})
    talk = work(replace(QUEUE, schemas=Schemas(progress=schema)))
    value = {f"member{number}": "x" * 500 for number in range(40)}
    assert talk.says({"progress": {"id": ID, "value": value}}) == []
    (error,) = talk.hears()
    assert error["code"] == "schema"
    assert len(error["errors"]) == 10
    assert all(len(each["message"]) <= 200 for each in error["errors"])


def test_messages_are_counted_and_those_that_are_none() -> None:
    talk = work()
    for frame in (b"{", b'{"no": 1}', b'{"batch": [{"no": 1}, {"hello": {}}, 7]}', b'{"hello": {}}'):
        talk.session.receive(frame)
    assert (talk.session.heard, talk.session.bad) == (6, 4), "a batch is its members"
    talk.says_anything({"progress": {"id": ID, "value": "x" * 99_999}})
    assert (talk.session.heard, talk.session.bad) == (7, 4), "too large is no bad message"
