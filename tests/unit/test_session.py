"""The work socket without its socket: each message of a worker, each answer, and the numbers that it remembers."""

from dataclasses import replace
from typing import Any

import pytest

from leaseway_schemas import example
from leaseway_server.core import session as session_module
from leaseway_server.core.commands import (
    Ask,
    Change,
    Changed,
    Done,
    Empty,
    Handed,
    Outcome,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.events import Event, Fail, Progress, Release, Renew, Result
from leaseway_server.core.jsontext import Json
from leaseway_server.core.limits import Allowance, Allowances
from leaseway_server.core.model import Item
from leaseway_server.core.queue import ENVELOPE, RECORD_LIMIT, Limits, Queue, Schemas
from leaseway_server.core.schema import Schema
from leaseway_server.core.session import WorkSession
from support.model import LEASE, NOW, POLICY, SOCKET, ended, held, pending, waiting_again
from support.talk import Talk

ID = "00000000000000a1"
OTHER_ID = "00000000000000a2"
LIMITS = Limits(message_bytes=ENVELOPE + 1_000, count=5, wait_ms=60_000, ids=3)
PLAIN = Queue("demo", POLICY, limits=LIMITS)
SCHEMAS = Schemas(*(Schema.compile(example("resize", kind)) for kind in ("item", "progress", "result")))
RESIZE = Queue("resize", POLICY, SCHEMAS, LIMITS)


def talk_on(queue: Queue = PLAIN) -> Talk:
    return Talk(WorkSession(queue, SOCKET, "box", lambda: 0.25, Allowance(Allowances(2), "box")), "work")


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


def deep(value: Json) -> dict[str, Json]:
    return {"a": {"b": {"c": value}}}


# ── Claims ──


@pytest.mark.protocol("4.2", "4.67", "5.70")
@pytest.mark.parametrize(
    ("claim", "ask"),
    [
        ({}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 1, 0)),
        ({"criteria": {}}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 1, 0)),
        ({"criteria": {"format": ["jpg"]}}, Ask(SOCKET, "box", "box-1", Criteria.parse({"format": ["jpg"]}), 1, 0)),
        ({"worker": "box-2"}, Ask(SOCKET, "box", "box-2", Criteria.parse(None), 1, 0)),
        ({"count": 3, "waitMs": 5_000}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 3, 5_000)),
        ({"count": 2**60, "waitMs": 2**60}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 5, 60_000)),
        ({"count": 99, "waitMs": 10**9}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 5, 60_000)),
        ({"later": 1}, Ask(SOCKET, "box", "box-1", Criteria.parse(None), 1, 0)),
    ],
)
def test_a_claim(claim: Any, ask: Ask) -> None:
    talk = talk_on()
    talk.says({"hello": {"worker": "box-1"}})
    (command,) = talk.commands({"claim": claim})
    assert isinstance(command, Ask)
    members = ("holder", "user", "worker", "criteria", "count", "wait_ms", "until")
    assert [getattr(command, name) for name in members] == [getattr(ask, name) for name in members]


def test_a_claim_without_any_name_has_none() -> None:
    (command,) = talk_on().commands({"claim": {}})
    assert isinstance(command, Ask)
    assert command.worker == ""


@pytest.mark.protocol("4.51")
@pytest.mark.parametrize(
    ("claim", "path"),
    [
        (True, ""),
        ([], ""),
        ({"criteria": 1}, "/criteria"),
        ({"criteria": {"a": {"$near": 1}}}, "/criteria/a/$near"),
        ({"criteria": {"a": {"$lt": 1, "b": 1}}}, "/criteria/a"),
        ({"worker": ""}, "/worker"),
        ({"worker": 7}, "/worker"),
        ({"count": 0}, "/count"),
        ({"count": True}, "/count"),
        ({"count": 1.0}, "/count"),
        ({"count": None}, "/count"),
        ({"waitMs": -1}, "/waitMs"),
        ({"waitMs": "5"}, "/waitMs"),
    ],
)
def test_a_claim_that_is_wrong(claim: Json, path: str) -> None:
    assert talk_on().refused({"claim": claim}) == ("bad-message", path, None)


def test_only_so_many_claims_wait() -> None:
    talk = talk_on()
    first = talk.asks({"claim": {"waitMs": 5}})
    talk.asks({"claim": {"waitMs": 5, "count": 2}})
    assert talk.refused({"claim": {"waitMs": 5}}) == ("limit", "", None)
    talk.asks({"claim": {}})
    talk.settle(first, Empty())
    talk.asks({"claim": {"waitMs": 5}})


def test_an_item_and_an_empty() -> None:
    talk = talk_on()
    exchange = talk.asks({"claim": {"count": 2}})
    talk.settle(exchange, Handed(replace(held(), progress='{"percent":40}')), Empty())
    assert talk.hears() == [
        {
            "type": "item",
            "id": ID,
            "item": {"kind": "a"},
            "attempts": 1,
            "leaseUntil": NOW + LEASE,
            "leaseMs": LEASE,
            "progress": {"percent": 40},
            "meta": None,
        },
        {"type": "empty"},
    ]


@pytest.mark.parametrize("value", [False, None, 1, "true", {}])
def test_an_unclaim_is_followed_by_true(value: Any) -> None:
    talk = talk_on()
    assert talk.refused({"unclaim": value, "ref": 1}) == ("bad-message", "", None)


@pytest.mark.protocol("4.40")
def test_an_unclaim_is_answered_by_the_ends_of_the_claims_alone() -> None:
    talk = talk_on()
    claim = talk.asks({"claim": {"waitMs": 5}, "ref": 1})
    unclaim = talk.asks({"unclaim": True, "ref": 2})
    assert unclaim.command == Withdraw(SOCKET)
    talk.settle(claim, Empty())
    talk.settle(unclaim, Done())
    assert talk.hears() == [{"type": "empty", "ref": 1}]
    assert talk.session.backlog == 0


# ── Reports ──


@pytest.mark.protocol("4.30")
@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"progress": {"id": ID, "value": {"a": 1.0}}}, Progress('{"a":1.0}', SOCKET, "box", None)),
        ({"progress": {"id": ID, "value": None, "attempts": 2}}, Progress("null", SOCKET, "box", 2)),
        ({"result": {"id": ID, "value": [1, "é"]}}, Result('[1,"é"]', None)),
        ({"result": {"id": ID, "value": {}, "attempts": 0}}, Result("{}", 0)),
        ({"fail": {"id": ID, "error": {"message": "no"}}}, Fail('{"message":"no"}', True, None, 0.25)),
        (
            {"fail": {"id": ID, "error": {"x": 1, "message": "no", "detail": [1], "code": "c"}, "attempts": 1}},
            Fail('{"message":"no","code":"c","detail":[1]}', True, 1, 0.25),
        ),
        (
            {"fail": {"id": ID, "error": {"message": ""}, "retryable": False, "retryInMs": 0}},
            Fail('{"message":""}', False, None, 0.25, 0),
        ),
        ({"release": {"id": ID}}, Release(SOCKET, "box", None)),
        ({"release": {"id": ID, "attempts": 1, "delayMs": 5}}, Release(SOCKET, "box", 1, 5)),
        ({"renew": {"id": ID, "attempts": 1}}, Renew(SOCKET, "box", 1)),
    ],
)
def test_a_report(message: Any, event: Event) -> None:
    assert talk_on().commands(message) == [Change(ID, event)]


@pytest.mark.parametrize("verb", ["progress", "result", "fail", "release", "renew"])
@pytest.mark.parametrize(
    ("report", "path", "named"),
    [
        (1, "", None),
        ([], "", None),
        ("text", "", None),
        (None, "", None),
        ({}, "/id", None),
        ({"id": 1}, "/id", None),
        ({"id": None}, "/id", None),
        ({"id": ID, "attempts": -1}, "/attempts", ID),
        ({"id": ID, "attempts": 1.0}, "/attempts", ID),
        ({"id": ID, "attempts": None}, "/attempts", ID),
        ({"id": ID, "attempts": False}, "/attempts", ID),
    ],
)
def test_a_report_that_is_wrong(verb: str, report: Json, path: str, named: str | None) -> None:
    assert talk_on().refused({verb: report}) == ("bad-message", path, named)


@pytest.mark.parametrize(
    ("message", "code", "path"),
    [
        ({"progress": {"id": ID}}, "bad-message", "/value"),
        ({"result": {"id": ID}}, "bad-message", "/value"),
        ({"result": {"id": ID, "value": nested(65)}}, "bad-json", ""),
        ({"result": {"id": ID, "value": "x" * 999}}, "too-large", ""),
        ({"result": {"id": ID, "value": "é" * 500}}, "too-large", ""),
        ({"progress": {"id": ID, "value": "x" * RECORD_LIMIT}}, "too-large", ""),
        ({"progress": {"id": ID, "value": nested(65)}}, "bad-json", ""),
        ({"fail": {"id": ID}}, "bad-message", "/error"),
        ({"fail": {"id": ID, "error": "no"}}, "bad-message", "/error"),
        ({"fail": {"id": ID, "error": {}}}, "bad-message", "/error/message"),
        ({"fail": {"id": ID, "error": {"message": 1}}}, "bad-message", "/error/message"),
        ({"fail": {"id": ID, "error": {"message": "m", "code": 1}}}, "bad-message", "/error/code"),
        ({"fail": {"id": ID, "error": {"message": "x" * RECORD_LIMIT}}}, "too-large", "/error"),
        ({"fail": {"id": ID, "error": {"message": "m", "detail": nested(64)}}}, "bad-json", "/error"),
        ({"fail": {"id": ID, "error": {"message": "m"}, "retryable": 1}}, "bad-message", "/retryable"),
        ({"fail": {"id": ID, "error": {"message": "m"}, "retryInMs": -1}}, "bad-message", "/retryInMs"),
        ({"release": {"id": ID, "delayMs": -1}}, "bad-message", "/delayMs"),
        ({"release": {"id": ID, "delayMs": 2**53}}, "bad-message", "/delayMs"),
    ],
)
def test_a_report_with_a_wrong_member(message: Json, code: str, path: str) -> None:
    assert talk_on().refused(message) == (code, path, ID)


def test_the_largest_values_are_taken() -> None:
    talk = talk_on()
    for message in (
        {"result": {"id": ID, "value": "x" * 998}},
        {"result": {"id": ID, "value": nested(64)}},
        {"progress": {"id": ID, "value": "x" * (RECORD_LIMIT - 2)}},
    ):
        talk.asks(message)


@pytest.mark.protocol("4.15")
@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"progress": {"id": ID, "value": {"percent": 101}}}, "/percent"),
        ({"progress": {"id": ID, "value": 7}}, ""),
        ({"result": {"id": ID, "value": {"width": "wide"}}}, "/width"),
    ],
)
def test_the_queues_schemas_are_asked_and_paths_lead_into_the_value(message: Json, path: str) -> None:
    talk = talk_on(RESIZE)
    assert talk.says(message) == []
    (error,) = talk.hears()
    assert (error["code"], error["id"]) == ("schema", ID)
    assert path in [each["path"] for each in error["errors"]]


def refusal(reason: str, item: Item | None, *, duplicate: bool = False) -> Changed:
    return Changed(accepted=False, item=item, reason=reason, duplicate=duplicate)


@pytest.mark.parametrize(
    ("verb", "outcome", "ack"),
    [
        ("progress", Changed(accepted=True, item=held()), {"accepted": True, "status": "processing"}),
        ("result", Changed(accepted=True, item=ended("finished")), {"accepted": True, "status": "finished"}),
        ("result", refusal("unknown", None), {"accepted": False, "status": None, "reason": "unknown"}),
        (
            "result",
            refusal("terminal", ended("finished"), duplicate=True),
            {"accepted": False, "status": "finished", "reason": "terminal", "duplicate": True},
        ),
        ("result", refusal("fence", held()), {"accepted": False, "status": "processing", "reason": "fence"}),
        (
            "fail",
            Changed(accepted=True, item=waiting_again("failed", due_at=NOW + 5)),
            {"accepted": True, "status": "pending", "dueAt": NOW + 5},
        ),
        ("fail", Changed(accepted=True, item=ended("failed")), {"accepted": True, "status": "failed", "dueAt": None}),
        (
            "fail",
            refusal("settled", waiting_again("released")),
            {"accepted": False, "status": "pending", "dueAt": NOW, "reason": "settled"},
        ),
        ("fail", refusal("unknown", None), {"accepted": False, "status": None, "dueAt": None, "reason": "unknown"}),
        (
            "release",
            Changed(accepted=True, item=waiting_again("released")),
            {"accepted": True, "status": "pending", "dueAt": NOW},
        ),
        (
            "renew",
            Changed(accepted=True, item=held()),
            {"accepted": True, "status": "processing", "leaseUntil": NOW + LEASE, "leaseMs": LEASE},
        ),
        (
            "renew",
            refusal("not-holder", pending()),
            {"accepted": False, "status": "pending", "leaseUntil": None, "leaseMs": LEASE, "reason": "not-holder"},
        ),
        (
            "renew",
            refusal("unknown", None),
            {"accepted": False, "status": None, "leaseUntil": None, "leaseMs": LEASE, "reason": "unknown"},
        ),
    ],
)
def test_an_ack(verb: str, outcome: Outcome, ack: dict[str, object]) -> None:
    talk = talk_on()
    report: dict[str, Json] = {"id": ID, "value": 1, "error": {"message": "m"}}
    talk.settle(talk.asks({verb: report, "ref": "r"}), outcome)
    assert talk.hears() == [{"type": f"{verb}-ack", "id": ID, **ack, "ref": "r"}]


# ── The number that a socket remembers ──


def fence_of(talk: Talk, item_id: str = ID) -> int | None:
    """Under which number a report without one is made."""
    (command,) = talk.commands({"result": {"id": item_id, "value": 1}})
    assert isinstance(command, Change)
    assert isinstance(command.event, Result)
    return command.event.fence


@pytest.mark.protocol("4.32")
def test_a_report_without_a_number_has_that_of_the_sockets_claim() -> None:
    talk = talk_on()
    assert fence_of(talk) is None
    talk.settle(talk.asks({"claim": {}}), Handed(held(attempts=3)))
    assert fence_of(talk) == 3
    assert fence_of(talk, OTHER_ID) is None
    talk.settle(talk.asks({"claim": {}}), Handed(held(attempts=4)))
    assert fence_of(talk) == 4
    (command,) = talk.commands({"result": {"id": ID, "value": 1, "attempts": 3}})
    assert command == Change(ID, Result("1", 3)), "what it says counts"


def test_a_resume_is_remembered_where_it_was_accepted() -> None:
    talk = talk_on()
    exchange = talk.asks(
        {"resume": {"worker": "box-1", "leases": [{"id": ID, "attempts": 2}, {"id": OTHER_ID, "attempts": 5}]}}
    )
    talk.settle(exchange, Resumed((Changed(accepted=True, item=held(attempts=2)), refusal("fence", held()))))
    assert (fence_of(talk), fence_of(talk, OTHER_ID)) == (2, None)


def test_the_latest_claims_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "REMEMBERED", 2)
    talk = talk_on()
    ids = [f"{number:016x}" for number in range(6)]
    for item_id in ids:
        talk.settle(talk.asks({"claim": {}}), Handed(held(id=item_id)))
    assert [fence_of(talk, item_id) for item_id in ids] == [None, None, 1, 1, 1, 1]


def test_of_two_claims_of_an_item_the_later_number_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "REMEMBERED", 2)
    talk = talk_on()
    for item_id, attempts in ((ID, 1), (OTHER_ID, 1), (ID, 2)):
        talk.settle(talk.asks({"claim": {}}), Handed(held(id=item_id, attempts=attempts)))
    assert fence_of(talk) == 2


# ── Resume ──


@pytest.mark.protocol("4.60")
def test_a_resume() -> None:
    talk = talk_on()
    leases = [{"id": ID, "attempts": 1}, {"id": OTHER_ID, "attempts": 2}]
    exchange = talk.asks({"resume": {"worker": "box-1", "leases": leases}, "ref": 9})
    assert exchange.command == ResumeLeases(SOCKET, "box", "box-1", ((ID, 1), (OTHER_ID, 2)))
    talk.settle(exchange, Resumed((Changed(accepted=True, item=held()), refusal("unknown", None))))
    assert talk.hears() == [
        {
            "type": "resume-ack",
            "leases": [
                {"id": ID, "accepted": True, "status": "processing", "leaseUntil": NOW + LEASE},
                {"id": OTHER_ID, "accepted": False, "status": None, "leaseUntil": None, "reason": "unknown"},
            ],
            "ref": 9,
        }
    ]


@pytest.mark.protocol("4.62")
def test_a_resume_without_a_name_has_that_of_the_hello() -> None:
    talk = talk_on()
    talk.says({"hello": {"worker": "box-1"}})
    (exchange,) = talk.says_anything({"resume": {"leases": []}})
    assert exchange.command == ResumeLeases(SOCKET, "box", "box-1", ())


@pytest.mark.parametrize(
    ("resume", "code", "path"),
    [
        ([], "bad-message", ""),
        ({"worker": "w"}, "bad-message", "/leases"),
        ({"worker": "w", "leases": {}}, "bad-message", "/leases"),
        ({"leases": []}, "bad-message", "/worker"),
        ({"worker": 1, "leases": []}, "bad-message", "/worker"),
        ({"worker": "w", "leases": [{}] * 4}, "limit", "/leases"),
        ({"worker": "w", "leases": [1]}, "bad-message", "/leases/0"),
        ({"worker": "w", "leases": [{"id": ID, "attempts": 1}, {"id": ID}]}, "bad-message", "/leases/1"),
        ({"worker": "w", "leases": [{"id": ID, "attempts": "1"}]}, "bad-message", "/leases/0/attempts"),
        ({"worker": "w", "leases": [{"attempts": 1}]}, "bad-message", "/leases/0/id"),
    ],
)
def test_a_resume_that_is_wrong(resume: Json, code: str, path: str) -> None:
    assert talk_on().refused({"resume": resume}) == (code, path, None)


# ── Cancel ──


@pytest.mark.protocol("0.5")
def test_a_loss_is_told_to_those_who_asked() -> None:
    talk = talk_on()
    session = talk.session
    assert isinstance(session, WorkSession)
    session.lost(ID, "cancelled")
    assert talk.hears() == []
    talk.says({"hello": {"cancel": True}})
    talk.hears()
    session.lost(ID, "lapsed")
    assert session.has_outgoing
    assert talk.hears() == [{"type": "cancel", "id": ID, "reason": "lapsed"}]
    assert talk.refused({"hello": {"cancel": "yes"}}) == ("bad-message", "/cancel", None)
