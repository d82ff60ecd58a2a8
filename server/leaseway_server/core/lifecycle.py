"""The life of an item: PROTOCOL.md §1's table as data, and `apply(item, event, now, policy)`.

Both stores use it; SQL holds no second copy of these rules. An event that the table does not allow gives a `Refusal`
and changes nothing. Nothing here reads a clock or rolls dice: `now` and chance come with the call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leaseway_server.core import effects, guards
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
from leaseway_server.core.members import MAX_TIME
from leaseway_server.core.model import NOBODY, OPEN, TERMINAL, Ending, Item, NewItem, Status
from leaseway_server.core.policy import Policy

Reason: TypeAlias = Literal["terminal", "fence", "not-holder", "settled", "not-due", "state"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The event changes nothing. `duplicate`: the very same attempt's report was accepted before (PROTOCOL.md §4)."""

    reason: Reason
    duplicate: bool = False


def create(new: NewItem, item_id: str, seq: int, now: int, policy: Policy) -> Item:
    """The item of a post. A due time in the past is now, so that nobody posts ahead of those who wait.

    Raises `BadMessage` where it would be due at or after the end of its life (PROTOCOL.md §5).
    """
    due_at = min(max(now + new.delay_ms, new.due_at), MAX_TIME)
    expires_at = 0 if new.ttl_ms is None else min(now + new.ttl_ms, MAX_TIME)
    if new.ttl_ms is not None and due_at >= expires_at:
        raise BadMessage("the item would be due at or after the end of its life", path="/ttlMs")
    return Item(
        id=item_id,
        seq=seq,
        status="pending",
        ready=int(due_at <= now),
        rank=-new.priority,
        due_at=due_at,
        posted_by=new.posted_by,
        posted_at=now,
        updated_at=now,
        started_at=0,
        finished_at=0,
        fetched_at=0,
        expires_at=expires_at,
        lease_until=0,
        progress_at=0,
        attempts=0,
        attempts_base=0,
        failures=0,
        losses=0,
        max_attempts=new.max_attempts or policy.max_attempts,
        rev=1,
        ending="",
        holder=NOBODY,
        lease_user="",
        worker="",
        meta=new.meta,
        progress="",
        error="",
        key=new.key,
        held=int(bool(new.key)),
        body=new.body,
        match=new.match,
    )


def apply(item: Item, event: Event, now: int, policy: Policy) -> Item | Refusal:
    """The item after the event, or why it is refused. `item` itself is never changed."""
    for row in _BY_EVENT[type(event)]:
        if item.status in row.sources and row.when(item, event, now, policy):
            return row.effect(item, event, now, policy)
    return _refusal(item, event)


def loss(before: Item, after: Item) -> str:
    """Why the holder of `before` lost its lease other than by its own report; "" where it did not (PROTOCOL.md §4)."""
    return loss_since(before.holder, before.attempts, after) if before.status == "processing" else ""


def loss_since(holder: int, attempts: int, after: Item) -> str:
    """The same, where no more is known of the lease than its holder and its number."""
    if holder == after.holder:
        return ""
    if after.status in ("cancelled", "expired"):
        return after.status
    if after.status == "finished":
        return "finished" if after.ending == "open" else ""  # The ending tells a result without a fence.
    if after.attempts == attempts and after.status == "processing":
        return "resumed"
    return "lapsed" if after.attempts > attempts or after.ending == "lost" else ""


# ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of PROTOCOL.md §1: from one of `sources`, on `event`, where `when` holds, `effect`."""

    says: str
    sources: frozenset[Status]
    event: type[Event]
    when: Callable[..., bool]
    effect: Callable[..., Item]


_PENDING: Final[frozenset[Status]] = frozenset({"pending"})
_PROCESSING: Final[frozenset[Status]] = frozenset({"processing"})

TABLE: Final[tuple[Transition, ...]] = (
    Transition("claim", _PENDING, Claim, guards.claimable, effects.claim),
    Transition("progress by the holder", _PROCESSING, Progress, guards.held, effects.progress),
    Transition("progress without a fence", _PROCESSING, Progress, guards.unfenced, effects.progress_unfenced),
    Transition("renew by the holder", _PROCESSING, Renew, guards.held, effects.renew),
    Transition("result, same fence", OPEN, Result, guards.same_fence, effects.finish_fenced),
    Transition("result without a fence", OPEN, Result, guards.unfenced, effects.finish),
    Transition("fail, permanent", OPEN, Fail, guards.fails_for_good, effects.fail_for_good),
    Transition("fail, retryable, within the budget", OPEN, Fail, guards.fails_within_budget, effects.fail_for_now),
    Transition("fail, retryable, else", OPEN, Fail, guards.fails_past_budget, effects.fail_at_last),
    Transition("release by the holder", _PROCESSING, Release, guards.held, effects.release),
    Transition("the holder's socket drops", _PROCESSING, SocketLost, guards.dropped_within_budget, effects.lose),
    Transition("the holder's socket drops, else", _PROCESSING, SocketLost, guards.dropped, effects.leave),
    Transition("the lease or progress_by is over", _PROCESSING, LeaseEnd, guards.lapsed_within_budget, effects.lose),
    Transition("the lease or progress_by is over, else", _PROCESSING, LeaseEnd, guards.lapsed, effects.poison),
    Transition("the clock was set", _PROCESSING, ClockSet, guards.always, effects.count_anew),
    Transition("not resumed within the grace", _PROCESSING, GraceEnd, guards.grace_over, effects.part),
    Transition("resume by the same user and worker", OPEN, Resume, guards.resumable, effects.resume),
    Transition("cancel", OPEN, Cancel, guards.always, effects.cancel),
    Transition("the time to live is over", OPEN, Expire, guards.outlived, effects.expire),
    Transition("retry by an administrator", TERMINAL - {"finished"}, Retry, guards.always, effects.retry),
    Transition("another priority or due time by an administrator", _PENDING, Adjust, guards.always, effects.adjust),
    Transition("the due time passed", _PENDING, Due, guards.came_due, effects.come_due),
)

_BY_EVENT: Final[dict[type[Event], tuple[Transition, ...]]] = {
    event: tuple(row for row in TABLE if row.event is event) for event in {row.event for row in TABLE}
}

_REPORT_ENDING: Final[dict[type[Event], Ending]] = {Result: "finished", Fail: "failed", Release: "released"}


def _refusal(item: Item, event: Event) -> Refusal:
    """Why no row applied; the first reason that holds, in the order of PROTOCOL.md §4 (`What is checked first`)."""
    fence = getattr(event, "fence", None)
    duplicate = fence == item.attempts and _REPORT_ENDING.get(type(event)) == item.ending
    if item.terminal:
        return Refusal("terminal", duplicate)
    if fence is not None and (fence != item.attempts or fence == 0):
        return Refusal("fence")
    return Refusal(_late_reason(item, event), duplicate)


def _late_reason(item: Item, event: Event) -> Reason:
    match event:
        case Progress() | Renew() | Resume():
            return "not-holder"
        case Release():
            # A release while the attempt still runs, but not by its holder; else the attempt ended already.
            return "not-holder" if item.ending in ("", "open") or event.fence is None else "settled"
        case Fail():
            return "not-holder" if event.fence is None or item.attempts == 0 else "settled"
        case Claim() | Due():
            return "not-due"
        case _:
            return "state"
