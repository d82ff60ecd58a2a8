"""What a store can do: lock rows, pick claimable rows, insert and save. It knows no rule of the protocol.

A store belongs to one queue. A `Turn` is one transaction of it; its verbs work on whole batches. Errors are those of
`core/errors.py`: `StoreFull` (the turn is rolled back, a later one may succeed) and `StoreLost` (the outcome is
unknown; nothing may be answered, the process ends and recovers). Anything else is a fault of the data in the turn.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from leaseway_server.core.model import Item, Position


class Turn(Protocol):
    """One transaction. Left without `commit`, it is rolled back."""

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist, locked, without `body` and `result`; read before `time`."""
        ...

    async def time(self) -> int:
        """The turn's time, ms since the epoch, read once all rows are locked."""
        ...

    async def pick(self, after: Position, limit: int, skip: Collection[int]) -> list[Item]:
        """The next ready items in the order of claims, with `body`; `skip` are row numbers to leave out.

        They may be fewer than `limit` where their bodies are large; none at all means that there are no more.
        """
        ...

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items whose due time passed, but which are not in the index of the ready ones."""
        ...

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items that are not terminal and whose time to live is over."""
        ...

    async def read_bodies(self, items: Collection[Item]) -> None:
        """Fills in `body`."""
        ...

    async def read_results(self, items: Collection[Item]) -> None:
        """Fills in `result` where there is one."""
        ...

    async def new_ids(self, count: int) -> list[tuple[int, str]]:
        """Row numbers and ids for new items, in rising order, never used before."""
        ...

    async def insert(self, items: Sequence[Item]) -> None:
        """New items, with `body`; and `result` where they ended at once."""
        ...

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """Changed items as (before, after); a `result` that is new in `after` is stored."""
        ...

    async def stamp(self, told: Collection[tuple[str, int]]) -> None:
        """Notes that a producer was told these ends, (id, rev) each: where the item is still at that `rev`, and where
        it is the first time, `fetched_at` becomes the present."""
        ...

    async def next_due(self) -> int:
        """When the next item that is not ready comes due; 0 where there is none."""
        ...

    async def next_expiry(self) -> int:
        """When the next time to live is over; 0 where there is none."""
        ...

    async def oldest_ready(self) -> int:
        """When the item came due that is ready longest, whatever its priority; 0 where none is ready."""
        ...

    async def commit(self) -> None:
        """Makes it durable. Only after this may anything be answered."""
        ...


class Store(Protocol):
    """The items of one queue."""

    epoch: int
    """Counts the starts; a part of the numbers of sockets, so that those of an earlier start are told apart."""

    def turn(self, *, durable: bool) -> AbstractAsyncContextManager[Turn]:
        """A transaction. Where not `durable`, loss of power may cost it, a killed process may not (§7.1)."""
        ...

    async def pending(self) -> int:
        """How many items are `pending`; counted once at the start."""
        ...

    async def leases(self) -> list[Item]:
        """All items that are `processing`, without `body`; read once at the start."""
        ...

    def check(self) -> None:
        """Raises `StoreLost` where the store is not any more what was opened."""
        ...

    async def maintain(self) -> None:
        """What may be done between turns, such as writing the log back. May raise `StoreFull` or `StoreLost`."""
        ...

    async def close(self) -> None:
        """Lets go of the files."""
        ...
