"""A lease, and what can happen to one: the words between the conversation with the server and the handlers.

Data only. Who decides that it happens is `worker_state.py`; who acts on it is `worker.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from leaseway.errors import LeaseLost, Rejected
from leaseway.protocol import Message


@dataclass(eq=False, slots=True)
class Lease:
    """An item that is ours. `attempts` is the fence; two leases of one item are two objects."""

    id: str
    attempts: int
    item: Any
    progress: Any
    meta: Any
    #: How long the server gives it from each renewal, seconds.
    seconds: float
    #: When it ends unless it is renewed, on the monotonic clock; never later than the server sees it.
    until: float
    renew_at: float
    #: Its handler has ended and its last report is under way.
    settled: bool = False

    @classmethod
    def of(cls, message: Message, now: float) -> Lease:
        """The lease that an `item` message of the server gave (PROTOCOL.md §4), not renewed yet."""
        seconds = message["leaseMs"] / 1000
        progress, meta = message.get("progress"), message.get("meta")
        item_id, attempts, item = message["id"], message["attempts"], message["item"]
        return cls(item_id, attempts, item, progress, meta, seconds, until=now + seconds, renew_at=math.inf)

    def __str__(self) -> str:
        """As logs name it."""
        return f"{self.id}/{self.attempts}"


@dataclass(frozen=True, slots=True)
class Start:
    """A lease came: start the handler, and call `settle` when it has ended."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Stop:
    """The lease is gone: stop the handler, its outcome is of no use."""

    lease: Lease
    reason: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The server confirmed the lease: `until` has moved."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Answered:
    """A progress record was stored (`error` is None) or will never be."""

    ref: int
    error: Rejected | LeaseLost | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the server took the last report of an attempt."""

    #: The report that it answered: a `result` that was refused is a `fail` here.
    verb: str
    #: The item's status since then; None where the server did not tell.
    status: str | None
    #: Why the report does not count; empty where it does.
    reason: str
    #: What a `fail` said.
    error: str


@dataclass(frozen=True, slots=True)
class Settled:
    """After `settle`: the last report of the lease was answered; `ending` is None where there was none to make."""

    lease: Lease
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """No item is claimable now and no handler runs; told where the worker asked for it."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """After a drain: nothing runs, no item is on its way, and every last report was answered."""


Event = Start | Stop | Renewed | Answered | Settled | Drained | Quiet
