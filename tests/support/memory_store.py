"""A store that is a dictionary: the simplest thing that keeps `store/base.py`'s promises, to hold the SQL against.

No SQL, no columns, no indexes may live here: whole items are kept, and every question is a look through all of them.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.jsontext import parse
from leaseway_server.core.keys import Key
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.match import Match, Narrowing, texts_of
from leaseway_server.core.model import Candidate, Item, Position, Status
from leaseway_server.core.retention import Outstayed


@dataclass(slots=True)
class Disk:
    """What outlives a store that is gone."""

    rows: dict[int, Item] = field(default_factory=dict)
    next_seq: int = 1
    epoch: int = 0
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    counts: Counter[Status] = field(default_factory=Counter)
    paused: bool = False
    match: Match = ()


class MemoryStore:
    """The items of one queue, on a `Disk`."""

    def __init__(self, disk: Disk, clock: Callable[[], int], id_of: Callable[[int], str] = "{:016x}".format) -> None:
        disk.epoch += 1
        self.disk = disk
        self.epoch = disk.epoch
        self.made = disk.epoch == 1
        self.clock = clock
        self.id_of = id_of

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator["MemoryTurn"]:
        """A transaction; what was not committed is forgotten."""
        del durable  # There is no power to lose.
        yield MemoryTurn(self)

    async def committed(self) -> bool:
        """No commit is in doubt."""
        return False

    async def counts(self) -> dict[Status, int]:
        """How many items there are of each status, as it was told."""
        return dict(self.disk.counts)

    async def paused(self) -> bool:
        """Whether the queue is paused."""
        return self.disk.paused

    async def leases(self) -> list[Item]:
        """All items that are `processing`."""
        return [_bare(item) for item in self.disk.rows.values() if item.status == "processing"]

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """The next items that are wanted; all others were looked at too."""
        given = {self.id_of(seq): seq for seq in range(1, self.disk.next_seq)} | {"": self.disk.next_seq}
        if cursor not in given:
            return None
        newest = sorted(self.disk.rows.values(), key=lambda item: -item.seq)
        left = [item for item in newest if item.seq < given[cursor] and wanted.admits(item, now)]
        items = [_bare(item) for item in left[:limit]]
        for item in items:
            item.result = self.disk.rows[item.seq].result if results else ""
        return Page(items, items[-1].id if len(items) == limit else "")

    async def ahead(self, position: Position, most: int) -> int:
        """All that stand before a position."""
        return sum(item.ready and item.position < position for item in self.disk.rows.values())

    async def matched(self) -> Match:
        """What the items' texts are of."""
        return self.disk.match

    async def rematch(self, match: Match) -> int:
        """All items get their texts anew."""
        self.disk.match = match
        items = [item for item in self.disk.rows.values() if item.status != "finished"]
        for item in items:
            item.match = texts_of(parse(item.body), match)
        return len(items)

    def check(self) -> None:
        """It is where it was."""

    async def maintain(self) -> None:
        """There is nothing to write back."""

    async def close(self) -> None:
        """There are no files."""


class MemoryTurn:
    """One transaction: `rows` and `gone` are what it wrote and has not committed."""

    def __init__(self, store: MemoryStore) -> None:
        self.missed: list[str] = []
        self.paused: bool | None = None
        self._disk = store.disk
        self._clock = store.clock
        self._id_of = store.id_of
        self._rows: dict[int, Item] = {}
        self._attempts: dict[tuple[int, int], Attempt | None] = {}
        self._counts: Counter[Status] = Counter()
        self._paused = store.disk.paused
        self._gone: set[int] = set()

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        return {item.id: _bare(item) for item in self._all() if item.id in set(ids)}

    async def load_free(self, ids: Collection[str]) -> tuple[dict[str, Item], list[str]]:
        """The items that exist."""
        return await self.load(ids), []

    async def look(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        return await self.load(ids)

    async def time(self) -> int:
        """The clock's time."""
        return self._clock()

    async def pick(
        self,
        after: Position,
        limit: int,
        skip: Collection[int],
        narrowing: Narrowing | None = None,
        *,
        taking: bool = False,
    ) -> list[Candidate]:
        """The next ready items."""
        del taking  # There is nobody else.
        ready = [item for item in self._all() if item.ready and item.position > after and item.seq not in skip]
        if narrowing:
            column = slice(narrowing.column - 1, narrowing.column)
            ready = [item for item in ready if set(item.match[column]) & set(narrowing.texts)]
        ready.sort(key=lambda item: item.position)
        return [Candidate(*item.position, item.expires_at, self._row(item.seq).body) for item in ready[:limit]]

    async def left_to_others(self, skip: Collection[int], now: int) -> list[str]:
        """There are no others."""
        return []

    async def take(self, candidates: Collection[Candidate]) -> dict[int, Item]:
        """The items, with `body`."""
        taken = {candidate.seq: _bare(self._row(candidate.seq)) for candidate in candidates}
        await self.read_bodies(taken.values())
        return taken

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        rows = [item for item in self._later() if item.due_at <= now]
        return [_bare(item) for item in sorted(rows, key=lambda item: (item.due_at, item.seq))[:limit]]

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        rows = [item for item in self._mortal() if item.expires_at <= now]
        return [_bare(item) for item in sorted(rows, key=lambda item: (item.expires_at, item.seq))[:limit]]

    async def mine(self, poster: str, before: int, limit: int) -> list[Item]:
        """What a poster has, and was not told the end of."""
        return [_bare(item) for item in self._falling(before) if (item.posted_by, item.fetched_at) == (poster, 0)][
            :limit
        ]

    async def newest(self, before: int, limit: int) -> list[Item]:
        """The newest items."""
        return [_bare(item) for item in self._falling(before)[:limit]]

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
            row.body, row.match = self._row(row.seq).body, self._row(row.seq).match
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

    async def outstayed(self, which: Outstayed, limit: int) -> list[Item]:
        """Ended items whose time is over."""
        rows = [item for item in self._all() if item.terminal and not item.held and _may_go(item, which)]
        rows.sort(key=lambda item: (item.fetched_at if which.fetched else 0, item.finished_at, item.seq))
        return [_bare(item) for item in rows[:limit]]

    async def save_attempts(self, attempts: Mapping[tuple[int, int], Attempt | None]) -> None:
        """Attempts that ended, or proved not to have."""
        self._attempts.update(attempts)

    async def read_attempts(self, items: Collection[Item]) -> dict[str, list[Attempt]]:
        """The attempts of each item."""
        rows = sorted({**self._disk.attempts, **self._attempts}.items())
        return {item.id: [attempt for (seq, _), attempt in rows if seq == item.seq and attempt] for item in items}

    async def count(self, more: Mapping[Status, int]) -> None:
        """There are so many more of each status."""
        self._counts.update(more)

    async def pause(self, on: bool) -> None:
        """The queue is paused, or is not."""
        self._paused = on

    async def delete(self, items: Collection[Item]) -> None:
        """Nothing is left of them."""
        self._gone |= {item.seq for item in items}

    async def body_sizes(self, items: Collection[Item]) -> dict[str, int]:
        """How large the bodies are."""
        return {item.id: len(self._row(item.seq).body.encode()) for item in items}

    async def lock_keys(self, keys: Collection[str]) -> None:
        """There is no other server."""

    async def key_holders(self, keys: Collection[Key]) -> list[Item]:
        """Who holds these keys."""
        return [_bare(item) for item in self._holding() if (item.posted_by, item.key) in keys]

    async def shared_key_holders(self, keys: Collection[str], posted_after: int) -> list[Item]:
        """Who else holds these keys."""
        live = [item for item in self._holding() if not item.terminal or item.posted_at > posted_after]
        return [_bare(item) for item in {item.key: item for item in live if item.key in keys}.values()]

    async def past_keys(self, posted_until: int, limit: int) -> list[Item]:
        """Items whose key's time is over."""
        past = [item for item in self._holding() if item.terminal and item.posted_at <= posted_until]
        return [_bare(item) for item in sorted(past, key=lambda item: (item.posted_at, item.seq))[:limit]]

    async def oldest_passing_key(self) -> int:
        """When the item was posted whose key passes next."""
        return min((item.posted_at for item in self._holding() if item.terminal), default=0)

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
        disk = self._disk
        disk.rows = {item.seq: item for item in self._all()}
        attempts = disk.attempts | self._attempts
        disk.attempts = {key: one for key, one in attempts.items() if one and key[0] not in self._gone}
        disk.counts.update(self._counts)
        disk.paused = self._paused
        self._rows.clear()

    def _row(self, seq: int) -> Item:
        return self._rows.get(seq) or self._disk.rows[seq]

    def _all(self) -> Iterable[Item]:
        rows = {**self._disk.rows, **self._rows}
        return [item for seq, item in rows.items() if seq not in self._gone]

    def _holding(self) -> list[Item]:
        return [item for item in self._all() if item.held]

    def _falling(self, before: int) -> list[Item]:
        return sorted((item for item in self._all() if item.seq < before), key=lambda item: -item.seq)

    def _later(self) -> list[Item]:
        return [item for item in self._all() if item.status == "pending" and not item.ready]

    def _mortal(self) -> list[Item]:
        return [item for item in self._all() if item.expires_at and not item.terminal]


def _may_go(item: Item, which: Outstayed) -> bool:
    if which.fetched:
        return item.status == which.status and 0 < item.fetched_at <= which.until
    kept_for_longer = item.status == "finished" and item.fetched_at
    return item.status == which.status and not kept_for_longer and item.finished_at <= which.until


def _bare(item: Item) -> Item:
    copy = item.copy()
    copy.body = copy.result = ""
    copy.match = ()
    return copy
