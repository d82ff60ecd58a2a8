"""A store that fails where a test says so: at the seam that `store/base.py` is, around any store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreError, StoreFull, StoreLost
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.model import Item, Position, Status
from leaseway_server.store.base import Store, Turn

Fault: TypeAlias = Literal["full", "odd", "busy", "lost before", "lost after", "cut", "cut before", "cut after"]
"""`cut` breaks the connection where it is clear that nothing was kept, the other two at the COMMIT: it is unknown."""

GUILTY: Final = '"guilty"'
"""A turn that inserts an item with this in its body fails, however often it is tried."""


class OddFault(Exception):
    """Something that no store promises to raise."""


@dataclass(slots=True)
class Faults:
    """What is to go wrong. `at_commit` are the faults of the next commits, in order; None is none."""

    at_commit: list[Fault | None] = field(default_factory=list)
    maintain: StoreError | None = None
    away: bool = False
    """The database cannot be reached."""
    kept: bool = False
    """Whether the commit was kept whose connection was cut last."""
    commits: list[bool] = field(default_factory=list)
    """The commits that were kept: whether each was to be durable."""


class FaultyStore:
    """A store, and its faults."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.epoch = store.epoch
        self.made = store.made
        self.matched = store.matched
        self.rematch = store.rematch
        self.store = store
        self.faults = faults

    def _reach(self) -> None:
        if self.faults.away:
            raise StoreAway("away, says the test")

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator[Turn]:
        """A transaction of the store, which fails as told."""
        self._reach()
        async with self.store.turn(durable=durable) as turn:
            yield FaultyTurn(turn, self.faults, durable)

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """As the store has it."""
        self._reach()
        return await self.store.page(wanted, cursor, limit, now, results=results)

    async def ahead(self, position: Position, most: int) -> int:
        """As the store has it."""
        self._reach()
        return await self.store.ahead(position, most)

    async def committed(self) -> bool:
        """What became of the commit whose connection was cut."""
        self._reach()
        return self.faults.kept

    async def counts(self) -> dict[Status, int]:
        """As the store has them."""
        self._reach()
        return await self.store.counts()

    async def paused(self) -> bool:
        """As the store has it."""
        return await self.store.paused()

    async def leases(self) -> list[Item]:
        """As the store has them."""
        self._reach()
        return await self.store.leases()

    def check(self) -> None:
        """As the store is."""
        self._reach()
        self.store.check()

    async def maintain(self) -> None:
        """As the store does it, or the fault."""
        if self.faults.maintain is not None:
            raise self.faults.maintain
        await self.store.maintain()

    async def close(self) -> None:
        """As the store does it."""
        await self.store.close()


class FaultyTurn:
    """A turn of which `insert` and `commit` may fail; all else is the turn's own."""

    def __init__(self, turn: Turn, faults: Faults, durable: bool) -> None:
        self._turn = turn
        self._durable = durable
        self._faults = faults
        self.missed = turn.missed
        self.load = turn.load
        self.load_free = turn.load_free
        self.look = turn.look
        self.time = turn.time
        self.pick = turn.pick
        self.left_to_others = turn.left_to_others
        self.take = turn.take
        self.come_due = turn.come_due
        self.outlived = turn.outlived
        self.mine = turn.mine
        self.newest = turn.newest
        self.read_bodies = turn.read_bodies
        self.read_results = turn.read_results
        self.new_ids = turn.new_ids
        self.save = turn.save
        self.stamp = turn.stamp
        self.outstayed = turn.outstayed
        self.save_attempts = turn.save_attempts
        self.read_attempts = turn.read_attempts
        self.count = turn.count
        self.pause = turn.pause
        self.delete = turn.delete
        self.body_sizes = turn.body_sizes
        self.lock_keys = turn.lock_keys
        self.key_holders = turn.key_holders
        self.shared_key_holders = turn.shared_key_holders
        self.past_keys = turn.past_keys
        self.oldest_passing_key = turn.oldest_passing_key
        self.next_due = turn.next_due
        self.next_expiry = turn.next_expiry
        self.oldest_ready = turn.oldest_ready

    @property
    def paused(self) -> bool | None:
        """As the turn found it."""
        return self._turn.paused

    async def insert(self, items: Sequence[Item]) -> None:
        """New items, unless one of them is guilty."""
        await self._turn.insert(items)
        if any(GUILTY in item.body for item in items):
            raise OddFault("a guilty item")

    async def commit(self) -> None:
        """The commit, or the fault whose turn it is."""
        match self._faults.at_commit.pop(0) if self._faults.at_commit else None:
            case "full":
                raise StoreFull("no space, says the test")
            case "odd":
                raise OddFault("an odd commit")
            case "busy":
                raise StoreBusy("busy, says the test")
            case "cut":
                raise StoreAway("cut, says the test")
            case "cut before":
                self._faults.kept = False
                raise StoreAway("cut before it was written", unknown=True)
            case "cut after":
                await self._turn.commit()
                self._faults.kept = True
                raise StoreAway("cut after it was written", unknown=True)
            case "lost before":
                raise StoreLost("lost before it was written")
            case "lost after":
                await self._turn.commit()
                raise StoreLost("lost after it was written")
        await self._turn.commit()
        self._faults.commits.append(self._durable)
