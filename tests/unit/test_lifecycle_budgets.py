"""What an attempt costs, and when a lease is over: PROTOCOL.md §1, charges, budgets, and the two clocks."""

from collections.abc import Callable

import orjson
import pytest

from leaseway_server.core.events import Event, GraceEnd, LeaseEnd, Progress, Release, Renew, Result, Retry, SocketLost
from leaseway_server.core.model import NOBODY, Item
from leaseway_server.core.policy import Policy
from support.model import (
    DAY,
    LATER,
    LEASE,
    NOW,
    OTHER,
    SOCKET,
    after,
    claim,
    fail,
    held,
    pending,
    refused,
    resume,
    waiting_again,
)

# ── Charged once ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("1.21", "1.25", "1.35", "1.51")
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
    statuses: list[str] = []
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


@pytest.mark.protocol("1.24", "1.32", "1.52", "1.53", "1.54")
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


@pytest.mark.protocol("1.53")
def test_a_single_loss_may_be_the_last_one() -> None:
    policy = Policy(LEASE, max_losses=1)
    item = after(held(), SocketLost(SOCKET), policy=policy)
    assert (item.status, item.holder) == ("processing", NOBODY)
    assert after(item, resume(), policy=policy).holder == OTHER
    assert refused(item, LeaseEnd(), item.lease_until - 1, policy).reason == "state"
    dead = after(item, LeaseEnd(), item.lease_until, policy)
    assert (dead.status, orjson.loads(dead.error)["code"]) == ("dead", "poison")


@pytest.mark.protocol("1.43")
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


@pytest.mark.protocol("1.2")
def test_a_lease_ends_at_its_time_and_not_before() -> None:
    assert refused(held(), LeaseEnd(), NOW + LEASE - 1).reason == "state"
    assert after(held(), LeaseEnd(), NOW + LEASE).ending == "lost"


@pytest.mark.protocol("1.31", "1.57", "1.58")
def test_a_renewal_keeps_the_lease_but_not_the_clock_of_progress() -> None:
    item = after(held(), Renew(SOCKET, "box", 1), NOW + 9_000, SILENCE)
    assert refused(item, LeaseEnd(), NOW + 14_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


@pytest.mark.protocol("1.59")
def test_progress_of_the_holder_starts_the_clock_of_progress_again() -> None:
    item = after(held(), Progress("1", SOCKET, "box", 1), NOW + 9_000, SILENCE)
    item = after(item, Renew(SOCKET, "box", 1), NOW + 18_000, SILENCE)
    assert refused(item, LeaseEnd(), NOW + 23_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(), NOW + 24_000, SILENCE).ending == "lost"


@pytest.mark.protocol("1.59")
def test_progress_without_a_fence_starts_no_clock() -> None:
    item = after(held(lease_until=NOW + DAY), Progress("1", OTHER, "", None), NOW + 9_000, SILENCE)
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


@pytest.mark.protocol("1.61")
def test_a_resume_does_not_start_the_clock_of_progress_again() -> None:
    item = after(held(), resume(), NOW + 9_000, SILENCE)
    assert item.progress_at == NOW
    assert after(item, LeaseEnd(), NOW + 15_000, SILENCE).ending == "lost"


@pytest.mark.protocol("1.57")
@pytest.mark.parametrize("item", [held(lease_until=NOW + DAY), waiting_again("lost"), waiting_again("parted")])
def test_what_was_silent_for_too_long_cannot_be_resumed(item: Item) -> None:
    assert after(item, resume(), NOW + 14_999, SILENCE).status == "processing"
    assert refused(item, resume(), NOW + 15_000, SILENCE).reason == "not-holder"


@pytest.mark.protocol("1.60")
def test_after_a_start_the_clock_of_progress_begins_at_the_end_of_the_grace() -> None:
    grace = NOW + DAY
    item = held(lease_until=grace + DAY)
    assert refused(item, LeaseEnd(grace), grace + 14_999, SILENCE).reason == "state"
    assert after(item, LeaseEnd(grace), grace + 15_000, SILENCE).ending == "lost"
    resumed = after(item, resume(progress_from=grace), grace - 1, SILENCE)
    assert resumed.progress_at == grace
    assert refused(item, resume(progress_from=grace), grace + 15_000, SILENCE).reason == "not-holder"
