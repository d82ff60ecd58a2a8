"""One transaction of the SQLite store: the verbs of `base.Turn`, as statements of `queries.sql`."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import merge
from itertools import compress
from operator import ne
from typing import Any, Final, TypeAlias

import orjson

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.keys import Key
from leaseway_server.core.match import Narrowing
from leaseway_server.core.model import START, Candidate, Item, Position, Status
from leaseway_server.core.retention import Outstayed
from leaseway_server.store import bounds
from leaseway_server.store.columns import (
    COLUMNS,
    attempt_values_of,
    item_of,
    values_of,
)
from leaseway_server.store.queries import load_queries
from leaseway_server.store.sqlite.files import PACKAGE

Row: TypeAlias = tuple[Any, ...]
"""As SQLite gives it; the statement says what is in it."""


def _queries() -> dict[str, str]:
    columns = ", ".join(COLUMNS)
    marks = ", ".join("?" * len(COLUMNS))
    queries = load_queries(PACKAGE, "queries.sql")
    return {
        name: text.replace("{columns}", columns).replace("{marks}", marks).replace("{wanted}", queries["wanted"])
        for name, text in queries.items()
    }


SQL: Final = _queries()


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
        self.missed: list[str] = []
        self.paused: bool | None = None
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

    async def load_free(self, ids: Collection[str]) -> tuple[dict[str, Item], list[str]]:
        """The items that exist: nobody else has any."""
        return await self.load(ids), []

    async def look(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist: nobody else writes here."""
        return await self.load(ids)

    async def time(self) -> int:
        """The clock's time: nobody else writes here."""
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
        picked: list[Candidate] = []
        size = 0
        skipped = _numbers(skip)
        behind = self._narrowed(after, limit, skipped, narrowing) if narrowing else self._behind(after, limit, skipped)
        for candidate in map(Candidate._make, behind):
            picked.append(candidate)
            size += len(candidate.body)
            if len(picked) == limit or size > bounds.PICK_CHARACTERS:
                break
        return picked

    async def left_to_others(self, skip: Collection[int], now: int) -> list[str]:
        """There are no others."""
        return []

    async def take(self, candidates: Collection[Candidate]) -> dict[int, Item]:
        """The items, with `body`."""
        bodies = {candidate.seq: candidate.body for candidate in candidates}
        taken = {row[0]: self._item(row) for row in self._execute(SQL["load"], (_numbers(bodies),))}
        for seq, item in taken.items():
            item.body = bodies[seq]
        return taken

    def _behind(self, after: Position, limit: int, skipped: str) -> Iterator[Row]:
        """The ready items behind a position, at most `limit` of each kind, as rows of what a `Candidate` has."""
        rank, due_at, _ = after
        if after != START:
            yield from self._execute(SQL["pick_same_moment"], (*after, skipped, limit))
            yield from self._execute(SQL["pick_same_rank"], (rank, due_at, skipped, limit))
        yield from self._execute(SQL["pick_lower_rank"], (rank, skipped, limit))

    def _narrowed(self, after: Position, limit: int, skipped: str, narrowing: Narrowing) -> Iterator[Row]:
        """As `_behind`, but only what has one of the texts, by the index of its member."""
        column = f"match_{narrowing.column}"
        each = [self._with_text(after, limit, skipped, column, text) for text in narrowing.texts]
        return each[0] if len(each) == 1 else merge(*each)  # By their positions, which come first.

    def _with_text(self, after: Position, limit: int, skipped: str, column: str, text: str) -> Iterator[Row]:
        rank, due_at, _ = after
        if after != START:
            yield from self._execute(_by(column, "pick_match_same_moment"), (text, *after, skipped, limit))
            yield from self._execute(_by(column, "pick_match_same_rank"), (text, rank, due_at, skipped, limit))
        yield from self._execute(_by(column, "pick_match_lower_rank"), (text, rank, skipped, limit))

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        return [self._item(row) for row in self._execute(SQL["come_due"], (now, limit))]

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        return [self._item(row) for row in self._execute(SQL["outlived"], (now, limit))]

    async def mine(self, poster: str, before: int, limit: int) -> list[Item]:
        """What a poster has, and was not told the end of."""
        return [self._item(row) for row in self._execute(SQL["mine"], (poster, before, limit))]

    async def newest(self, before: int, limit: int) -> list[Item]:
        """The newest items."""
        return [self._item(row) for row in self._execute(SQL["newest"], (before, limit))]

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
        for indexed in {len(item.match) for item in items}:
            alike = [(*values_of(item), *item.match) for item in items if len(item.match) == indexed]
            self._executemany(_insert(indexed), alike)
        self._executemany(SQL["insert_body"], [(item.seq, item.body) for item in items])
        self._save_results([item for item in items if item.status == "finished"])

    async def save(self, changes: Sequence[tuple[Item, Item]]) -> None:
        """Changed items: of each only the columns that differ, so that no index is written for nothing."""
        alike: dict[tuple[bool, ...], list[list[object]]] = {}
        for before, after in changes:
            values = values_of(after)
            differs = tuple(map(ne, values_of(before), values))
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

    async def outstayed(self, which: Outstayed, limit: int) -> list[Item]:
        """Ended items whose time is over."""
        query = SQL["outstayed_fetched" if which.fetched else "outstayed"]
        found: list[Item] = []
        size = 0
        for *row, characters in self._execute(query, (which.status, which.until, limit)):
            found.append(self._item(row))
            size += characters
            if size > bounds.REMOVE_CHARACTERS:
                break
        return found

    async def save_attempts(self, attempts: Mapping[tuple[int, int], Attempt | None]) -> None:
        """Attempts that ended, or proved not to have."""
        self._executemany(SQL["forget_attempt"], [key for key, attempt in attempts.items() if attempt is None])
        rows = [(seq, *attempt_values_of(attempt)) for (seq, _), attempt in attempts.items() if attempt]
        self._executemany(SQL["save_attempt"], rows)

    async def read_attempts(self, items: Collection[Item]) -> dict[str, list[Attempt]]:
        """The newest attempts of each item."""
        return {item.id: list(self._attempts(item))[::-1] for item in items}

    def _attempts(self, item: Item) -> Iterator[Attempt]:
        """The newest first, as far as there is room."""
        room = bounds.ATTEMPT_CHARACTERS
        for row in self._execute(SQL["attempts"], (item.seq,)):
            attempt = Attempt(*row)
            room -= bounds.ATTEMPT_BESIDE + len(attempt.error) + len(attempt.worker)
            if room < 0:
                return
            yield attempt

    async def count(self, more: Mapping[Status, int]) -> None:
        """There are so many more of each status."""
        self._executemany(SQL["count"], list(more.items()))

    async def pause(self, on: bool) -> None:
        """The queue is paused, or is not."""
        self._execute(SQL["pause"], (int(on),))

    async def delete(self, items: Collection[Item]) -> None:
        """Nothing is left of them."""
        seqs = _numbers(item.seq for item in items)
        for query in ("delete_items", "delete_bodies", "delete_results", "delete_attempts"):
            self._execute(SQL[query], (seqs,))

    async def body_sizes(self, items: Collection[Item]) -> dict[str, int]:
        """How large the bodies are."""
        sizes = dict(self._execute(SQL["body_sizes"], (_numbers(item.seq for item in items),)))
        return {item.id: sizes[item.seq] for item in items}

    async def lock_keys(self, keys: Collection[str]) -> None:
        """There is no other server."""

    async def key_holders(self, keys: Collection[Key]) -> list[Item]:
        """Who holds these keys."""
        return [self._item(row) for row in self._execute(SQL["key_holders"], (_texts(keys),))]

    async def shared_key_holders(self, keys: Collection[str], posted_after: int) -> list[Item]:
        """Who else holds these keys."""
        return [self._item(row) for row in self._execute(SQL["shared_key_holders"], (_texts(keys), posted_after))]

    async def past_keys(self, posted_until: int, limit: int) -> list[Item]:
        """Items whose key's time is over."""
        return [self._item(row) for row in self._execute(SQL["past_keys"], (posted_until, limit))]

    async def oldest_passing_key(self) -> int:
        """When the item was posted whose key passes next."""
        return self._execute(SQL["oldest_passing_key"]).fetchone()[0] or 0

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


def _texts(keys: Collection[object]) -> str:
    return orjson.dumps(list(keys)).decode()


def _numbers(seqs: Collection[int] | Iterator[int]) -> str:
    return orjson.dumps(list(seqs)).decode()


@lru_cache
def _insert(indexed: int) -> str:
    """Writes a row of `COLUMNS`, and behind them the texts of so many members that `match` names."""
    columns = "".join(f", match_{column}" for column in range(1, indexed + 1))
    return SQL["insert_item"].replace("{matches}", columns).replace("{match_marks}", ", ?" * indexed)


@lru_cache
def _by(column: str, name: str) -> str:
    """The statement for this column of `match`."""
    return SQL[name].replace("{match}", column)


@lru_cache(512)
def _update(differs: tuple[bool, ...]) -> str:
    """Writes the columns that differ."""
    return f"UPDATE item SET {', '.join(f'{name} = ?' for name in compress(COLUMNS, differs))} WHERE seq = ?"  # noqa: S608
