"""What can happen to an item. Values only: which of them are allowed when, and what they do, is `lifecycle.py`'s.

`holder` is a socket's number, or `HTTP`; a `fence` is the number that came with the item (PROTOCOL.md §1). Durations
are in ms.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker takes the item. `holder` is its socket's number, or HTTP."""

    holder: int
    user: str
    worker: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress record, JSON. Without a `fence` it is stored and renews nothing."""

    value: str
    holder: int
    user: str
    fence: int | None


@dataclass(frozen=True, slots=True)
class Renew:
    """The worker is alive."""

    holder: int
    user: str
    fence: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """The work is done; `value` is JSON."""

    value: str
    fence: int | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt failed. `chance` in [0, 1) spreads the backoff, `retry_in` (ms) asks for a delay of its own."""

    error: str
    retryable: bool
    fence: int | None
    chance: float = 0.5
    retry_in: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The holder gives the item back; `delay` in ms, None leaves it due as it was."""

    holder: int
    user: str
    fence: int | None
    delay: int | None = None


@dataclass(frozen=True, slots=True)
class SocketLost:
    """The holder's socket dropped."""

    holder: int


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The sweep found the lease, or `progress_by`, over. `progress_from` as in `Resume`."""

    progress_from: int = 0


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The store's clock was set: what is left of the lease is not known any more, and it counts anew."""


@dataclass(frozen=True, slots=True)
class GraceEnd:
    """The sweep found a lease of `holder`, a socket from before the start, that nobody resumed in `resume_grace`.

    That is over at `until`, ms since the epoch.
    """

    holder: int
    until: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """A worker is back on a new socket. `progress_from`: no clock of `progress_by` began earlier (end of the grace)."""

    holder: int
    user: str
    worker: str
    fence: int
    progress_from: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its producer or an administrator withdraws it."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The sweep found its time to live over."""


@dataclass(frozen=True, slots=True)
class Retry:
    """An administrator gives it a new chance."""


@dataclass(frozen=True, slots=True)
class Adjust:
    """An administrator gives it another priority, another due time (ms since the epoch), or both; None is as it was."""

    priority: int | None = None
    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """Its due time was seen to have passed."""


Event: TypeAlias = (
    Claim
    | Progress
    | Renew
    | Result
    | Fail
    | Release
    | SocketLost
    | LeaseEnd
    | ClockSet
    | GraceEnd
    | Resume
    | Cancel
    | Expire
    | Retry
    | Adjust
    | Due
)
