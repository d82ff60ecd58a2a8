"""What a move asks of either end: a store, its queues, and its tokens. No rule of a move is here.

All verbs raise `StoreRefused`, which names the place and what to do; what was written before stays. Only `look`, `read`
and the like are asked of a queue that the other end may still refuse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.model import Status
from leaseway_server.moving.tables import Key, Row, Table
from leaseway_server.store.moved import Mark

TokenRow = tuple[str, str, str, str | None, str | None, int, int, int]
"""hash, id, user, queues, rights, created_at, expires_at, used_at; the secret is nowhere."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a queue is beside its rows. `numbers`: no row number from this one on was given out."""

    id_key: bytes
    paused: bool
    match: str
    numbers: int


@dataclass(frozen=True, slots=True)
class Look:
    """How a queue was found. `facts` None: it is not there, or never was served."""

    mark: Mark | None
    facts: Facts | None
    holds: bool
    """Whether there is any row."""


def refuse_taken(where: str, look: Look) -> None:
    """Raises `StoreRefused` where a queue is not free to be filled."""
    if look.mark is not None:
        why = look.mark.why or f"was filled from {look.mark.other} at {look.mark.when}"
        raise StoreRefused(f"{where} {why}")
    if look.holds:
        raise StoreRefused(f"{where} has items of its own; move to a place that has none")


class QueueSide(Protocol):
    """One queue at one end. While it is open nobody serves it, as far as its store can tell."""

    name: str
    where: str
    """Which one it is, for people."""

    async def look(self) -> Look:
        """How it is now. Raises where it is served, or not fit to be moved."""
        ...

    async def set_mark(self, before: Mark | None, mark: Mark | None) -> None:
        """Marks it; raises where it is served by now, or bears another mark than `before`: of somebody else's move."""
        ...

    async def counts(self) -> Mapping[Status, int]:
        """How many items there are, as the store has counted them."""
        ...

    async def read(self, table: Table, after: Key) -> list[Row]:
        """The next rows behind a key, in the order of keys, a slice of them; none where there are no more.

        Sockets are those of the start `ADRIFT`.
        """
        ...

    # ── Of where it goes to ──

    async def begin(self, facts: Facts, mark: Mark) -> None:
        """Makes the queue with its mark, and with no row; also where it is there already and has neither. Raises where
        it has by now.

        From now on the store gives out no row number, nor number of a socket, that came with the queue.
        """
        ...

    async def last(self, table: Table) -> Key:
        """The last key that was written; `Table.first` where there is none."""
        ...

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Writes a slice as `read` gives it: all of it, or nothing. It is durable."""
        ...

    async def end(self, counts: Mapping[Status, int], mark: Mark) -> None:
        """All rows are there, and so many items."""
        ...

    async def remove(self) -> None:
        """Nothing is left of the queue; it may be interrupted and called again."""
        ...


class Side(Protocol):
    """A store at one end of a move. What it gives out is closed with it."""

    place: str
    """For people; never a password."""

    async def queues(self) -> list[str]:
        """The names of the queues that are there."""
        ...

    async def queue(self, name: str) -> QueueSide:
        """One of them, or one that `begin` makes; the same as before where it was asked for before."""
        ...

    async def tokens(self) -> list[TokenRow]:
        """The tokens that are there, in the order of their hashes."""
        ...

    async def add_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """All of these, or none."""
        ...

    async def remove_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """These are there no more."""
        ...

    async def mark_tokens(self, mark: Mark | None) -> None:
        """Whether tokens may be made and revoked here."""
        ...
