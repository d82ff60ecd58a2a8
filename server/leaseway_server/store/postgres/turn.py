"""One transaction of the PostgreSQL store: the verbs of `base.Turn`, as statements of `queries.sql`.

Each verb is one statement, however many items it is about; no more may travel in it than a turn is meant to hold.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import ne, or_
from typing import Any, Final, TypeAlias

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.errors import StoreAway, StoreGone
from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.keys import Key
from leaseway_server.core.match import Narrowing
from leaseway_server.core.model import START, STATUSES, Candidate, Item, Position, Status
from leaseway_server.core.retention import Outstayed
from leaseway_server.store import bounds
from leaseway_server.store.columns import COLUMNS, attempt_values_of, item_of, values_of
from leaseway_server.store.postgres.database import Connection
from leaseway_server.store.postgres.faults import in_step, postgres_errors
from leaseway_server.store.postgres.locks import KeyLocks
from leaseway_server.store.postgres.numbers import Numbers
from leaseway_server.store.postgres.statements import SQL, insert, pick_match, update

Row: TypeAlias = Any
"""A record of the driver; the statement says what is in it."""

_APART: Final = tuple(COLUMNS.index(name) for name in ("fetched_at", "meta", "progress", "error"))
"""What is written where it differs, and else not: `stamp` has written the one meanwhile, the others may be large."""
_CANDIDATE: Final = len(Candidate._fields)


@dataclass(slots=True)
class Numbering:
    """How this server's turns of one queue are numbered. `turn` is the last one that was committed."""

    server: int
    turn: int = 0
    announce: bool = False
    """Whether turns say what they changed: there are other servers."""


@dataclass(slots=True)
class _Written:
    """What a turn wrote so far; `rows`, `ready` and `ended` (with the posters) as `change` has them."""

    anything: bool = False
    shown: bool = False
    """Whether anything of it shows in a view."""
    rows: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    ended: dict[int, str] = field(default_factory=dict)
    more: Counter[Status] = field(default_factory=Counter)


class PostgresTurn:
    """One transaction; see `base.Turn`. `time_of` may make another time of the database's (ms since the epoch)."""

    def __init__(
        self,
        connection: Connection,
        queue: int,
        ids: IdPermutation,
        numbers: Numbers,
        numbering: Numbering,
        time_of: Callable[[int], int],
        *,
        durable: bool,
    ) -> None:
        self.missed: list[str] = []
        self.paused = False
        """Whether the queue is paused, on whichever server that was said; as of `time`."""
        self._connection = connection
        self._fetch = connection.fetch
        self._execute = connection.execute
        self._queue = queue
        self._ids = ids
        self._numbers = numbers
        self._numbering = numbering
        self._time_of = time_of
        self._durable = durable
        self._loaded: dict[str, Item] = {}
        self._told: list[tuple[str, int]] = []
        self._picked: dict[int, Row] = {}
        self._written = _Written()
        self._key_locks = KeyLocks(connection, queue)

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        seqs = sorted(seq for seq in map(self._ids.seq_of, ids) if seq is not None)
        self._loaded = {item.id: item for item in await self._items("load", seqs)} if seqs else {}
        return dict(self._loaded)

    async def load_free(self, ids: Collection[str]) -> tuple[dict[str, Item], list[str]]:
        """The items that nobody else has locked, and which were passed by."""
        seqs = sorted(seq for seq in map(self._ids.seq_of, ids) if seq is not None)
        free = {item.id: item for item in await self._items("load_free", seqs)} if seqs else {}
        self._loaded |= free
        others = await self.look(set(ids) - free.keys()) if len(free) < len(ids) else {}
        return free, list(others)

    async def look(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist, as they are for others."""
        seqs = [seq for seq in map(self._ids.seq_of, ids) if seq is not None]
        return {item.id: item for item in await self._items("look", seqs)} if seqs else {}

    async def time(self) -> int:
        """The database's time, by its clock. Raises `StoreGone` where the queue is here no more."""
        [(now, self.paused, moved)] = await self._fetch(SQL["time"], self._queue)
        if moved:  # While this server stood still for so long that nobody took it for alive.
            raise StoreGone("the queue was moved to another store while this server served it")
        now = self._time_of(now)
        if self._told:
            await self._stamp(now)
        return now

    async def pick(
        self,
        after: Position,
        limit: int,
        skip: Collection[int],
        narrowing: Narrowing | None = None,
        *,
        taking: bool = False,
    ) -> list[Candidate]:
        """The next ready items; where they are for `taking`, they are locked at once."""
        arguments = (self._queue, *after, list(skip), limit, bounds.PICK_CHARACTERS)
        if narrowing:
            rows = await self._fetch(pick_match(narrowing.column), *arguments, narrowing.texts)
        elif taking:
            rows = await self._fetch(SQL["pick_to_take"], *arguments)
            self._picked.update((row["seq"], row) for row in rows)
        else:
            rows = await self._fetch(SQL["pick_to_look"], *arguments)
        return [Candidate(*row[:_CANDIDATE]) for row in rows]

    async def left_to_others(self, skip: Collection[int], now: int) -> list[str]:
        """Some of them; nothing is looked for where there is nobody else."""
        found = await self.pick(START, bounds.LEFT_TO_OTHERS, skip) if self._numbering.announce else ()
        return [self._ids.id_of(each.seq) for each in found if each.claimable(now)]

    async def take(self, candidates: Collection[Candidate]) -> dict[int, Item]:
        """The items, with `body`, but for those that are another server's by now."""
        bodies = {candidate.seq: candidate.body for candidate in candidates}
        items = [item_of(self._ids, row[_CANDIDATE:]) for seq in bodies if (row := self._picked.get(seq))]
        if others := sorted(seq for seq in bodies if seq not in self._picked):
            items += [item for item in await self._items("load_free", others) if item.ready]
        for item in items:
            item.body = bodies[item.seq]
        taken = {item.seq: item for item in items}
        self.missed += [self._ids.id_of(seq) for seq in bodies if seq not in taken]
        return taken

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        return await self._items("come_due", now, limit)

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        return await self._items("outlived", now, limit)

    async def mine(self, poster: str, before: int, limit: int) -> list[Item]:
        """What a poster has, and was not told the end of."""
        return await self._items("mine", poster, before, limit)

    async def newest(self, before: int, limit: int) -> list[Item]:
        """The newest items."""
        return await self._items("newest", before, limit)

    async def read_bodies(self, items: Collection[Item]) -> None:
        """Fills in `body`."""
        texts = await self._by_seq("bodies", items)
        for item in items:
            item.body = texts[item.seq]

    async def read_results(self, items: Collection[Item]) -> None:
        """Fills in `result`."""
        texts = await self._by_seq("results", items)
        for item in items:
            item.result = texts.get(item.seq, "")

    async def new_ids(self, count: int) -> list[tuple[int, str]]:
        """Numbers and ids for new items."""
        return [(seq, self._ids.id_of(seq)) for seq in await self._numbers.take(self._connection, count)]

    async def insert(self, items: Sequence[Item]) -> None:
        """New items."""
        for indexed in {len(item.match) for item in items}:
            alike = [item for item in items if len(item.match) == indexed]
            columns = list(zip(*map(values_of, alike), strict=True))
            used = [any(column) for column in columns]  # A new item has null in most.
            texts = zip(*((*item.match, item.body) for item in alike), strict=True)
            statement = insert(tuple(compress(COLUMNS, used)), indexed)
            await self._write(statement, *compress(columns, used), *texts)
        await self._save_results([item for item in items if item.status == "finished"])
        self._changed(items)
        self._became_ready(items)
        self._ended(items)

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """Changed items, in one statement: what is as it was costs no index anything."""
        groups: dict[tuple[bool, ...], tuple[list[bool], list[Sequence[object]]]] = {}
        for before, after in changes:
            self._written.shown |= before.rev != after.rev
            values = values_of(after)
            differs = list(map(ne, values_of(before), values))
            if any(differs):
                columns, rows = groups.setdefault(tuple(differs[place] for place in _APART), (differs, []))
                columns[:] = map(or_, columns, differs)
                rows.append(values)
        for columns, rows in groups.values():
            values_by_column = compress(zip(*rows, strict=True), columns)
            seqs = [row[0] for row in rows]
            await self._write(update(tuple(compress(COLUMNS, columns))), seqs, *values_by_column)
        await self._save_results([after for before, after in changes if after.status == "finished" != before.status])
        self._changed(after for _, after in changes)
        self._became_ready(after for before, after in changes if not before.ready)
        self._ended(after for before, after in changes if before.rev != after.rev)

    async def stamp(self, told: Collection[tuple[str, int]]) -> None:
        """Notes the first delivery of ends, with `time`: once the rows are locked that are waited for."""
        self._told += told

    async def _stamp(self, now: int) -> None:
        seqs = [self._ids.seq_of(item_id) for item_id, _ in self._told]
        revs = [rev for _, rev in self._told]
        self._told.clear()
        for (seq,) in await self._write(SQL["stamp"], seqs, revs, now):
            if item := self._loaded.get(self._ids.id_of(seq)):
                item.fetched_at = now

    async def outstayed(self, which: Outstayed, limit: int) -> list[Item]:
        """Ended items whose time is over."""
        query = "outstayed_fetched" if which.fetched else "outstayed"
        return await self._items(query, which.status, which.until, limit, bounds.REMOVE_CHARACTERS)

    async def save_attempts(self, attempts: Mapping[tuple[int, int], Attempt | None]) -> None:
        """Attempts that ended, or proved not to have."""
        if gone := [key for key, attempt in attempts.items() if attempt is None]:
            await self._write(SQL["forget_attempts"], *zip(*gone, strict=True))
        if rows := [(seq, *attempt_values_of(attempt)) for (seq, _), attempt in attempts.items() if attempt]:
            await self._write(SQL["save_attempts"], *zip(*rows, strict=True))

    async def read_attempts(self, items: Collection[Item]) -> dict[str, list[Attempt]]:
        """The newest attempts of each item."""
        found: dict[str, list[Attempt]] = {item.id: [] for item in items}
        seqs = [item.seq for item in items]
        for seq, *row in await self._fetch(
            SQL["attempts"], self._queue, seqs, bounds.ATTEMPT_BESIDE, bounds.ATTEMPT_CHARACTERS
        ):
            found[self._ids.id_of(seq)].append(Attempt(*row))
        return found

    async def count(self, more: Mapping[Status, int]) -> None:
        """There are so many more of each status; written with the number of the turn."""
        self._written.more.update(more)
        self._written.anything = True

    async def pause(self, on: bool) -> None:
        """The queue is paused, or is not."""
        await self._write(SQL["pause"], on)

    async def delete(self, items: Collection[Item]) -> None:
        """Nothing is left of them."""
        await self._write(SQL["delete"], [item.seq for item in items])
        self._changed(items)
        loaded = self._loaded
        self._ended(item for item in items if item.id in loaded and loaded[item.id].rev != item.rev)

    async def body_sizes(self, items: Collection[Item]) -> dict[str, int]:
        """How large the bodies are."""
        sizes = await self._by_seq("body_sizes", items)
        return {item.id: sizes[item.seq] for item in items}

    async def lock_keys(self, keys: Collection[str]) -> None:
        """See `KeyLocks`."""
        await self._key_locks.take(keys)

    async def key_holders(self, keys: Collection[Key]) -> list[Item]:
        """Who holds these keys, which are locked if they were not yet."""
        if not keys:
            return []
        await self.lock_keys({key for _, key in keys})
        return await self._holders("key_holders", *map(list, zip(*keys, strict=True)))

    async def shared_key_holders(self, keys: Collection[str], posted_after: int) -> list[Item]:
        """Who else holds these keys."""
        return await self._holders("shared_key_holders", list(keys), posted_after)

    async def _holders(self, query: str, *arguments: object) -> list[Item]:
        seqs = sorted(seq for (seq,) in await self._fetch(SQL[query], self._queue, *arguments))
        return await self._items("load", seqs) if seqs else []

    async def past_keys(self, posted_until: int, limit: int) -> list[Item]:
        """Items whose key's time is over."""
        return await self._items("past_keys", posted_until, limit)

    async def oldest_passing_key(self) -> int:
        """When the item was posted whose key passes next."""
        return await self._time("oldest_passing_key")

    async def next_due(self) -> int:
        """When the next item comes due."""
        return await self._time("next_due")

    async def next_expiry(self) -> int:
        """When the next life is over."""
        return await self._time("next_expiry")

    async def oldest_ready(self) -> int:
        """When the item came due that is ready longest."""
        return await self._time("oldest_ready")

    async def commit(self) -> None:
        """Makes it durable. Raises `StoreAway` that says whether it is unknown what became of it.

        What a view shows is durable in any case: servers and clients live on when a database crashes, and what they saw
        of an item must not come again as something else.
        """
        written = self._written
        light = not (self._durable or written.shown)
        if written.anything:
            await self._number(written)
        try:
            with postgres_errors(), in_step(self._connection):
                ended = await self._execute(SQL["commit_light" if light else "commit"])
        except StoreAway as away:
            away.unknown = written.anything
            raise
        assert ended == "COMMIT", "the transaction had failed, and nobody said so"
        self._numbering.turn += written.anything

    async def _number(self, written: _Written) -> None:
        numbering = self._numbering
        more = [written.more[status] for status in STATUSES]
        said = (written.rows, written.ready, list(written.ended), list(written.ended.values()), numbering.announce)
        await self._fetch(SQL["number_turn"], self._queue, numbering.server, numbering.turn + 1, *more, *said)

    async def _items(self, query: str, *arguments: object) -> list[Item]:
        return [item_of(self._ids, row) for row in await self._fetch(SQL[query], self._queue, *arguments)]

    async def _by_seq(self, query: str, items: Collection[Item]) -> dict[int, Any]:
        rows = await self._fetch(SQL[query], self._queue, [item.seq for item in items]) if items else ()
        return {seq: value for seq, value in rows}  # noqa: C416  Records are no pairs to `dict`.

    async def _time(self, query: str) -> int:
        [(at,)] = await self._fetch(SQL[query], self._queue)
        return at or 0

    async def _write(self, statement: str, *arguments: object) -> list[Row]:
        self._written.anything = True
        return await self._fetch(statement, self._queue, *arguments)

    async def _save_results(self, items: Sequence[Item]) -> None:
        if items:
            seqs, results = [item.seq for item in items], [item.result for item in items]
            await self._write(SQL["insert_results"], seqs, results)

    def _changed(self, items: Iterable[Item]) -> None:
        self._written.rows.extend(item.seq for item in items)

    def _became_ready(self, items: Iterable[Item]) -> None:
        self._written.ready.extend(item.seq for item in items if item.ready)

    def _ended(self, items: Iterable[Item]) -> None:
        self._written.ended.update((item.seq, item.posted_by) for item in items if item.terminal)
