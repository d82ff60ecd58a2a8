"""PROTOCOL.md §1: each row of the table does what it says, and what no row takes is refused."""

from dataclasses import asdict
from typing import Any

import pytest

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import (
    Adjust,
    Cancel,
    Claim,
    ClockSet,
    Due,
    Event,
    Expire,
    Fail,
    GraceEnd,
    LeaseEnd,
    Progress,
    Release,
    Renew,
    Result,
    Resume,
    Retry,
    SocketLost,
)
from leaseway_server.core.lifecycle import TABLE, Refusal, apply
from leaseway_server.core.model import OPEN, TERMINAL, Item
from support.lifecycle_rows import ROWS
from support.model import (
    LATER,
    NOW,
    POLICY,
    SOCKET,
    after,
    claim,
    ended,
    fail,
    held,
    pending,
    refused,
    resume,
)


def difference(before: Item, now: Item) -> dict[str, Any]:
    """The members that changed, and `rev` only where it grew by something else than one."""
    old, new = asdict(before), asdict(now)
    changed = {name: new[name] for name in new if new[name] != old[name]}
    if changed.get("rev") == before.rev + 1:
        del changed["rev"]
    return changed


@pytest.mark.protocol(
    "1.3",
    "1.4",
    "1.5",
    "1.6",
    "1.7",
    "1.15",
    "1.17",
    "1.18",
    "1.19",
    "1.20",
    "1.21",
    "1.22",
    "1.23",
    "1.24",
    "1.25",
    "1.26",
    "1.27",
    "1.28",
    "1.29",
    "1.30",
    "1.31",
    "1.32",
    "1.33",
    "1.34",
    "1.35",
    "1.36",
    "1.38",
    "1.39",
    "1.40",
    "1.41",
    "1.45",
    "3.9",
    "3.16",
    "4.4",
    "4.34",
)
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    before, event, changes = ROWS[row]
    untouched = before.copy()
    changed = difference(before, after(before, event))
    shown = {"updated_at": LATER} if "updated_at" in changes else {}
    unchanged = {name for name, value in changes.items() if getattr(before, name) == value}
    assert changed == {name: value for name, value in (changes | shown).items() if name not in unchanged}
    assert before == untouched, "an item is a value"


PROTOCOL_ROWS = [
    ({"pending"}, Claim),
    ({"processing"}, Progress),  # by the holder
    ({"processing"}, Renew),
    ({"processing"}, Progress),  # without a fence
    (OPEN, Result),  # same fence
    (OPEN, Result),  # without a fence
    (OPEN, Fail),  # permanent
    (OPEN, Fail),  # retryable, within the budget
    (OPEN, Fail),  # retryable, else
    ({"processing"}, Release),
    ({"processing"}, SocketLost),  # within the budget
    ({"processing"}, SocketLost),  # else: stays, without a holder
    ({"processing"}, LeaseEnd),  # sweep, within the budget
    ({"processing"}, LeaseEnd),  # sweep, the last loss
    ({"processing"}, ClockSet),
    ({"processing"}, GraceEnd),
    (OPEN, Resume),  # processing, or pending with ending lost or parted
    (OPEN, Cancel),
    (OPEN, Expire),
    (TERMINAL - {"finished"}, Retry),
    ({"pending"}, Adjust),  # PATCH (§5)
]
OUR_OWN = [({"pending"}, Due)]
"""What no view shows: it is no row of the protocol."""


@pytest.mark.protocol("1.44")
def test_the_table_has_the_protocols_rows_and_no_others() -> None:
    def names(rows: list[tuple[Any, Any]]) -> list[tuple[list[str], str]]:
        return sorted((sorted(sources), event.__name__) for sources, event in rows)

    assert names([(row.sources, row.event) for row in TABLE]) == names(PROTOCOL_ROWS + OUR_OWN)


def test_each_row_of_the_table_is_tried_above() -> None:
    tried = {
        row.says
        for before, event, _ in ROWS.values()
        for row in TABLE
        if row.event is type(event) and before.status in row.sources and row.when(before, event, LATER, POLICY)
    }
    assert tried == {row.says for row in TABLE}


@pytest.mark.protocol("1.3", "1.4", "1.5", "1.6", "1.7", "1.44")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_what_has_ended_takes_nothing_but_mostly_a_retry(status: str) -> None:
    item = ended(status)
    reports: list[Event] = [Progress("1", SOCKET, "box", 1), Renew(SOCKET, "box", 1), Result("1", 1), Result("1", None)]
    others: list[Event] = [claim(), fail(), Release(SOCKET, "box", 1), resume(), SocketLost(SOCKET), LeaseEnd()]
    for event in [*reports, *others, GraceEnd(SOCKET), Cancel(), Expire(), Due(), Adjust(priority=1)]:
        assert refused(item, event).reason in ("terminal", "not-due")
    assert isinstance(apply(item, Retry(), LATER, POLICY), Refusal) == (status == "finished")


@pytest.mark.protocol("1.44")
@pytest.mark.parametrize("item", [pending(), held()])
def test_what_is_open_takes_no_retry(item: Item) -> None:
    assert refused(item, Retry()).reason == "state"


@pytest.mark.protocol("5.30")
def test_what_a_worker_holds_is_not_adjusted() -> None:
    assert refused(held(), Adjust(priority=1)).reason == "state"


@pytest.mark.protocol("1.67")
@pytest.mark.parametrize("adjust", [Adjust(priority=0), Adjust(due_at=NOW), Adjust(0, NOW - 1), Adjust(due_at=LATER)])
def test_an_adjustment_to_what_is_so_already_changes_nothing(adjust: Adjust) -> None:
    """What is due keeps its place, whatever time that has passed is asked for."""
    item = pending()
    assert after(item, adjust) is item


@pytest.mark.protocol("5.59")
@pytest.mark.parametrize("due_at", [LATER + 5, LATER + 6])
def test_nobody_adjusts_a_due_time_to_the_end_of_life_or_past_it(due_at: int) -> None:
    with pytest.raises(BadMessage) as refusal:
        apply(pending(expires_at=LATER + 5), Adjust(priority=1, due_at=due_at), LATER, POLICY)
    assert refusal.value.problems[0].path == "/dueAt"


def test_what_was_seen_to_be_due_stays_so_where_the_clock_goes_back() -> None:
    changed = after(pending(), Adjust(priority=1), NOW - 5)
    assert (changed.rank, changed.ready, changed.due_at) == (-1, 1, NOW)


@pytest.mark.protocol("1.1")
@pytest.mark.parametrize(
    ("item", "now", "claimable"),
    [
        (pending(), NOW, True),
        (pending(due_at=NOW + 1, ready=0), NOW, False),
        (pending(due_at=NOW + 1, ready=0), NOW + 1, True),
        (pending(expires_at=NOW + 1), NOW, True),
        (pending(expires_at=NOW + 1), NOW + 1, False),
        (held(), NOW, False),
    ],
)
def test_only_what_is_due_and_alive_is_claimed(item: Item, now: int, claimable: bool) -> None:
    assert isinstance(apply(item, claim(), now, POLICY), Item) == claimable
    if not claimable:
        assert refused(item, claim(), now).reason == "not-due"


def test_due_is_seen_once_and_not_too_early() -> None:
    later = pending(ready=0, due_at=LATER)
    assert refused(later, Due(), LATER - 1).reason == "not-due"
    assert refused(after(later, Due()), Due()).reason == "not-due"
