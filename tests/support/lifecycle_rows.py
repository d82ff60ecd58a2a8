"""PROTOCOL.md §1, row by row, as data: an item, an event, and the members that are others after it.

What is not named stays as it is, but for `rev`, which grows by one wherever a view shows the change.
"""

from typing import Any

from leaseway_server.core.events import (
    Adjust,
    Cancel,
    ClockSet,
    Due,
    Event,
    Expire,
    GraceEnd,
    LeaseEnd,
    Progress,
    Release,
    Renew,
    Result,
    Retry,
    SocketLost,
)
from leaseway_server.core.model import NOBODY, Item
from support.model import (
    DAY,
    ERROR,
    LATER,
    LEASE,
    NOW,
    OTHER,
    SOCKET,
    claim,
    ended,
    fail,
    held,
    pending,
    resume,
    waiting_again,
)

POISON = '{"code":"poison","message":"it was lost with its worker 3 times, which is all that the queue allows"}'
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
            "error": POISON,
            **END,
        },
    ),
    "processing · the lease is over": (
        held(lease_until=LATER),
        LeaseEnd(),
        {"status": "pending", "ready": 1, "losses": 1, "ending": "lost", **GONE},
    ),
    "processing · the clock was set": (
        held(lease_until=LATER + DAY, progress_at=LATER + DAY),
        ClockSet(),
        {"lease_until": LATER + LEASE, "progress_at": LATER},
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
    "dead, its key let go · retry": (
        ended("dead", losses=3, key="k", held=0, attempts=1),
        Retry(),
        {
            "status": "pending",
            "ready": 1,
            "ending": "closed",
            "losses": 0,
            "finished_at": 0,
            "due_at": LATER,
            "attempts_base": 1,
            "held": 1,
            "updated_at": LATER,
        },
    ),
    "pending · another priority": (pending(), Adjust(priority=7), {"rank": -7, "updated_at": LATER}),
    "pending · due later": (
        pending(expires_at=LATER + 2),
        Adjust(due_at=LATER + 1),
        {"due_at": LATER + 1, "ready": 0, "updated_at": LATER},
    ),
    "scheduled · due now": (
        pending(ready=0, due_at=LATER + 9),
        Adjust(priority=-1, due_at=0),
        {"rank": 1, "due_at": LATER, "ready": 1, "updated_at": LATER},
    ),
    "retrying past its end · another priority": (
        pending(ready=0, due_at=LATER + 9, expires_at=LATER + 5),
        Adjust(priority=1),
        {"rank": -1, "updated_at": LATER},
    ),
    "pending, not ready · due": (pending(ready=0, due_at=LATER), Due(), {"ready": 1}),
}
