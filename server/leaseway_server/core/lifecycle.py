"""The life of an item: PROTOCOL.md §1's table as data, and `apply(item, event, now, policy)`.

Both stores use it; SQL holds no second copy of these rules. An event that the table does not allow gives a `Refusal`
and changes nothing. Nothing here reads a clock or rolls dice: `now` and chance come with the call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import orjson

from leaseway_server.core.backoff import Backoff, retry_delay
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import (
    Adjust,
    Cancel,
    Claim,
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
from leaseway_server.core.model import HTTP, NOBODY, OPEN, TERMINAL, Ending, Item, NewItem, Status

CHURN: Final = 1_000
"""So many claims since the post or the last retry, and the item is `dead` instead of `pending`."""

Reason: TypeAlias = Literal["terminal", "fence", "not-holder", "settled", "not-due", "state"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a queue's configuration says about the life of its items. Durations in ms; `progress_by` 0 is off."""

    lease: int = 300_000
    progress_by: int = 0
    max_attempts: int = 5
    max_losses: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    dedupe_window: int = 86_400_000
    """A key is held for so long after its post, at least."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The event changes nothing. `duplicate`: the very same attempt's report was accepted before (PROTOCOL.md §4)."""

    reason: Reason
    duplicate: bool = False


def create(new: NewItem, item_id: str, seq: int, now: int, policy: Policy) -> Item:
    """The item of a post. A due time in the past is now, so that nobody posts ahead of those who wait.

    Raises `BadMessage` where it would be due at or after the end of its life (PROTOCOL.md §5).
    """
    due_at = max(now + new.delay_ms, new.due_at)
    expires_at = 0 if new.ttl_ms is None else now + new.ttl_ms
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


# ── Guards ──────────────────────────────────────────────────────────────────────────────────────────────────────
# Each takes (item, event, now, policy). The table pairs each with the events that it is for; mypy cannot see that, so
# the events are narrowed by the table and not by `isinstance` on the hot path.


def _always(_item: Item, _event: Event, _now: int, _policy: Policy) -> bool:
    return True


def _claimable(item: Item, _event: Claim, now: int, _policy: Policy) -> bool:
    return item.claimable(now)


def _held(item: Item, event: Progress | Renew | Release, _now: int, _policy: Policy) -> bool:
    return event.fence == item.attempts and is_holder(item, event.holder, event.user)


def _unfenced(_item: Item, event: Progress | Result, _now: int, _policy: Policy) -> bool:
    return event.fence is None


def _same_fence(item: Item, event: Result | Fail, _now: int, _policy: Policy) -> bool:
    return event.fence == item.attempts > 0


def _fail_counts(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return _same_fence(item, event, now, policy) and item.ending in ("open", "lost", "parted")


def _fails_for_good(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return not event.retryable and _fail_counts(item, event, now, policy)


def _fails_within_budget(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return event.retryable and item.failures + 1 < item.max_attempts and _fail_counts(item, event, now, policy)


def _fails_past_budget(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return event.retryable and item.failures + 1 >= item.max_attempts and _fail_counts(item, event, now, policy)


def _dropped(item: Item, event: SocketLost | GraceEnd, _now: int, _policy: Policy) -> bool:
    return item.holder == event.holder


def _dropped_within_budget(item: Item, event: SocketLost, now: int, policy: Policy) -> bool:
    return _dropped(item, event, now, policy) and item.losses + 1 < policy.max_losses


def _lapsed(item: Item, event: LeaseEnd, now: int, policy: Policy) -> bool:
    return item.lease_until <= now or _silent(item, event.progress_from, now, policy)


def _lapsed_within_budget(item: Item, event: LeaseEnd, now: int, policy: Policy) -> bool:
    return item.losses + 1 < policy.max_losses and _lapsed(item, event, now, policy)


def _resumable(item: Item, event: Resume, now: int, policy: Policy) -> bool:
    return (
        event.fence == item.attempts
        and bool(item.worker)
        and (item.worker, item.lease_user) == (event.worker, event.user)
        and (item.status == "processing" or item.ending in ("lost", "parted"))
        and not _silent(item, event.progress_from, now, policy)
    )


def _outlived(item: Item, _event: Expire, now: int, _policy: Policy) -> bool:
    return 0 < item.expires_at <= now


def _came_due(item: Item, _event: Due, now: int, _policy: Policy) -> bool:
    return item.ready == 0 and item.due_at <= now


def is_holder(item: Item, holder: int, user: str) -> bool:
    """Whether this socket, or over HTTP this user, holds the lease."""
    return item.holder == holder and (holder != HTTP or item.lease_user == user)


def progress_deadline(progress_at: int, policy: Policy) -> int:
    """When a lease is taken away that is silent since `progress_at`; 0 where the queue sets no `progress_by`. ms."""
    return progress_at + policy.progress_by if policy.progress_by else 0


def _silent(item: Item, progress_from: int, now: int, policy: Policy) -> bool:
    return 0 < progress_deadline(max(item.progress_at, progress_from), policy) <= now


# ── Effects ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(item: Item, now: int) -> Item:
    new = item.copy()
    new.rev += 1
    new.updated_at = max(now, item.updated_at)
    return new


def _claim(item: Item, event: Claim, now: int, policy: Policy) -> Item:
    new = _changed(item, now)
    new.status, new.ready, new.ending = "processing", 0, "open"
    new.attempts += 1
    new.holder, new.lease_user, new.worker = event.holder, event.user, event.worker
    new.started_at = new.progress_at = now
    new.lease_until = now + policy.lease
    return new


def _progress(item: Item, event: Progress, now: int, policy: Policy) -> Item:
    new = _changed(item, now)
    new.progress, new.progress_at = event.value, now
    new.lease_until = now + policy.lease
    return new


def _progress_unfenced(item: Item, event: Progress, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.progress = event.value
    return new


def _renew(item: Item, _event: Renew, now: int, policy: Policy) -> Item:
    new = item.copy()  # A renewal changes no `rev` (PROTOCOL.md §3).
    new.lease_until = now + policy.lease
    return new


def _finish(item: Item, event: Result, now: int, _policy: Policy) -> Item:
    new = _end(item, "finished", now)
    new.result, new.error = event.value, ""
    return new


def _finish_fenced(item: Item, event: Result, now: int, policy: Policy) -> Item:
    new = _take_back(_finish(item, event, now, policy))
    new.ending = "finished"
    return new


def _fail_for_good(item: Item, event: Fail, now: int, _policy: Policy) -> Item:
    new = _take_back(_end(item, "failed", now))
    new.error, new.ending = event.error, "failed"
    return new


def _fail_for_now(item: Item, event: Fail, now: int, policy: Policy) -> Item:
    new = _take_back(_changed(item, now))
    new.failures += 1
    new.error = event.error
    due_at = now + retry_delay(policy.backoff, new.failures, event.chance, event.retry_in)
    return _requeue(new, "failed", due_at, now)


def _fail_at_last(item: Item, event: Fail, now: int, _policy: Policy) -> Item:
    new = _take_back(_end(item, "dead", now))
    new.failures += 1
    new.error, new.ending = event.error, "failed"
    return new


def _release(item: Item, event: Release, now: int, _policy: Policy) -> Item:
    due_at = item.due_at if event.delay is None else now + event.delay
    return _requeue(_changed(item, now), "released", due_at, now)


def _lose(item: Item, _event: SocketLost | LeaseEnd, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.losses += 1
    return _requeue(new, "lost", item.due_at, now)


def _leave(item: Item, _event: SocketLost, _now: int, _policy: Policy) -> Item:
    new = item.copy()  # Nothing that a view shows has changed.
    new.holder = NOBODY
    return new


def _poison(item: Item, _event: LeaseEnd, now: int, _policy: Policy) -> Item:
    new = _end(item, "dead", now)
    new.losses += 1
    new.ending = "lost"
    new.error = _error("poison", f"it was lost with its worker {new.losses} times, which is all that the queue allows")
    return new


def _part(item: Item, _event: GraceEnd, now: int, _policy: Policy) -> Item:
    return _requeue(_changed(item, now), "parted", item.due_at, now)


def _resume(item: Item, event: Resume, now: int, policy: Policy) -> Item:
    shows = item.status != "processing"
    new = _take_back(_changed(item, now) if shows else item.copy())
    new.status, new.ready, new.ending = "processing", 0, "open"
    new.holder = event.holder
    new.progress_at = max(item.progress_at, event.progress_from)
    new.lease_until = now + policy.lease
    return new


def _cancel(item: Item, _event: Cancel, now: int, _policy: Policy) -> Item:
    return _end(item, "cancelled", now)


def _expire(item: Item, _event: Expire, now: int, _policy: Policy) -> Item:
    return _end(item, "expired", now)


def _retry(item: Item, _event: Retry, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.failures = new.losses = 0
    new.error = ""
    new.finished_at = new.fetched_at = new.expires_at = 0
    new.attempts_base = item.attempts
    new.held = int(bool(item.key))  # That no other item holds its key by now is the turn's to see.
    return _requeue(new, "closed", now, now)


def _adjust(item: Item, event: Adjust, now: int, _policy: Policy) -> Item:
    rank = item.rank if event.priority is None else -event.priority
    due_at = item.due_at if event.due_at is None else _due_by_hand(item, event.due_at, now)
    if (rank, due_at) == (item.rank, item.due_at):
        return item
    if due_at != item.due_at and 0 < item.expires_at <= due_at:
        raise BadMessage("the item would be due at or after the end of its life", path="/dueAt")
    new = _changed(item, now)
    new.rank, new.due_at = rank, due_at
    new.ready = int(bool(item.ready) if due_at == item.due_at else due_at <= now)
    return new


def _due_by_hand(item: Item, due_at: int, now: int) -> int:
    """A time that has passed makes it due now, so that nobody gets ahead by it; what is due already keeps its place."""
    return due_at if due_at > now else min(item.due_at, now)


def _come_due(item: Item, _event: Due, _now: int, _policy: Policy) -> Item:
    new = item.copy()
    new.ready = 1
    return new


def _end(item: Item, status: Status, now: int) -> Item:
    new = _changed(item, now)
    new.status, new.ready, new.holder, new.lease_until = status, 0, NOBODY, 0
    new.finished_at = max(now, item.updated_at)
    return new


def _requeue(new: Item, ending: Ending, due_at: int, now: int) -> Item:
    """To `pending`, or to `dead` where the item only goes round and round."""
    new.ending, new.holder, new.lease_until = ending, NOBODY, 0
    if new.attempts - new.attempts_base >= CHURN:
        new.status, new.ready, new.finished_at = "dead", 0, new.updated_at
        new.error = _error("churn", f"it was claimed {CHURN} times without an end")
    else:
        new.status, new.due_at, new.ready = "pending", due_at, int(due_at <= now)
    return new


def _take_back(new: Item) -> Item:
    """An attempt is charged once: a loss that was charged for it is taken back."""
    if new.ending == "lost":
        new.losses -= 1
    return new


def _error(code: str, message: str) -> str:
    return orjson.dumps({"code": code, "message": message}).decode()


def loss(before: Item, after: Item) -> str:
    """Why the holder of `before` lost its lease other than by its own report; "" where it did not (PROTOCOL.md §4)."""
    if before.status != "processing" or before.holder == after.holder:
        return ""
    if after.status in ("cancelled", "expired"):
        return after.status
    if after.status == "finished":
        return "finished" if after.ending == "open" else ""  # The ending tells a result without a fence.
    if after.attempts == before.attempts and after.status == "processing":
        return "resumed"
    return "lapsed" if after.attempts > before.attempts or after.ending == "lost" else ""


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
    Transition("claim", _PENDING, Claim, _claimable, _claim),
    Transition("progress by the holder", _PROCESSING, Progress, _held, _progress),
    Transition("progress without a fence", _PROCESSING, Progress, _unfenced, _progress_unfenced),
    Transition("renew by the holder", _PROCESSING, Renew, _held, _renew),
    Transition("result, same fence", OPEN, Result, _same_fence, _finish_fenced),
    Transition("result without a fence", OPEN, Result, _unfenced, _finish),
    Transition("fail, permanent", OPEN, Fail, _fails_for_good, _fail_for_good),
    Transition("fail, retryable, within the budget", OPEN, Fail, _fails_within_budget, _fail_for_now),
    Transition("fail, retryable, else", OPEN, Fail, _fails_past_budget, _fail_at_last),
    Transition("release by the holder", _PROCESSING, Release, _held, _release),
    Transition("the holder's socket drops", _PROCESSING, SocketLost, _dropped_within_budget, _lose),
    Transition("the holder's socket drops, else", _PROCESSING, SocketLost, _dropped, _leave),
    Transition("the lease or progress_by is over", _PROCESSING, LeaseEnd, _lapsed_within_budget, _lose),
    Transition("the lease or progress_by is over, else", _PROCESSING, LeaseEnd, _lapsed, _poison),
    Transition("not resumed within the grace", _PROCESSING, GraceEnd, _dropped, _part),
    Transition("resume by the same user and worker", OPEN, Resume, _resumable, _resume),
    Transition("cancel", OPEN, Cancel, _always, _cancel),
    Transition("the time to live is over", OPEN, Expire, _outlived, _expire),
    Transition("retry by an administrator", TERMINAL - {"finished"}, Retry, _always, _retry),
    Transition("another priority or due time by an administrator", _PENDING, Adjust, _always, _adjust),
    Transition("the due time passed", _PENDING, Due, _came_due, _come_due),
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
