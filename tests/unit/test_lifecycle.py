"""PROTOCOL.md §1, row by row: what an item is before an event, and after it."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core import lifecycle
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.lifecycle import (
    TABLE,
    Cancel,
    Claim,
    Due,
    Event,
    Expire,
    Fail,
    Fetch,
    GraceEnd,
    LeaseEnd,
    Policy,
    Progress,
    Refusal,
    Release,
    Renew,
    Result,
    Resume,
    Retry,
    SocketLost,
    apply,
    create,
    loss,
)
from leaseway_server.core.model import HTTP, NOBODY, OPEN, TERMINAL, Item, NewItem
from leaseway_server.core.view import encode_view
from support.model import LEASE, NOW, OTHER, POLICY, SOCKET, ended, held, pending, waiting_again

ERROR = '{"message":"no luck"}'
LATER = NOW + 5_000
DAY = 86_400_000


def claim(holder: int = SOCKET) -> Claim:
    return Claim(holder, "box", "box-1")


def fail(fence: int | None = 1, *, retryable: bool = True, retry_in: int | None = None) -> Fail:
    return Fail(ERROR, retryable, fence, retry_in=retry_in)


def resume(fence: int = 1, *, user: str = "box", worker: str = "box-1", progress_from: int = 0) -> Resume:
    return Resume(OTHER, user, worker, fence, progress_from)


def after(item: Item, event: Event, now: int = LATER, policy: Policy = POLICY) -> Item:
    """The item after an event that is taken."""
    changed = apply(item, event, now, policy)
    assert isinstance(changed, Item), changed
    return changed


def refused(item: Item, event: Event, now: int = LATER, policy: Policy = POLICY) -> Refusal:
    """Why it is not taken."""
    refusal = apply(item, event, now, policy)
    assert isinstance(refusal, Refusal), refusal
    return refusal


def difference(before: Item, now: Item) -> dict[str, Any]:
    """The members that changed, and `rev` only where it grew by something else than one."""
    old, new = asdict(before), asdict(now)
    changed = {name: new[name] for name in new if new[name] != old[name]}
    if changed.get("rev") == before.rev + 1:
        del changed["rev"]
    return changed


# ── Each row of the table ───────────────────────────────────────────────────────────────────────────────────────

GONE = {"holder": NOBODY, "lease_until": 0, "updated_at": LATER}
"""A lease is over, and it shows."""
END = {**GONE, "finished_at": LATER}

ROWS: dict[str, tuple[Item, Event, dict[str, Any]]] = {
    "pending, claimable · claim": (
        pending(),
        claim(),
        {
            "status": "processing",
            "ready": 0,
            "attempts": 1,
            "ending": "open",
            "holder": SOCKET,
            "lease_user": "box",
            "worker": "box-1",
            "started_at": LATER,
            "progress_at": LATER,
            "lease_until": LATER + LEASE,
            "updated_at": LATER,
        },
    ),
    "processing · progress by the holder": (
        held(),
        Progress('{"percent":40}', SOCKET, "box", 1),
        {"progress": '{"percent":40}', "progress_at": LATER, "lease_until": LATER + LEASE, "updated_at": LATER},
    ),
    "processing · renew by the holder": (
        held(),
        Renew(SOCKET, "box", 1),
        {"lease_until": LATER + LEASE},
    ),
    "processing · progress without a fence": (
        held(),
        Progress('{"percent":40}', OTHER, "", None),
        {"progress": '{"percent":40}', "updated_at": LATER},
    ),
    "processing, same fence · result": (
        held(error=ERROR),
        Result('{"width":1}', 1),
        {"status": "finished", "ending": "finished", "result": '{"width":1}', "error": "", **END},
    ),
    "pending, lost, same fence · result": (
        waiting_again("lost"),
        Result("1", 1),
        {"status": "finished", "ready": 0, "losses": 0, "ending": "finished", "result": "1", **END},
    ),
    "pending in backoff, same fence · result": (
        waiting_again("failed", due_at=NOW + DAY, ready=0),
        Result("1", 1),
        {"status": "finished", "ending": "finished", "result": "1", **END},
    ),
    "processing · result without a fence": (
        held(),
        Result("1", None),
        {"status": "finished", "result": "1", **END},
    ),
    "pending, never claimed · result without a fence": (
        pending(),
        Result("1", None),
        {"status": "finished", "ready": 0, "result": "1", "updated_at": LATER, "finished_at": LATER},
    ),
    "processing · fail, permanent": (
        held(),
        fail(retryable=False),
        {"status": "failed", "ending": "failed", "error": ERROR, **END},
    ),
    "pending, lost · fail, permanent": (
        waiting_again("lost"),
        fail(retryable=False),
        {"status": "failed", "ready": 0, "losses": 0, "ending": "failed", "error": ERROR, **END},
    ),
    "pending, parted · fail, permanent": (
        waiting_again("parted"),
        fail(retryable=False),
        {"status": "failed", "ready": 0, "ending": "failed", "error": ERROR, **END},
    ),
    "processing · fail, retryable": (
        held(),
        fail(),
        {"status": "pending", "failures": 1, "ending": "failed", "error": ERROR, "due_at": LATER + 1_000, **GONE},
    ),
    "processing, second time · fail, retryable": (
        held(failures=1),
        fail(),
        {"status": "pending", "failures": 2, "ending": "failed", "error": ERROR, "due_at": LATER + 4_000, **GONE},
    ),
    "processing · fail, retryable, with a delay of its own": (
        held(),
        fail(retry_in=0),
        {
            "status": "pending",
            "ready": 1,
            "failures": 1,
            "ending": "failed",
            "error": ERROR,
            "due_at": LATER,
            **GONE,
        },
    ),
    "pending, lost · fail, retryable": (
        waiting_again("lost"),
        fail(),
        {
            "ready": 0,
            "failures": 1,
            "losses": 0,
            "ending": "failed",
            "error": ERROR,
            "due_at": LATER + 1_000,
            "updated_at": LATER,
        },
    ),
    "processing · fail, retryable, the last one": (
        held(failures=2),
        fail(),
        {"status": "dead", "failures": 3, "ending": "failed", "error": ERROR, **END},
    ),
    "pending, lost · fail, retryable, the last one": (
        waiting_again("lost", failures=2),
        fail(),
        {"status": "dead", "ready": 0, "failures": 3, "losses": 0, "ending": "failed", "error": ERROR, **END},
    ),
    "processing · release by the holder": (
        held(),
        Release(SOCKET, "box", 1),
        {"status": "pending", "ready": 1, "ending": "released", **GONE},
    ),
    "processing · release by the holder, with a delay": (
        held(),
        Release(SOCKET, "box", 1, 700),
        {"status": "pending", "ending": "released", "due_at": LATER + 700, **GONE},
    ),
    "processing · the holder's socket drops": (
        held(),
        SocketLost(SOCKET),
        {"status": "pending", "ready": 1, "losses": 1, "ending": "lost", **GONE},
    ),
    "processing · the holder's socket drops, for the last time": (
        held(losses=2),
        SocketLost(SOCKET),
        {"holder": NOBODY},
    ),
    "processing, nobody's · the lease is over, for the last time": (
        held(losses=2, holder=NOBODY, lease_until=LATER),
        LeaseEnd(),
        {
            "status": "dead",
            "losses": 3,
            "ending": "lost",
            "error": '{"code":"poison","message":"it was lost with its worker 3 times, which is all that the queue allows"}',
            **END,
        },
    ),
    "processing · the lease is over": (
        held(lease_until=LATER),
        LeaseEnd(),
        {"status": "pending", "ready": 1, "losses": 1, "ending": "lost", **GONE},
    ),
    "processing, from before the start · the grace is over": (
        held(losses=2),
        GraceEnd(SOCKET),
        {"status": "pending", "ready": 1, "ending": "parted", **GONE},
    ),
    "processing · resume": (
        held(),
        resume(),
        {"holder": OTHER, "lease_until": LATER + LEASE, "rev": 2},
    ),
    "processing, nobody's after the last loss · resume": (
        held(losses=2, holder=NOBODY),
        resume(),
        {"holder": OTHER, "lease_until": LATER + LEASE},
    ),
    "pending, lost · resume": (
        waiting_again("lost"),
        resume(),
        {
            "status": "processing",
            "ready": 0,
            "losses": 0,
            "ending": "open",
            "holder": OTHER,
            "lease_until": LATER + LEASE,
            "updated_at": LATER,
        },
    ),
    "pending, parted · resume": (
        waiting_again("parted"),
        resume(),
        {
            "status": "processing",
            "ready": 0,
            "ending": "open",
            "holder": OTHER,
            "lease_until": LATER + LEASE,
            "updated_at": LATER,
        },
    ),
    "pending · cancel": (
        pending(),
        Cancel(),
        {"status": "cancelled", "ready": 0, "updated_at": LATER, "finished_at": LATER},
    ),
    "processing · cancel": (held(), Cancel(), {"status": "cancelled", **END}),
    "pending · its time to live is over": (
        pending(expires_at=LATER),
        Expire(),
        {"status": "expired", "ready": 0, "updated_at": LATER, "finished_at": LATER},
    ),
    "processing · its time to live is over": (held(expires_at=LATER), Expire(), {"status": "expired", **END}),
    "dead · retry": (
        ended("dead", failures=1, losses=3, error=ERROR, fetched_at=NOW, expires_at=NOW, progress="1", attempts=4),
        Retry(),
        {
            "status": "pending",
            "ready": 1,
            "ending": "closed",
            "failures": 0,
            "losses": 0,
            "error": "",
            "finished_at": 0,
            "fetched_at": 0,
            "expires_at": 0,
            "due_at": LATER,
            "attempts_base": 4,
            "updated_at": LATER,
        },
    ),
    "finished · fetch": (ended("finished"), Fetch(), {"fetched_at": LATER}),
    "pending, not ready · due": (pending(ready=0, due_at=LATER), Due(), {"ready": 1}),
}


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
    ({"processing"}, GraceEnd),
    (OPEN, Resume),  # processing, or pending with ending lost or parted
    (OPEN, Cancel),
    (OPEN, Expire),
    (TERMINAL - {"finished"}, Retry),
]
OUR_OWN = [(TERMINAL, Fetch), ({"pending"}, Due)]
"""Stamps that no view shows: they are no rows of the protocol."""


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


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_what_has_ended_takes_nothing_but_a_fetch_and_mostly_a_retry(status: str) -> None:
    item = ended(status)
    for event in (claim(), Progress("1", SOCKET, "box", 1), Renew(SOCKET, "box", 1), Result("1", 1), Result("1", None)):
        assert refused(item, event).reason == "terminal"
    for event in (fail(), Release(SOCKET, "box", 1), resume(), SocketLost(SOCKET), LeaseEnd(), Cancel(), Expire()):
        assert refused(item, event).reason == "terminal"
    assert after(item, Fetch()).fetched_at == LATER
    assert refused(after(item, Fetch()), Fetch()).reason == "terminal"
    assert isinstance(apply(item, Retry(), LATER, POLICY), Refusal) == (status == "finished")


@pytest.mark.parametrize("item", [pending(), held()])
def test_what_is_open_takes_no_retry_and_no_fetch(item: Item) -> None:
    assert refused(item, Retry()).reason == "state"
    assert refused(item, Fetch()).reason == "state"


# ── A post ──────────────────────────────────────────────────────────────────────────────────────────────────────


def post(**options: Any) -> Item:
    return create(NewItem("1", **options), "00000000000000a1", 1, NOW, POLICY)


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


@pytest.mark.parametrize("options", [{"ttl_ms": 0}, {"ttl_ms": 500, "delay_ms": 500}, {"ttl_ms": 1, "due_at": NOW + 9}])
def test_a_post_that_is_due_at_or_after_its_end_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as refusal:
        post(**options)
    assert refusal.value.problems[0].path == "/ttlMs"


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


# ── Charged once ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("story", "failures", "losses"),
    [
        ([SocketLost(SOCKET)], 0, 1),
        ([SocketLost(SOCKET), resume()], 0, 0),
        ([SocketLost(SOCKET), resume(), SocketLost(OTHER)], 0, 1),
        ([SocketLost(SOCKET), resume(), fail()], 1, 0),
        ([SocketLost(SOCKET), fail()], 1, 0),
        ([SocketLost(SOCKET), fail(retryable=False)], 0, 0),
        ([SocketLost(SOCKET), Result("1", 1)], 0, 0),
        ([SocketLost(SOCKET), Result("1", None)], 0, 1),
        ([fail(), Result("1", 1)], 1, 0),
        ([GraceEnd(SOCKET)], 0, 0),
        ([GraceEnd(SOCKET), resume()], 0, 0),
        ([GraceEnd(SOCKET), fail()], 1, 0),
        ([Release(SOCKET, "box", 1)], 0, 0),
        ([Release(SOCKET, "box", 1), Result("1", 1)], 0, 0),
    ],
    ids=lambda story: " · ".join(type(event).__name__ for event in story) if isinstance(story, list) else str(story),
)
def test_an_attempt_is_charged_once(story: list[Event], failures: int, losses: int) -> None:
    item = held()
    for event in story:
        item = after(item, event)
    assert (item.failures, item.losses) == (failures, losses)


@pytest.mark.parametrize("ending", ["failed", "released", "closed"])
def test_an_attempt_that_was_settled_takes_no_second_fail_and_no_resume(ending: str) -> None:
    item = waiting_again(ending)
    assert refused(item, fail()).reason == "settled"
    assert refused(item, fail(retryable=False)).reason == "settled"
    assert refused(item, resume()).reason == "not-holder"


# ── Budgets ─────────────────────────────────────────────────────────────────────────────────────────────────────


def rounds(item: Item, *events: Callable[[Item], Event]) -> list[str]:
    """Claims the item as often as there are events, and gives its status after each of them."""
    statuses = []
    for event in events:
        if item.status == "pending":
            item = after(item, claim(), now=item.due_at)
        item = after(item, event(item), now=item.lease_until)
        statuses.append(item.status)
    return statuses


def fails(item: Item) -> Event:
    return fail(item.attempts)


def drops(_item: Item) -> Event:
    return SocketLost(SOCKET)


def lapses(_item: Item) -> Event:
    return LeaseEnd()


def parts(_item: Item) -> Event:
    return GraceEnd(SOCKET)


def releases(item: Item) -> Event:
    return Release(SOCKET, "box", item.attempts)


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([fails, fails, fails], "dead"),
        ([fails, fails, drops, drops], "pending"),
        ([drops, drops, fails, fails], "pending"),
        ([drops, fails, drops, fails, fails], "dead"),
        ([lapses, lapses, lapses], "dead"),
        ([drops, lapses, drops], "processing"),
        ([drops, lapses, drops, lapses], "dead"),
        ([parts] * 9, "pending"),
        ([releases] * 9, "pending"),
        ([parts, releases, drops, parts, drops, fails, releases, fails], "pending"),
    ],
    ids=lambda events: " · ".join(event.__name__ for event in events) if isinstance(events, list) else events,
)
def test_budgets_are_counted_by_cause(events: list[Callable[[Item], Event]], last: str) -> None:
    statuses = rounds(pending(), *events)
    assert statuses[-1] == last
    assert "dead" not in statuses[:-1]


def test_a_single_loss_may_be_the_last_one() -> None:
    policy = Policy(LEASE, max_losses=1)
    item = after(held(), SocketLost(SOCKET), policy=policy)
    assert (item.status, item.holder) == ("processing", NOBODY)
    assert after(item, resume(), policy=policy).holder == OTHER
    assert refused(item, LeaseEnd(), item.lease_until - 1, policy).reason == "state"
    dead = after(item, LeaseEnd(), item.lease_until, policy)
    assert (dead.status, orjson.loads(dead.error)["code"]) == ("dead", "poison")


def test_churn_ends_what_only_goes_round() -> None:
    item = held(attempts=999, attempts_base=0)
    assert after(item, Release(SOCKET, "box", 999)).status == "pending"
    item = held(attempts=1_000)
    for event in (Release(SOCKET, "box", 1_000), GraceEnd(SOCKET), SocketLost(SOCKET), fail(1_000)):
        dead = after(item, event)
        assert (dead.status, dead.ready, dead.finished_at, dead.holder) == ("dead", 0, LATER, NOBODY)
        assert orjson.loads(dead.error)["code"] == "churn"
    assert after(held(attempts=1_000, attempts_base=1), Release(SOCKET, "box", 1_000)).status == "pending"


def test_a_retry_gives_all_budgets_anew() -> None:
    dead = after(held(attempts=1_000, failures=1), Release(SOCKET, "box", 1_000))
    again = after(dead, Retry())
    assert (again.failures, again.losses, again.attempts, again.attempts_base) == (0, 0, 1_000, 1_000)
    claimed = after(again, claim())
    assert claimed.attempts == 1_001
    assert after(claimed, Release(SOCKET, "box", 1_001)).status == "pending"


# ── Two clocks ──────────────────────────────────────────────────────────────────────────────────────────────────

SILENCE = Policy(LEASE, progress_by=15_000, max_losses=3)


def test_a_lease_ends_at_its_time_and_not_before() -> None:
    assert refused(held(), LeaseEnd(), NOW + LEASE - 1).reason == "state"
    assert after(held(), LeaseEnd(), NOW + LEASE).ending == "lost"


def test_a_renewal_keeps_the_lease_but_not_the_clock_of_progress() -> None:
    item = after(held(), Renew(SOCKET, "box", 1), NOW + 9_000, SILENCE)
    assert refused(item, LeaseEnd(), NOW + 14_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


def test_progress_of_the_holder_starts_the_clock_of_progress_again() -> None:
    item = after(held(), Progress("1", SOCKET, "box", 1), NOW + 9_000, SILENCE)
    item = after(item, Renew(SOCKET, "box", 1), NOW + 18_000, SILENCE)
    assert refused(item, LeaseEnd(), NOW + 23_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(), NOW + 24_000, SILENCE).ending == "lost"


def test_progress_without_a_fence_starts_no_clock() -> None:
    item = after(held(lease_until=NOW + DAY), Progress("1", OTHER, "", None), NOW + 9_000, SILENCE)
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


def test_a_resume_does_not_start_the_clock_of_progress_again() -> None:
    item = after(held(), resume(), NOW + 9_000, SILENCE)
    assert item.progress_at == NOW
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


@pytest.mark.parametrize("item", [held(lease_until=NOW + DAY), waiting_again("lost"), waiting_again("parted")])
def test_what_was_silent_for_too_long_cannot_be_resumed(item: Item) -> None:
    assert after(item, resume(), NOW + 14_999, SILENCE).status == "processing"
    assert refused(item, resume(), NOW + 15_000, SILENCE).reason == "not-holder"


def test_after_a_start_the_clock_of_progress_begins_at_the_end_of_the_grace() -> None:
    grace = NOW + DAY
    item = held(lease_until=grace + DAY)
    assert refused(item, LeaseEnd(grace), grace + 14_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(grace), grace + 15_000, SILENCE).ending == "lost"
    resumed = after(item, resume(progress_from=grace), grace - 1, SILENCE)
    assert resumed.progress_at == grace
    assert refused(item, resume(progress_from=grace), grace + 15_000, SILENCE).reason == "not-holder"


# ── Who may say what ────────────────────────────────────────────────────────────────────────────────────────────

LATE: list[tuple[str, Item, Event, str]] = [
    ("result of an earlier attempt", held(attempts=2), Result("1", 1), "fence"),
    ("result of an earlier attempt, terminal", ended("cancelled", attempts=2), Result("1", 1), "terminal"),
    ("result with number 0, never claimed", pending(), Result("1", 0), "fence"),
    ("fail with number 0, never claimed", pending(), fail(0), "fence"),
    ("fail without a number, never claimed", pending(), fail(None), "not-holder"),
    ("fail without a number", held(), fail(None), "not-holder"),
    ("fail of an earlier attempt", held(attempts=2), fail(1), "fence"),
    ("fail with a number to come", held(), fail(2), "fence"),
    ("fail after a release", waiting_again("released"), fail(), "settled"),
    ("progress by another", held(), Progress("1", OTHER, "box", 1), "not-holder"),
    ("progress of an earlier attempt", held(attempts=2), Progress("1", SOCKET, "box", 1), "fence"),
    ("progress after a loss", waiting_again("lost"), Progress("1", SOCKET, "box", 1), "not-holder"),
    ("progress without a number on what waits", pending(), Progress("1", SOCKET, "box", None), "not-holder"),
    ("progress with number 0, never claimed", pending(), Progress("1", NOBODY, "", 0), "fence"),
    ("renew by another", held(), Renew(OTHER, "box", 1), "not-holder"),
    ("renew without a number", held(), Renew(SOCKET, "box", None), "not-holder"),
    ("renew after a fail", waiting_again("failed"), Renew(SOCKET, "box", 1), "not-holder"),
    ("renew of an earlier attempt", held(attempts=2), Renew(SOCKET, "box", 1), "fence"),
    ("release by another", held(), Release(OTHER, "box", 1), "not-holder"),
    ("release without a number", held(), Release(SOCKET, "box", None), "not-holder"),
    ("release without a number, after a loss", waiting_again("lost"), Release(SOCKET, "box", None), "not-holder"),
    ("release after a loss", waiting_again("lost"), Release(SOCKET, "box", 1), "settled"),
    ("release of an earlier attempt", held(attempts=2), Release(SOCKET, "box", 1), "fence"),
    ("resume by another user", held(), resume(user="eve"), "not-holder"),
    ("resume by another worker", held(), resume(worker="box-2"), "not-holder"),
    ("resume of an earlier attempt", held(attempts=2), resume(1), "fence"),
    ("resume of what nobody claimed", pending(), resume(0, user="", worker=""), "fence"),
    ("resume of a claim without a name", held(worker=""), resume(worker=""), "not-holder"),
    ("resume after a fail", waiting_again("failed"), resume(), "not-holder"),
    ("another socket drops", held(), SocketLost(OTHER), "state"),
    ("another socket's grace", held(), GraceEnd(OTHER), "state"),
    ("claim of what is held", held(), claim(), "not-due"),
    ("end of a life that is not over", pending(expires_at=LATER + 1), Expire(), "state"),
    ("end of a life without an end", pending(), Expire(), "state"),
]


@pytest.mark.parametrize(("item", "event", "reason"), [case[1:] for case in LATE], ids=[case[0] for case in LATE])
def test_it_is_refused_and_says_why(item: Item, event: Event, reason: str) -> None:
    untouched = item.copy()
    assert refused(item, event) == Refusal(reason)  # type: ignore[arg-type]  # The table above holds reasons only.
    assert item == untouched


@pytest.mark.parametrize(
    ("item", "event", "reason"),
    [
        (ended("finished"), Result("1", 1), "terminal"),
        (waiting_again("failed"), fail(), "settled"),
        (ended("failed"), fail(retryable=False), "terminal"),
        (ended("dead", ending="failed"), fail(), "terminal"),
        (ended("cancelled", ending="failed"), fail(), "terminal"),
        (waiting_again("released"), Release(SOCKET, "box", 1), "settled"),
        (ended("expired", ending="released"), Release(SOCKET, "box", 1), "terminal"),
    ],
)
def test_the_very_same_attempts_report_is_a_duplicate(item: Item, event: Event, reason: str) -> None:
    assert refused(item, event) == Refusal(reason, duplicate=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "event"),
    [
        (ended("finished", attempts=2), Result("1", 1)),
        (ended("finished", ending="open"), Result("1", 1)),  # It was another's, without a fence.
        (ended("finished"), Result("1", None)),
        (ended("finished"), fail()),
        (ended("failed"), Result("1", 1)),
        (waiting_again("released"), fail()),
        (waiting_again("failed"), Release(SOCKET, "box", 1)),
        (ended("dead"), fail()),
    ],
)
def test_what_was_never_accepted_is_no_duplicate(item: Item, event: Event) -> None:
    assert not refused(item, event).duplicate


def test_over_http_any_request_of_that_user_holds_the_lease() -> None:
    item = after(pending(), Claim(HTTP, "box", ""))
    assert after(item, Renew(HTTP, "box", 1)).lease_until == LATER + LEASE
    assert refused(item, Renew(HTTP, "eve", 1)).reason == "not-holder"
    assert refused(item, Renew(SOCKET, "box", 1)).reason == "not-holder"


def test_any_socket_with_the_number_may_end_the_attempt() -> None:
    assert after(held(), fail()).ending == "failed"
    assert after(held(), Result("1", 1)).status == "finished"


def test_a_new_claim_keeps_the_checkpoint_and_the_last_fault_until_it_is_finished() -> None:
    item = after(waiting_again("failed", progress='{"percent":40}', error=ERROR), claim())
    assert (item.progress, item.error) == ('{"percent":40}', ERROR)
    done = after(item, Result("1", 2))
    assert (done.progress, done.error) == ('{"percent":40}', "")


def test_a_requeued_item_keeps_its_place() -> None:
    item = held(rank=-5, due_at=NOW - 9)
    for event in (SocketLost(SOCKET), GraceEnd(SOCKET), Release(SOCKET, "box", 1)):
        assert after(item, event).position == item.position


# ── What the holder is told ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Cancel(), "cancelled"),
        (Expire(), "expired"),
        (Result("1", None), "finished"),
        (Result("1", 1), ""),
        (fail(), ""),
        (fail(retryable=False), ""),
        (Release(SOCKET, "box", 1), ""),
        (LeaseEnd(), "lapsed"),
        (resume(), "resumed"),
        (Renew(SOCKET, "box", 1), ""),
    ],
)
def test_the_holder_hears_of_a_loss_that_is_not_its_own_doing(event: Event, reason: str) -> None:
    item = held(expires_at=NOW + LEASE)
    assert loss(item, after(item, event, NOW + LEASE)) == reason


def test_the_holder_hears_of_a_lapse_also_where_another_has_it_already() -> None:
    item = held()
    assert loss(item, after(after(item, LeaseEnd(), NOW + LEASE), claim(OTHER))) == "lapsed"
    assert loss(pending(), held()) == ""


# ── What holds for any item and any event ───────────────────────────────────────────────────────────────────────

fences = st.sampled_from([None, 0, 1, 2, 3])
holders = st.sampled_from([NOBODY, HTTP, SOCKET, OTHER])
names = st.sampled_from(["box", "eve"])
workers = st.sampled_from(["", "box-1", "box-2"])
events = st.one_of(
    st.builds(Claim, holders, names, workers),
    st.builds(Progress, st.just('"new"'), holders, names, fences),
    st.builds(Renew, holders, names, fences),
    st.builds(Result, st.just('"done"'), fences),
    st.builds(Fail, st.just(ERROR), st.booleans(), fences, st.floats(0, 0.99), st.sampled_from([None, 0, 5_000])),
    st.builds(Release, holders, names, fences, st.sampled_from([None, 0, 700])),
    st.builds(SocketLost, holders),
    st.builds(LeaseEnd, st.sampled_from([0, NOW])),
    st.builds(GraceEnd, holders),
    st.builds(Resume, holders, names, workers, st.integers(0, 3), st.sampled_from([0, NOW])),
    st.sampled_from([Cancel(), Expire(), Retry(), Fetch(), Due()]),
)
times = st.integers(NOW - 5, NOW + 40_000)
policies = st.builds(Policy, st.just(LEASE), st.sampled_from([0, 15_000]), st.integers(1, 3), st.integers(1, 3))
posts = st.builds(
    NewItem,
    st.just('{"kind": "a"}'),
    priority=st.integers(-1, 1),
    delay_ms=st.sampled_from([0, 3_000]),
    ttl_ms=st.sampled_from([None, 20_000]),
    max_attempts=st.integers(0, 2),
)
stories = st.lists(st.tuples(st.integers(-2, 12_000), events), max_size=30)


def view(item: Item) -> dict[str, Any]:
    """What everybody sees of the item. `label` goes with the time, and the times of change go with `rev`."""
    seen: dict[str, Any] = orjson.loads(encode_view(item, 0))
    return {name: value for name, value in seen.items() if name not in ("rev", "updatedAt", "label")}


@given(posts, policies, stories)
def test_any_story_keeps_the_rules(new: NewItem, policy: Policy, story: list[tuple[int, Event]]) -> None:
    now = NOW
    item = create(new, "00000000000000a1", 1, now, policy)
    for passed, event in story:
        now += passed  # Also back: `updatedAt` must bear it.
        before, untouched = item, item.copy()
        changed = apply(before, event, now, policy)
        assert before == untouched
        if isinstance(changed, Refusal):
            continue
        item = changed
        assert (item.rev - before.rev) == int(view(item) != view(before) or isinstance(event, Progress))
        assert item.updated_at >= before.updated_at
        assert item.attempts - before.attempts == isinstance(event, Claim)
        assert (item.status in TERMINAL) == (item.finished_at > 0)
        assert (item.status == "processing") == (item.lease_until > 0)
        assert item.holder == NOBODY or item.status == "processing"
        assert not item.ready or (item.status == "pending" and item.due_at <= now)
        assert item.failures <= item.max_attempts
        assert item.losses <= policy.max_losses
        assert item.failures + item.losses <= item.attempts - item.attempts_base
        assert not (item.status in TERMINAL and before.status in TERMINAL) or isinstance(event, Fetch)
        if item.status == "failed":
            assert orjson.loads(item.error)["message"]
        if item.status == "dead" != before.status:
            assert item.failures == item.max_attempts or item.losses == policy.max_losses


def test_churn_is_a_thousand() -> None:
    assert lifecycle.CHURN == 1_000, "a number of the protocol"
