"""Who may say what about an item: refusals and their reasons (PROTOCOL.md §4), and what its holder is told."""

import pytest

from leaseway_server.core.events import (
    Cancel,
    Claim,
    Event,
    Expire,
    GraceEnd,
    LeaseEnd,
    Progress,
    Release,
    Renew,
    Result,
    SocketLost,
)
from leaseway_server.core.lifecycle import Refusal, loss
from leaseway_server.core.model import HTTP, NOBODY, Item
from support.model import (
    ERROR,
    LATER,
    LEASE,
    NOW,
    OTHER,
    SOCKET,
    after,
    claim,
    ended,
    fail,
    held,
    pending,
    refused,
    resume,
    waiting_again,
)

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
    ("a grace that is not over", held(), GraceEnd(SOCKET, LATER + 1), "state"),
    ("claim of what is held", held(), claim(), "not-due"),
    ("end of a life that is not over", pending(expires_at=LATER + 1), Expire(), "state"),
    ("end of a life without an end", pending(), Expire(), "state"),
]


@pytest.mark.protocol("1.11", "1.12", "1.13", "1.15", "1.44", "1.50", "4.29", "4.63", "4.64")
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


@pytest.mark.protocol("1.14")
def test_over_http_any_request_of_that_user_holds_the_lease() -> None:
    item = after(pending(), Claim(HTTP, "box", ""))
    assert after(item, Renew(HTTP, "box", 1)).lease_until == LATER + LEASE
    assert refused(item, Renew(HTTP, "eve", 1)).reason == "not-holder"
    assert refused(item, Renew(SOCKET, "box", 1)).reason == "not-holder"


def test_any_socket_with_the_number_may_end_the_attempt() -> None:
    assert after(held(), fail()).ending == "failed"
    assert after(held(), Result("1", 1)).status == "finished"


@pytest.mark.protocol("1.65", "1.66")
def test_a_new_claim_keeps_the_checkpoint_and_the_last_fault_until_it_is_finished() -> None:
    item = after(waiting_again("failed", progress='{"percent":40}', error=ERROR), claim())
    assert (item.progress, item.error) == ('{"percent":40}', ERROR)
    done = after(item, Result("1", 2))
    assert (done.progress, done.error) == ('{"percent":40}', "")


@pytest.mark.protocol("1.63")
def test_a_requeued_item_keeps_its_place() -> None:
    item = held(rank=-5, due_at=NOW - 9)
    for event in (SocketLost(SOCKET), GraceEnd(SOCKET), Release(SOCKET, "box", 1)):
        assert after(item, event).position == item.position


def test_what_was_due_stays_so_though_the_clock_was_set_back() -> None:
    item = held(due_at=LATER + 60_000, lease_until=LATER)
    for event in (SocketLost(SOCKET), GraceEnd(SOCKET), Release(SOCKET, "box", 1), LeaseEnd(LATER)):
        back = after(item, event)
        assert (back.ready, back.due_at) == (1, LATER)


# ── What the holder is told ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("4.68", "4.69", "4.70")
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


@pytest.mark.protocol("4.70")
def test_the_holder_hears_of_a_lapse_also_where_another_has_it_already() -> None:
    item = held()
    assert loss(item, after(after(item, LeaseEnd(), NOW + LEASE), claim(OTHER))) == "lapsed"
    assert loss(pending(), held()) == ""
