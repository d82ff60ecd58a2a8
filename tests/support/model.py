"""For tests of single rules: an item that stands at `NOW`, what happens to it, and what becomes of it."""

from dataclasses import replace
from typing import Any, Final

from leaseway_server.core.backoff import Backoff
from leaseway_server.core.events import Claim, Event, Fail, Resume
from leaseway_server.core.lifecycle import Refusal, apply, create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.policy import Policy

NOW: Final = 1_800_000_000_000
DAY: Final = 86_400_000
SOCKET: Final = 7
OTHER: Final = 8
LEASE: Final = 10_000
ERROR: Final = '{"message":"no luck"}'
LATER: Final = NOW + 5_000
POLICY: Final = Policy(LEASE, 0, max_attempts=3, max_losses=3, backoff=Backoff(delays=(1_000, 4_000), jitter=0.0))


def pending(**changes: Any) -> Item:
    """An item that was posted at `NOW` and waits, but for the changes."""
    new = create(NewItem('{"kind": "a"}', posted_by="ann"), "00000000000000a1", 1, NOW, POLICY)
    return replace(new, **changes)


def held(**changes: Any) -> Item:
    """An item that `box-1` of `box` claimed on `SOCKET` at `NOW`, its first attempt, but for the changes."""
    claimed: dict[str, Any] = {
        "status": "processing",
        "ready": 0,
        "attempts": 1,
        "ending": "open",
        "holder": SOCKET,
        "lease_user": "box",
        "worker": "box-1",
        "started_at": NOW,
        "progress_at": NOW,
        "lease_until": NOW + LEASE,
        "rev": 2,
    }
    return pending(**claimed | changes)


def waiting_again(ending: str, /, **changes: Any) -> Item:
    """The same item, pending again after its first attempt ended so."""
    requeued: dict[str, Any] = {
        "status": "pending",
        "ready": 1,
        "ending": ending,
        "holder": 0,
        "lease_until": 0,
        "losses": int(ending == "lost"),
        "failures": int(ending == "failed"),
        "rev": 3,
    }
    return held(**requeued | changes)


def ended(status: str, **changes: Any) -> Item:
    """The same item at an end, with the ending that goes with it."""
    endings = {"finished": "finished", "failed": "failed", "dead": "lost"}
    end: dict[str, Any] = {
        "status": status,
        "ending": endings.get(status, "open"),
        "finished_at": NOW,
        "result": '{"width": 1}' if status == "finished" else "",
    }
    return waiting_again("open", ready=0, **end | changes)


def claim(holder: int = SOCKET) -> Claim:
    """`box-1` of `box` claims."""
    return Claim(holder, "box", "box-1")


def fail(fence: int | None = 1, *, retryable: bool = True, retry_in: int | None = None) -> Fail:
    """An attempt that failed."""
    return Fail(ERROR, retryable, fence, retry_in=retry_in)


def resume(fence: int = 1, *, user: str = "box", worker: str = "box-1", progress_from: int = 0) -> Resume:
    """`box-1` of `box` is back, on `OTHER`."""
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
