"""When an event is allowed: the conditions of PROTOCOL.md §1's table. Changes nothing, and decides no order.

Each takes (item, event, now, policy), times in ms since the epoch. The table in `lifecycle.py` pairs each with the
events that it is for; mypy cannot see that, so the events are narrowed by the table and not by `isinstance` on the hot
path.
"""

from leaseway_server.core.events import (
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
    SocketLost,
)
from leaseway_server.core.model import HTTP, Item
from leaseway_server.core.policy import Policy


def always(_item: Item, _event: Event, _now: int, _policy: Policy) -> bool:
    return True


def claimable(item: Item, _event: Claim, now: int, _policy: Policy) -> bool:
    return item.claimable(now)


def held(item: Item, event: Progress | Renew | Release, _now: int, _policy: Policy) -> bool:
    return event.fence == item.attempts and _is_holder(item, event.holder, event.user)


def unfenced(_item: Item, event: Progress | Result, _now: int, _policy: Policy) -> bool:
    return event.fence is None


def same_fence(item: Item, event: Result | Fail, _now: int, _policy: Policy) -> bool:
    return event.fence == item.attempts > 0


def _fail_counts(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return same_fence(item, event, now, policy) and item.ending in ("open", "lost", "parted")


def fails_for_good(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return not event.retryable and _fail_counts(item, event, now, policy)


def fails_within_budget(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return event.retryable and item.failures + 1 < item.max_attempts and _fail_counts(item, event, now, policy)


def fails_past_budget(item: Item, event: Fail, now: int, policy: Policy) -> bool:
    return event.retryable and item.failures + 1 >= item.max_attempts and _fail_counts(item, event, now, policy)


def dropped(item: Item, event: SocketLost, _now: int, _policy: Policy) -> bool:
    return item.holder == event.holder


def grace_over(item: Item, event: GraceEnd, now: int, _policy: Policy) -> bool:
    return item.holder == event.holder and now >= event.until


def dropped_within_budget(item: Item, event: SocketLost, now: int, policy: Policy) -> bool:
    return dropped(item, event, now, policy) and item.losses + 1 < policy.max_losses


def lapsed(item: Item, event: LeaseEnd, now: int, policy: Policy) -> bool:
    return item.lease_until <= now or _silent(item, event.progress_from, now, policy)


def lapsed_within_budget(item: Item, event: LeaseEnd, now: int, policy: Policy) -> bool:
    return item.losses + 1 < policy.max_losses and lapsed(item, event, now, policy)


def resumable(item: Item, event: Resume, now: int, policy: Policy) -> bool:
    return (
        event.fence == item.attempts
        and bool(item.worker)
        and (item.worker, item.lease_user) == (event.worker, event.user)
        and (item.status == "processing" or item.ending in ("lost", "parted"))
        and not _silent(item, event.progress_from, now, policy)
    )


def outlived(item: Item, _event: Expire, now: int, _policy: Policy) -> bool:
    return 0 < item.expires_at <= now


def came_due(item: Item, _event: Due, now: int, _policy: Policy) -> bool:
    return item.ready == 0 and item.due_at <= now


def _is_holder(item: Item, holder: int, user: str) -> bool:
    """Whether this socket, or over HTTP this user, holds the lease."""
    return item.holder == holder and (holder != HTTP or item.lease_user == user)


def progress_deadline(progress_at: int, policy: Policy) -> int:
    """When a lease is taken away that is silent since `progress_at`; 0 where the queue sets no `progress_by`. ms."""
    return progress_at + policy.progress_by if policy.progress_by else 0


def _silent(item: Item, progress_from: int, now: int, policy: Policy) -> bool:
    return 0 < progress_deadline(max(item.progress_at, progress_from), policy) <= now
