"""Items and the small values around them. Holds no rule: those are in `lifecycle.py`.

Null is written as 0 (times, numbers) and "" (texts) here and in the stores alike, since binding `None` costs the
sqlite3 module a search of its adapters each time; `view.py` turns both into the wire's null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

Status: TypeAlias = Literal["pending", "processing", "finished", "failed", "dead", "cancelled", "expired"]
Ending: TypeAlias = Literal["", "open", "lost", "parted", "failed", "released", "closed", "finished"]
Position: TypeAlias = tuple[int, int, int]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
OPEN: Final[frozenset[Status]] = frozenset({"pending", "processing"})
TERMINAL: Final[frozenset[Status]] = frozenset({"finished", "failed", "dead", "cancelled", "expired"})

NOBODY: Final = 0
"""`Item.holder` of an item that nobody holds."""
HTTP: Final = 1
"""`Item.holder` of a lease taken over HTTP: any request of `lease_user` with its number holds it."""

START: Final[Position] = (-(2**31), 0, 0)
"""Before the first of all items in the order of claims."""


@dataclass(slots=True)
class Item:
    """One item, as a row. Treated as a value: a change makes a `copy`. All times are ms since the epoch."""

    id: str
    seq: int
    status: Status
    ready: int
    """1 while it stands in the store's index of the ready ones: pending, and `due_at` was seen to have passed."""
    rank: int
    """Minus the priority, so that the order of claims is ascending."""
    due_at: int
    posted_by: str
    posted_at: int
    updated_at: int
    started_at: int
    finished_at: int
    fetched_at: int
    expires_at: int
    lease_until: int
    progress_at: int
    """Where the clock of `progress_by` began."""
    attempts: int
    """The number of claims, which is also the fence (PROTOCOL.md §1)."""
    attempts_base: int
    """`attempts` at the post or the last administrator's retry: churn is counted from there."""
    failures: int
    losses: int
    max_attempts: int
    rev: int
    ending: Ending
    holder: int
    lease_user: str
    worker: str
    meta: str
    progress: str
    error: str
    key: str
    held: int
    """1 while its `key` is held: so long it is not pruned."""
    body: str = ""
    """The item as posted, JSON; only where it was asked of the store."""
    result: str = ""
    """The result, JSON; only where it was asked of the store, or just accepted."""
    match: tuple[str, ...] = ()
    """The members that the queue's `match` names, as texts (core/match.py); only of an item that is new."""

    @property
    def position(self) -> Position:
        """The place in the order of claims: priority, then due time, then time of posting (PROTOCOL.md §1)."""
        return (self.rank, self.due_at, self.seq)

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""
        return self.status in TERMINAL

    def claimable(self, now: int) -> bool:
        """Whether a claim may take it at `now`. One that was seen to be due stays so, though a clock went back."""
        due = self.ready or self.due_at <= now
        return self.status == "pending" and bool(due) and (self.expires_at == 0 or self.expires_at > now)

    def copy(self) -> "Item":
        """A copy, written out by hand: `dataclasses.replace` costs eight times as much."""
        new = object.__new__(Item)
        new.id = self.id
        new.seq = self.seq
        new.status = self.status
        new.ready = self.ready
        new.rank = self.rank
        new.due_at = self.due_at
        new.posted_by = self.posted_by
        new.posted_at = self.posted_at
        new.updated_at = self.updated_at
        new.started_at = self.started_at
        new.finished_at = self.finished_at
        new.fetched_at = self.fetched_at
        new.expires_at = self.expires_at
        new.lease_until = self.lease_until
        new.progress_at = self.progress_at
        new.attempts = self.attempts
        new.attempts_base = self.attempts_base
        new.failures = self.failures
        new.losses = self.losses
        new.max_attempts = self.max_attempts
        new.rev = self.rev
        new.ending = self.ending
        new.holder = self.holder
        new.lease_user = self.lease_user
        new.worker = self.worker
        new.meta = self.meta
        new.progress = self.progress
        new.error = self.error
        new.key = self.key
        new.held = self.held
        new.body = self.body
        new.result = self.result
        new.match = self.match
        return new


class Candidate(NamedTuple):
    """A ready item as a search looks at it: no more than decides whether a claim takes it.

    Most that are looked at are not taken, and an `Item` costs several times as much, its id most of all.
    """

    rank: int
    due_at: int
    seq: int
    expires_at: int
    body: str

    @property
    def position(self) -> Position:
        """As of an item; candidates are ordered by it."""
        return self[:3]

    def claimable(self, now: int) -> bool:
        """As of an item: what is ready is pending, and its due time was seen to have passed."""
        return self.expires_at == 0 or self.expires_at > now


Changes: TypeAlias = Sequence[tuple[Item | None, Item]]
"""What was changed, as (before, after); before is None for a new item."""


@dataclass(frozen=True, slots=True)
class NewItem:
    """What a post asks for. 0, "" and None are what was not asked for."""

    body: str
    posted_by: str = ""
    priority: int = 0
    delay_ms: int = 0
    due_at: int = 0
    ttl_ms: int | None = None
    max_attempts: int = 0
    meta: str = ""
    key: str = ""
    match: tuple[str, ...] = ()
