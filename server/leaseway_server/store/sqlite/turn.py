"""One transaction of the SQLite store: the verbs of `base.Turn`, as statements of `queries.sql`."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, ne
from typing import Final

import orjson

from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.model import START, Item, Position
from leaseway_server.store.queries import load_queries
from leaseway_server.store.sqlite.files import PACKAGE

COLUMNS: Final = (
    "seq",
    "status",
    "ready",
    "rank",
    "due_at",
    "posted_by",
    "posted_at",
    "updated_at",
    "started_at",
    "finished_at",
    "fetched_at",
    "expires_at",
    "lease_until",
    "progress_at",
    "attempts",
    "attempts_base",
    "failures",
    "losses",
    "max_attempts",
    "rev",
    "ending",
    "holder",
    "lease_user",
    "worker",
    "meta",
    "progress",
    "error",
    "key",
    "held",
)
PICK_CHARACTERS: Final = 4 * 1024 * 1024
"""A pick ends with the body that makes it so long: a slice of large items must not hold up anybody."""

_values = attrgetter(*COLUMNS)


def _queries() -> dict[str, str]:
    columns = ", ".join(COLUMNS)
    marks = ", ".join("?" * len(COLUMNS))
    return {
        name: text.replace("{columns}", columns).replace("{marks}", marks)
        for name, text in load_queries(PACKAGE, "queries.sql").items()
    }


SQL: Final = _queries()


def item_of(ids: IdPermutation, row: Sequence[object]) -> Item:
    """A row of `COLUMNS` (and perhaps `body`) as an item."""
    return Item(ids.id_of(row[0]), *row)  # type: ignore[arg-type]


class SqliteTurn:
    """One transaction; see `base.Turn`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        ids: IdPermutation,
        clock: Callable[[], int],
        reserve: Callable[[int], range],
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._ids = ids
        self._clock = clock
        self._reserve = reserve
        self._commit = commit

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        seqs = {seq for seq in map(self._ids.seq_of, ids) if seq is not None}
        rows = self._execute(SQL["load"], (_numbers(seqs),)) if seqs else ()
        return {item.id: item for item in map(self._item, rows)}

    async def time(self) -> int:
        """The clock's time: nobody else writes here."""
        return self._clock()

    async def pick(self, after: Position, limit: int, skip: Collection[int]) -> list[Item]:
        """The next ready items, with `body`."""
        picked: list[Item] = []
        size = 0
        for item in self._behind(after, limit + len(skip)):
            if item.seq not in skip:
                picked.append(item)
                size += len(item.body)
                if len(picked) == limit or size > PICK_CHARACTERS:
                    break
        return picked

    def _behind(self, after: Position, limit: int) -> Iterator[Item]:
        """The ready items behind a position, at most `limit` of each kind."""
        rank, due_at, _ = after
        if after != START:
            yield from map(self._item, self._execute(SQL["pick_same_moment"], (*after, limit)))
            yield from map(self._item, self._execute(SQL["pick_same_rank"], (rank, due_at, limit)))
        yield from map(self._item, self._execute(SQL["pick_lower_rank"], (rank, limit)))

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        return [self._item(row) for row in self._execute(SQL["come_due"], (now, limit))]

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        return [self._item(row) for row in self._execute(SQL["outlived"], (now, limit))]

    async def read_bodies(self, items: Collection[Item]) -> None:
        """Fills in `body`."""
        texts = self._texts("bodies", items)
        for item in items:
            item.body = texts[item.seq]

    async def read_results(self, items: Collection[Item]) -> None:
        """Fills in `result`."""
        texts = self._texts("results", items)
        for item in items:
            item.result = texts.get(item.seq, "")

    async def new_ids(self, count: int) -> list[tuple[int, str]]:
        """Numbers and ids for new items."""
        return [(seq, self._ids.id_of(seq)) for seq in self._reserve(count)]

    async def insert(self, items: Sequence[Item]) -> None:
        """New items."""
        self._executemany(SQL["insert_item"], map(_values, items))
        self._executemany(SQL["insert_body"], [(item.seq, item.body) for item in items])
        self._save_results([item for item in items if item.status == "finished"])

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """Changed items: of each only the columns that differ, so that no index is written for nothing."""
        alike: dict[tuple[bool, ...], list[list[object]]] = {}
        for before, after in changes:
            values = _values(after)
            differs = tuple(map(ne, _values(before), values))
            alike.setdefault(differs, []).append([*compress(values, differs), after.seq])
        for differs, rows in alike.items():
            if any(differs):
                self._executemany(_update(differs), rows)
        self._save_results([after for before, after in changes if after.status == "finished" != before.status])

    async def stamp(self, told: Collection[tuple[str, int]]) -> None:
        """Notes the first delivery of ends."""
        now = self._clock()
        rows = [(now, self._ids.seq_of(item_id), rev) for item_id, rev in told]
        self._executemany(SQL["stamp"], rows)

    async def next_due(self) -> int:
        """When the next item comes due."""
        return self._execute(SQL["next_due"]).fetchone()[0] or 0

    async def next_expiry(self) -> int:
        """When the next life is over."""
        return self._execute(SQL["next_expiry"]).fetchone()[0] or 0

    async def oldest_ready(self) -> int:
        """When the item came due that is ready longest."""
        return self._execute(SQL["oldest_ready"]).fetchone()[0] or 0

    async def commit(self) -> None:
        """Makes it durable."""
        await self._commit()

    def _item(self, row: Sequence[object]) -> Item:
        return item_of(self._ids, row)

    def _texts(self, query: str, items: Collection[Item]) -> dict[int, str]:
        return dict(self._execute(SQL[query], (_numbers(item.seq for item in items),)))

    def _save_results(self, items: Sequence[Item]) -> None:
        if items:
            self._executemany(SQL["insert_result"], [(item.seq, item.result) for item in items])


def _numbers(seqs: Collection[int] | Iterator[int]) -> str:
    return orjson.dumps(list(seqs)).decode()


@lru_cache(512)
def _update(differs: tuple[bool, ...]) -> str:
    """Writes the columns that differ."""
    return f"UPDATE item SET {', '.join(f'{name} = ?' for name in compress(COLUMNS, differs))} WHERE seq = ?"  # noqa: S608
