"""A store that is a dictionary: the simplest thing that keeps `store/base.py`'s promises, to hold the SQL against.

No SQL, no columns, no indexes may live here: whole items are kept, and every question is a look through all of them.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from leaseway_server.core.model import Item, Position


@dataclass(slots=True)
class Disk:
    """What outlives a store that is gone."""

    rows: dict[int, Item] = field(default_factory=dict)
    next_seq: int = 1
    epoch: int = 0


class MemoryStore:
    """The items of one queue, on a `Disk`."""

    def __init__(self, disk: Disk, clock: Callable[[], int], id_of: Callable[[int], str] = "{:016x}".format) -> None:
        disk.epoch += 1
        self.disk = disk
        self.epoch = disk.epoch
        self.clock = clock
        self.id_of = id_of

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator["MemoryTurn"]:
        """A transaction; what was not committed is forgotten."""
        del durable  # There is no power to lose.
        yield MemoryTurn(self)

    async def pending(self) -> int:
        """How many items wait."""
        return sum(item.status == "pending" for item in self.disk.rows.values())

    async def leases(self) -> list[Item]:
        """All items that are `processing`."""
        return [_bare(item) for item in self.disk.rows.values() if item.status == "processing"]

    def check(self) -> None:
        """It is where it was."""

    async def maintain(self) -> None:
        """There is nothing to write back."""

    async def close(self) -> None:
        """There are no files."""


class MemoryTurn:
    """One transaction: `rows` are what it wrote and has not committed."""

    def __init__(self, store: MemoryStore) -> None:
        self._disk = store.disk
        self._clock = store.clock
        self._id_of = store.id_of
        self._rows: dict[int, Item] = {}

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        return {item.id: _bare(item) for item in self._all() if item.id in set(ids)}

    async def time(self) -> int:
        """The clock's time."""
        return self._clock()

    async def pick(self, after: Position, limit: int, skip: Collection[int]) -> list[Item]:
        """The next ready items, with `body`."""
        ready = [item for item in self._all() if item.ready and item.position > after and item.seq not in skip]
        picked = [_bare(item) for item in sorted(ready, key=lambda item: item.position)[:limit]]
        await self.read_bodies(picked)
        return picked

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        rows = [item for item in self._later() if item.due_at <= now]
        return [_bare(item) for item in sorted(rows, key=lambda item: (item.due_at, item.seq))[:limit]]

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        rows = [item for item in self._mortal() if item.expires_at <= now]
        return [_bare(item) for item in sorted(rows, key=lambda item: (item.expires_at, item.seq))[:limit]]

    async def read_bodies(self, items: Collection[Item]) -> None:
        """Fills in `body`."""
        for item in items:
            item.body = self._row(item.seq).body

    async def read_results(self, items: Collection[Item]) -> None:
        """Fills in `result`."""
        for item in items:
            item.result = self._row(item.seq).result

    async def new_ids(self, count: int) -> list[tuple[int, str]]:
        """Numbers that were never used, also where the transaction is rolled back."""
        first = self._disk.next_seq
        self._disk.next_seq += count
        return [(seq, self._id_of(seq)) for seq in range(first, first + count)]

    async def insert(self, items: Sequence[Item]) -> None:
        """New items."""
        for item in items:
            assert item.seq not in self._disk.rows
            self._rows[item.seq] = item.copy()

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """The whole of each changed item; its body stays, and its result unless it has just ended."""
        for before, after in changes:
            row = after.copy()
            row.body = self._row(row.seq).body
            ended = after.status == "finished" != before.status
            row.result = after.result if ended else self._row(row.seq).result
            self._rows[row.seq] = row

    async def stamp(self, told: Collection[tuple[str, int]]) -> None:
        """Notes the first delivery of ends."""
        for item_id, rev in told:
            for item in self._all():
                if (item.id, item.rev, item.fetched_at) == (item_id, rev, 0):
                    row = self._rows[item.seq] = item.copy()
                    row.fetched_at = self._clock()

    async def next_due(self) -> int:
        """When the next item comes due."""
        return min((item.due_at for item in self._later()), default=0)

    async def next_expiry(self) -> int:
        """When the next life is over."""
        return min((item.expires_at for item in self._mortal()), default=0)

    async def oldest_ready(self) -> int:
        """When the item came due that is ready longest."""
        return min((item.due_at for item in self._all() if item.ready), default=0)

    async def commit(self) -> None:
        """Now it is on the disk."""
        self._disk.rows.update(self._rows)
        self._rows.clear()

    def _row(self, seq: int) -> Item:
        return self._rows.get(seq) or self._disk.rows[seq]

    def _all(self) -> Iterable[Item]:
        return {**self._disk.rows, **self._rows}.values()

    def _later(self) -> list[Item]:
        return [item for item in self._all() if item.status == "pending" and not item.ready]

    def _mortal(self) -> list[Item]:
        return [item for item in self._all() if item.expires_at and not item.terminal]


def _bare(item: Item) -> Item:
    copy = item.copy()
    copy.body = copy.result = ""
    return copy
