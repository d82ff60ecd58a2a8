"""What an event does to an item: the effects of PROTOCOL.md §1's table. That it is allowed was seen before.

Each takes (item, event, now, policy), times in ms since the epoch, and gives the item afterwards; `item` itself is
never changed. The table in `lifecycle.py` pairs each with the events that it is for, as it does with the guards.
"""

from typing import Final

import orjson

from leaseway_server.core.backoff import retry_delay
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import (
    Adjust,
    Cancel,
    Claim,
    ClockSet,
    Due,
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
from leaseway_server.core.model import NOBODY, Ending, Item, Status
from leaseway_server.core.policy import Policy

CHURN: Final = 1_000
"""So many claims since the post or the last retry, and the item is `dead` instead of `pending`."""


def _changed(item: Item, now: int) -> Item:
    new = item.copy()
    new.rev += 1
    new.updated_at = max(now, item.updated_at)
    return new


def claim(item: Item, event: Claim, now: int, policy: Policy) -> Item:
    new = _changed(item, now)
    new.status, new.ready, new.ending = "processing", 0, "open"
    new.attempts += 1
    new.holder, new.lease_user, new.worker = event.holder, event.user, event.worker
    new.started_at = new.progress_at = now
    new.lease_until = now + policy.lease
    return new


def progress(item: Item, event: Progress, now: int, policy: Policy) -> Item:
    new = _changed(item, now)
    new.progress, new.progress_at = event.value, now
    new.lease_until = now + policy.lease
    return new


def progress_unfenced(item: Item, event: Progress, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.progress = event.value
    return new


def renew(item: Item, _event: Renew, now: int, policy: Policy) -> Item:
    new = item.copy()  # A renewal changes no `rev` (PROTOCOL.md §3).
    new.lease_until = now + policy.lease
    return new


def finish(item: Item, event: Result, now: int, _policy: Policy) -> Item:
    new = _end(item, "finished", now)
    new.result, new.error = event.value, ""
    return new


def finish_fenced(item: Item, event: Result, now: int, policy: Policy) -> Item:
    new = _take_back(finish(item, event, now, policy))
    new.ending = "finished"
    return new


def fail_for_good(item: Item, event: Fail, now: int, _policy: Policy) -> Item:
    new = _take_back(_end(item, "failed", now))
    new.error, new.ending = event.error, "failed"
    return new


def fail_for_now(item: Item, event: Fail, now: int, policy: Policy) -> Item:
    new = _take_back(_changed(item, now))
    new.failures += 1
    new.error = event.error
    due_at = now + retry_delay(policy.backoff, new.failures, event.chance, event.retry_in)
    return _requeue(new, "failed", due_at, now)


def fail_at_last(item: Item, event: Fail, now: int, _policy: Policy) -> Item:
    new = _take_back(_end(item, "dead", now))
    new.failures += 1
    new.error, new.ending = event.error, "failed"
    return new


def release(item: Item, event: Release, now: int, _policy: Policy) -> Item:
    due_at = _still_due(item, now) if event.delay is None else min(now + event.delay, MAX_TIME)
    return _requeue(_changed(item, now), "released", due_at, now)


def lose(item: Item, _event: SocketLost | LeaseEnd, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.losses += 1
    return _requeue(new, "lost", _still_due(item, now), now)


def leave(item: Item, _event: SocketLost, _now: int, _policy: Policy) -> Item:
    new = item.copy()  # Nothing that a view shows has changed.
    new.holder = NOBODY
    return new


def poison(item: Item, _event: LeaseEnd, now: int, _policy: Policy) -> Item:
    new = _end(item, "dead", now)
    new.losses += 1
    new.ending = "lost"
    new.error = _error("poison", f"it was lost with its worker {new.losses} times, which is all that the queue allows")
    return new


def count_anew(item: Item, _event: ClockSet, now: int, policy: Policy) -> Item:
    new = item.copy()
    new.lease_until, new.progress_at = now + policy.lease, now
    return new


def part(item: Item, _event: GraceEnd, now: int, _policy: Policy) -> Item:
    return _requeue(_changed(item, now), "parted", _still_due(item, now), now)


def resume(item: Item, event: Resume, now: int, policy: Policy) -> Item:
    shows = item.status != "processing"
    new = _take_back(_changed(item, now) if shows else item.copy())
    new.status, new.ready, new.ending = "processing", 0, "open"
    new.holder = event.holder
    new.progress_at = max(item.progress_at, event.progress_from)
    new.lease_until = now + policy.lease
    return new


def cancel(item: Item, _event: Cancel, now: int, _policy: Policy) -> Item:
    return _end(item, "cancelled", now)


def expire(item: Item, _event: Expire, now: int, _policy: Policy) -> Item:
    return _end(item, "expired", now)


def retry(item: Item, _event: Retry, now: int, _policy: Policy) -> Item:
    new = _changed(item, now)
    new.failures = new.losses = 0
    new.error = ""
    new.finished_at = new.fetched_at = new.expires_at = 0
    new.attempts_base = item.attempts
    new.held = int(bool(item.key))  # That no other item holds its key by now is the turn's to see.
    return _requeue(new, "closed", now, now)


def adjust(item: Item, event: Adjust, now: int, _policy: Policy) -> Item:
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


def come_due(item: Item, _event: Due, _now: int, _policy: Policy) -> Item:
    new = item.copy()
    new.ready = 1
    return new


def _end(item: Item, status: Status, now: int) -> Item:
    new = _changed(item, now)
    new.status, new.ready, new.holder, new.lease_until = status, 0, NOBODY, 0
    new.finished_at = max(now, item.updated_at)
    return new


def _still_due(item: Item, now: int) -> int:
    """When an item came due that was in work: what was due stays so, though the clock was set back meanwhile."""
    return min(item.due_at, now)


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
