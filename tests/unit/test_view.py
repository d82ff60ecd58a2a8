"""How items look on the wire."""

from dataclasses import replace

import orjson
import pytest

from leaseway_server.core.model import Item
from leaseway_server.core.view import encode_item, encode_view, label
from support.model import LEASE, NOW, ended, held, pending, waiting_again
from support.wire import check_server

LATER = NOW + 5_000


@pytest.mark.protocol("1.8")
@pytest.mark.parametrize(
    ("item", "now", "expected"),
    [
        (pending(), NOW, "pending"),
        (pending(due_at=LATER), NOW, "scheduled"),
        (pending(due_at=LATER), LATER, "pending"),
        (waiting_again("failed", due_at=LATER), NOW, "retrying"),
        (waiting_again("failed", due_at=LATER), LATER, "pending"),
        (waiting_again("lost"), NOW, "pending"),
        (held(due_at=LATER), NOW, "processing"),
        *((ended(status), NOW, status) for status in ("finished", "failed", "dead", "cancelled", "expired")),
    ],
)
def test_label(item: Item, now: int, expected: str) -> None:
    assert label(item, now) == expected


@pytest.mark.protocol("3.7", "3.8")
def test_the_view_of_a_new_item() -> None:
    assert orjson.loads(encode_view(pending(), NOW)) == {
        "type": "status",
        "id": "00000000000000a1",
        "status": "pending",
        "postedBy": "ann",
        "postedAt": NOW,
        "updatedAt": NOW,
        "finishedAt": None,
        "attempts": 0,
        "progress": None,
        "result": None,
        "error": None,
        "rev": 1,
        "label": "pending",
        "dueAt": NOW,
        "startedAt": None,
        "worker": None,
        "priority": 0,
        "key": None,
        "failures": 0,
        "losses": 0,
        "maxAttempts": 3,
        "expiresAt": None,
        "meta": None,
    }


@pytest.mark.protocol("3.8")
def test_the_view_of_an_item_with_a_past() -> None:
    item = ended(
        "finished",
        posted_by="",
        rank=-7,
        expires_at=LATER,
        attempts=3,
        failures=1,
        losses=1,
        progress='{"percent":100}',
        meta='{"trace":"t"}',
        error='{"message":"once"}',
        rev=9,
    )
    view = orjson.loads(encode_view(item, NOW))
    expected = {
        "postedBy": None,
        "priority": 7,
        "expiresAt": LATER,
        "startedAt": NOW,
        "finishedAt": NOW,
        "worker": "box-1",
        "attempts": 3,
        "failures": 1,
        "losses": 1,
        "progress": {"percent": 100},
        "result": {"width": 1},
        "meta": {"trace": "t"},
        "error": {"message": "once"},
        "rev": 9,
    }
    assert {name: view[name] for name in expected} == expected


@pytest.mark.parametrize("item", [pending(), held(), waiting_again("failed"), ended("finished"), ended("dead")])
def test_views_are_as_the_schema_says(item: Item) -> None:
    check_server("monitor", orjson.loads(encode_view(item, NOW)))


@pytest.mark.protocol("4.7", "4.8")
def test_the_item_message_carries_the_item_its_lease_and_the_checkpoint() -> None:
    item = replace(held(attempts=2), progress='{"percent":40}', meta='{"trace":"t"}')
    message = orjson.loads(encode_item(item, LEASE))
    check_server("work", message)
    assert message == {
        "type": "item",
        "id": "00000000000000a1",
        "item": {"kind": "a"},
        "attempts": 2,
        "leaseUntil": NOW + LEASE,
        "leaseMs": LEASE,
        "progress": {"percent": 40},
        "meta": {"trace": "t"},
    }


@pytest.mark.parametrize("body", ["null", "[]", '""', "0", '{"a":1.0,"b":18446744073709551615}', '"\\u0000"'])
def test_what_was_posted_comes_out_as_it_was_stored(body: str) -> None:
    assert f'"item":{body},'.encode() in encode_item(held(body=body), LEASE)
