"""Arrays of reports (PROTOCOL.md §4, plus): each member has its own answer, and one that is bad harms no other."""

from typing import Any

import pytest

from leaseway_server.core.commands import Change, Changed, Failed, Handed
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.events import Progress, Renew, Result
from leaseway_server.core.jsontext import Json
from leaseway_server.core.limits import Allowance, Allowances
from leaseway_server.core.queue import Limits, Queue, Schemas
from leaseway_server.core.schema import Schema
from leaseway_server.core.session import WorkSession
from support.model import POLICY, SOCKET, ended, held
from support.talk import Talk

ID, OTHER = "00000000000000a1", "00000000000000a2"
QUEUE = Queue("demo", POLICY, Schemas(progress=Schema.compile({"type": "integer"})), Limits(batch=3))
MORE: dict[str, dict[str, Any]] = {"progress": {"value": 1}, "result": {"value": 1}, "fail": {"error": {"message": ""}}}
verbs = pytest.mark.parametrize("verb", ["progress", "result", "fail", "release", "renew"])


def talk_on() -> Talk:
    return Talk(WorkSession(QUEUE, SOCKET, "box", lambda: 0.25, Allowance(Allowances(9), "box")), "work")


@pytest.mark.protocol("4.76")
@verbs
def test_each_member_is_answered_by_itself_in_order_and_with_its_index(verb: str) -> None:
    talk = talk_on()
    first, second = talk.says({verb: [{"id": each} | MORE.get(verb, {}) for each in (ID, OTHER)], "ref": "r"})
    talk.settle(second, Changed(accepted=False, item=None, reason="unknown"))
    assert talk.hears() == [], "answers come in the order asked"
    talk.settle(first, Changed(accepted=True, item=held()))
    heard = talk.hears()
    assert [(ack["id"], ack["accepted"], ack["index"], ack["ref"]) for ack in heard] == [
        (ID, True, 0, "r"),
        (OTHER, False, 1, "r"),
    ]
    assert {ack["type"] for ack in heard} == {f"{verb}-ack"}


@pytest.mark.protocol("4.81")
@pytest.mark.parametrize(
    ("bad", "code", "path", "named"),
    [
        (7, "bad-message", "", None),
        (None, "bad-message", "", None),
        ([], "bad-message", "", None),
        ([{"id": ID, "value": 1}], "bad-message", "", None),
        ({}, "bad-message", "/id", None),
        ({"id": None, "value": 1}, "bad-message", "/id", None),
        ({"id": OTHER}, "bad-message", "/value", OTHER),
        ({"id": OTHER, "value": "text"}, "schema", "", OTHER),
        ({"id": OTHER, "value": 1, "attempts": -1}, "bad-message", "/attempts", OTHER),
        ({"id": OTHER, "value": ["x" * 40_000]}, "too-large", "", OTHER),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_member_harms_no_other(bad: Json, code: str, path: str, named: str | None, place: int) -> None:
    talk = talk_on()
    values: list[Json] = [{"id": ID, "value": 1, "attempts": 1}, {"id": ID, "value": 2, "attempts": 1}]
    values.insert(place, bad)
    exchanges = talk.says_anything({"progress": values})
    assert [exchange.command for exchange in exchanges] == [
        Change(ID, Progress(str(value), SOCKET, "box", 1)) for value in (1, 2)
    ]
    for exchange in exchanges:
        talk.settle(exchange, Changed(accepted=True, item=held()))
    heard = talk.hears()
    assert [answer["index"] for answer in heard] == [0, 1, 2]
    assert [answer["type"] == "error" for answer in heard] == [index == place for index in range(3)]
    error = heard[place]
    assert (error["code"], error["errors"][0]["path"], error["id"]) == (code, path, named)


@pytest.mark.protocol("4.75")
@verbs
@pytest.mark.parametrize(("members", "code"), [(0, "bad-message"), (4, "limit")])
def test_an_array_has_a_member_and_not_too_many(verb: str, members: int, code: str) -> None:
    talk = talk_on()
    assert talk.refused({verb: [{"id": ID} | MORE.get(verb, {})] * members}) == (code, "", None)


def test_a_member_that_the_server_failed_at_is_told_of_by_its_index() -> None:
    talk = talk_on()
    first, second = talk.says({"renew": [{"id": ID}, {"id": OTHER}]})
    talk.settle(first, Failed(Unavailable("not now")))
    talk.settle(second, Changed(accepted=False, item=held(), reason="not-holder"))
    assert [(answer["type"], answer["id"], answer["index"]) for answer in talk.hears()] == [
        ("error", ID, 0),
        ("renew-ack", OTHER, 1),
    ]


def test_each_member_stands_under_the_number_that_the_socket_knows() -> None:
    talk = talk_on()
    talk.settle(talk.asks({"claim": {}}), Handed(held(attempts=4, body="1")))
    assert talk.commands({"renew": [{"id": ID}, {"id": OTHER}, {"id": ID, "attempts": 2}]}) == [
        Change(ID, Renew(SOCKET, "box", 4)),
        Change(OTHER, Renew(SOCKET, "box", None)),
        Change(ID, Renew(SOCKET, "box", 2)),
    ]


def test_two_results_for_one_item_are_two_commands() -> None:
    talk = talk_on()
    exchanges = talk.says({"result": [{"id": ID, "attempts": 1, "value": value} for value in (1, 2)]})
    assert [each.command for each in exchanges] == [Change(ID, Result(str(value), 1)) for value in (1, 2)]
    talk.settle(exchanges[0], Changed(accepted=True, item=ended("finished")))
    talk.settle(exchanges[1], Changed(accepted=False, item=ended("finished"), reason="terminal", duplicate=True))
    assert [ack["accepted"] for ack in talk.hears()] == [True, False]


def test_an_array_counts_as_its_members() -> None:
    talk = talk_on()
    talk.says_anything({"renew": [{"id": ID}, {}, {"id": ID}]})
    talk.says_anything({"renew": []})
    assert (talk.session.heard, talk.session.bad) == (4, 2)


def test_arrays_stand_in_batches_too() -> None:
    talk = talk_on()
    exchanges = talk.says(
        {"batch": [{"renew": [{"id": ID}, {"id": OTHER}], "ref": 1}, {"renew": {"id": ID}, "ref": 2}]}
    )
    for exchange in exchanges:
        talk.settle(exchange, Changed(accepted=False, item=None, reason="unknown"))
    assert [(ack["ref"], ack.get("index")) for ack in talk.hears()] == [(1, 0), (1, 1), (2, None)]


def test_what_is_no_report_takes_no_array() -> None:
    for verb in ("claim", "resume"):
        assert talk_on().refused({verb: [{}]})[0] == "bad-message"


# ── What else is known of a worker ──


def test_the_latest_claim_and_the_name_are_remembered() -> None:
    talk = talk_on()
    session = talk.session
    assert isinstance(session, WorkSession)
    assert (session.latest, session.name) == (None, "")
    talk.says({"claim": {"criteria": {"a": 1}, "worker": "w1"}})
    assert (session.latest, session.name) == (Criteria.parse({"a": 1}), "w1")
    talk.says_anything({"claim": {"criteria": {"a": {"$near": 1}}, "worker": "w2"}})
    assert (session.latest, session.name) == (Criteria.parse({"a": 1}), "w1"), "a refused claim changes nothing"
    talk.says({"claim": {}})
    assert (session.latest, session.name) == (Criteria.parse(None), "")
    talk.says({"hello": {"worker": "box-1"}})
    talk.says({"claim": {"worker": "w3"}})
    assert session.name == "box-1"
