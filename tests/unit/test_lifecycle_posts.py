"""How an item begins: due times, lives and budgets of a post (PROTOCOL.md §1 and §5)."""

from typing import Any

import pytest

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import Release
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.members import MAX_TIME
from leaseway_server.core.model import Item, NewItem
from support.model import NOW, POLICY, SOCKET, held


def post(**options: Any) -> Item:
    return create(NewItem("1", **options), "00000000000000a1", 1, NOW, POLICY)


@pytest.mark.protocol("1.16")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"due_at": NOW, "ready": 1, "expires_at": 0, "max_attempts": 3, "rank": 0, "rev": 1, "ending": ""}),
        ({"delay_ms": 500}, {"due_at": NOW + 500, "ready": 0}),
        ({"due_at": NOW + 500}, {"due_at": NOW + 500, "ready": 0}),
        ({"due_at": NOW - 500}, {"due_at": NOW, "ready": 1}),
        ({"ttl_ms": 500}, {"expires_at": NOW + 500}),
        ({"ttl_ms": 500, "delay_ms": 499}, {"expires_at": NOW + 500, "due_at": NOW + 499}),
        ({"priority": 5}, {"rank": -5}),
        ({"max_attempts": 1}, {"max_attempts": 1}),
        ({"posted_by": "ann", "meta": "{}"}, {"posted_by": "ann", "meta": "{}", "posted_at": NOW, "updated_at": NOW}),
    ],
)
def test_a_post_is_due_as_asked_or_now(options: dict[str, Any], expected: dict[str, Any]) -> None:
    item = post(**options)
    assert item.status == "pending"
    assert {name: getattr(item, name) for name in expected} == expected


@pytest.mark.protocol("5.121")
def test_no_time_is_later_than_javascript_can_count() -> None:
    assert post(delay_ms=MAX_TIME).due_at == MAX_TIME
    assert post(due_at=MAX_TIME).due_at == MAX_TIME
    assert post(ttl_ms=MAX_TIME).expires_at == MAX_TIME
    released = apply(held(), Release(SOCKET, "box", 1, MAX_TIME), NOW, POLICY)
    assert isinstance(released, Item)
    assert released.due_at == MAX_TIME


@pytest.mark.protocol("5.58")
@pytest.mark.parametrize(
    "options",
    [
        {"ttl_ms": 0},
        {"ttl_ms": 500, "delay_ms": 500},
        {"ttl_ms": 1, "due_at": NOW + 9},
        {"ttl_ms": MAX_TIME, "delay_ms": MAX_TIME - 1},
    ],
)
def test_a_post_that_is_due_at_or_after_its_end_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as refusal:
        post(**options)
    assert refusal.value.problems[0].path == "/ttlMs"
