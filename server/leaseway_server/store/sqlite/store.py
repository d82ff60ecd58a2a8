"""The SQLite store of one queue: one connection, statements on the event loop, COMMIT on a thread where it is slow.

It decides nothing about items: what is picked, changed and saved is the turn's.
"""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import lru_cache
from itertools import compress
from operator import attrgetter, ne
from pathlib import Path
from typing import Final

import orjson

from leaseway_server.core.errors import StoreFull, StoreLost
from leaseway_server.core.ids import KEY_BYTES, IdPermutation
from leaseway_server.core.model import START, Item, Position
from leaseway_server.store.queries import load_queries
from leaseway_server.store.sqlite.files import PACKAGE, FileLock, connect, refusals
from leaseway_server.store.sqlite.wal import check_after_kill

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
)
INLINE_SECONDS: Final = 0.000_6
"""While a COMMIT takes less than this on average, the event loop waits for it: cheaper than a thread and back."""
PROBE: Final = 32
"""One in so many commits is made on the event loop and timed: on the thread the time holds a wait for Python's lock."""
NUMBERS_A_MS: Final = 10
"""Bits: a queue that posts less than 1,024 items a ms, over its life, meets no number twice after a restored backup."""
RESERVE: Final = 10_000
"""Row numbers are reserved in blocks, so that none is given out twice after a crash."""
PICK_CHARACTERS: Final = 4 * 1024 * 1024
"""A pick ends with the body that makes it so long: a slice of large items must not hold up anybody."""
CHECKPOINT_FRAMES: Final = 1_000
_NO_SPACE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY})
_LOST: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN})

_values = attrgetter(*COLUMNS)


def _queries() -> dict[str, str]:
    columns = ", ".join(COLUMNS)
    marks = ", ".join("?" * len(COLUMNS))
    return {
        name: text.replace("{columns}", columns).replace("{marks}", marks)
        for name, text in load_queries(PACKAGE, "queries.sql").items()
    }


SQL: Final = _queries()


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turns the errors of the file into the store's own; those of the data pass as they are."""
    try:
        yield
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary in _NO_SPACE:
            raise StoreFull(str(error)) from error
        if primary in _LOST:
            raise StoreLost(str(error)) from error
        raise


class SqliteStore:
    """The items of one queue in one file. Use `open`; `clock` gives ms since the epoch."""

    def __init__(
        self, connection: sqlite3.Connection, lock: FileLock, clock: Callable[[], int], salvaged: str = ""
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.salvaged: Final = salvaged
        """What committed work could not be read after an unclean stop, in words; "" where all is well."""
        self._lock = lock
        self._path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        opened = self._path.stat()
        self._identity = (opened.st_dev, opened.st_ino)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leaseway-commit")
        self._commit_seconds = 0.0
        self._commits = 0
        self._synchronous = True
        self._rows = 0
        self._frames_a_row = 4.0
        id_key, self._reserved, epoch = self._start()
        # Numbers begin where none was before, though the file be an old copy: an id never names two items.
        self._next_seq = max(self._reserved, clock() << NUMBERS_A_MS)
        self._reserving = 0
        self.epoch = epoch
        ids = IdPermutation(id_key)
        self.id_of = ids.id_of
        self.seq_of = ids.seq_of

    @classmethod
    def open(cls, path: Path, clock: Callable[[], int]) -> "SqliteStore":
        """Opens or makes the file. Raises `StoreRefused`, which names the file and says why."""
        with ExitStack() as undo, refusals(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path.with_suffix(".lock"))
            undo.callback(lock.release)
            salvaged = check_after_kill(path) if lock.was_serving else ""
            if not salvaged:
                lock.mark_stopped()  # A start that fails below has written the log back and removed it.
            connection = connect(path)
            undo.callback(connection.close)
            store = cls(connection, lock, clock, salvaged)
            lock.mark_serving()
            undo.pop_all()
            return store

    def _start(self) -> tuple[bytes, int, int]:
        self.connection.execute("BEGIN IMMEDIATE")
        if self.connection.execute(SQL["state"]).fetchone() is None:
            self.connection.execute(SQL["new_state"], (secrets.token_bytes(KEY_BYTES),))
        self.connection.execute(SQL["start"])
        id_key, next_seq, epoch = self.connection.execute(SQL["state"]).fetchone()
        self.connection.execute("COMMIT")
        return id_key, next_seq, epoch

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator["SqliteTurn"]:
        """A transaction; see `base.Store.turn`."""
        if durable != self._synchronous:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synchronous = durable
        before = self.connection.total_changes
        with sqlite_errors():
            try:
                self.connection.execute("BEGIN")
                yield SqliteTurn(self)
            finally:
                self._reserving = 0
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
        self._rows += self.connection.total_changes - before

    def check(self) -> None:
        """The file may have been removed, or another one put in its place: what is written then is lost."""
        try:
            there = self._path.stat()
        except OSError as error:
            raise StoreLost(f"{self._path} is gone: {error.strerror}") from error
        if (there.st_dev, there.st_ino) != self._identity:
            raise StoreLost(f"{self._path} was replaced while it was served")

    async def maintain(self) -> None:
        """Writes the log back into the file where it is long enough; see `base.Store.maintain`."""
        if self._rows * self._frames_a_row < CHECKPOINT_FRAMES:
            return
        rows, self._rows = self._rows, 0
        with sqlite_errors():
            log = await asyncio.get_running_loop().run_in_executor(self._thread, self._write_back)
        self._frames_a_row = max(0.05, (self._frames_a_row + log / rows) / 2)

    async def pending(self) -> int:
        """How many items are `pending`, from the indexes of the ready ones and of those due later."""
        return int(self.connection.execute(SQL["pending"]).fetchone()[0])

    async def leases(self) -> list[Item]:
        """All items that are `processing`."""
        return [self.item(row) for row in self.connection.execute(SQL["leases"])]

    async def close(self) -> None:
        """Writes the log back and lets go of the files."""
        self._thread.shutdown()
        with suppress(OSError):  # Of a disk that fails: at worst, the next start asks in vain for the log.
            self._lock.mark_stopped()
        self.connection.close()
        self._lock.release()

    def item(self, row: Sequence[object]) -> Item:
        """A row of `COLUMNS` as an item."""
        return Item(self.id_of(row[0]), *row)  # type: ignore[arg-type]

    def reserve(self, count: int) -> range:
        """The next row numbers; a new block is reserved in the transaction that is open."""
        first = self._next_seq
        self._next_seq += count
        if self._next_seq > max(self._reserved, self._reserving):
            self._reserving = self._next_seq + RESERVE
            self.connection.execute(SQL["reserve"], (self._reserving,))
        return range(first, self._next_seq)

    async def commit(self) -> None:
        """COMMIT; on the store's thread while that is slow on average."""
        if not self._synchronous:
            self.connection.execute("COMMIT")
        elif self._commit_seconds < INLINE_SECONDS or self._commits % PROBE == PROBE - 1:
            self._timed_commit()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.connection.execute, "COMMIT")
        self._commits += 1
        self._reserved = max(self._reserved, self._reserving)

    def _timed_commit(self) -> None:
        started = time.perf_counter()
        self.connection.execute("COMMIT")
        took = min(time.perf_counter() - started, 4 * INLINE_SECONDS)  # One that was very slow is still but one.
        self._commit_seconds += (took - self._commit_seconds) / 16

    def _write_back(self) -> int:
        """Checkpoints; gives the log's length in frames, which tells how many frames a changed row costs."""
        _busy, log, _written = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(log)


class SqliteTurn:
    """One transaction; see `base.Turn`."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._execute = store.connection.execute
        self._executemany = store.connection.executemany

    async def load(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist."""
        seqs = {seq for seq in map(self._store.seq_of, ids) if seq is not None}
        rows = self._execute(SQL["load"], (_numbers(seqs),)) if seqs else ()
        return {item.id: item for item in map(self._store.item, rows)}

    async def time(self) -> int:
        """The clock's time: nobody else writes here."""
        return self._store.clock()

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
            yield from map(self._store.item, self._execute(SQL["pick_same_moment"], (*after, limit)))
            yield from map(self._store.item, self._execute(SQL["pick_same_rank"], (rank, due_at, limit)))
        yield from map(self._store.item, self._execute(SQL["pick_lower_rank"], (rank, limit)))

    async def come_due(self, now: int, limit: int) -> list[Item]:
        """Pending items that came due."""
        return [self._store.item(row) for row in self._execute(SQL["come_due"], (now, limit))]

    async def outlived(self, now: int, limit: int) -> list[Item]:
        """Items whose life is over."""
        return [self._store.item(row) for row in self._execute(SQL["outlived"], (now, limit))]

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
        return [(seq, self._store.id_of(seq)) for seq in self._store.reserve(count)]

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
        now = self._store.clock()
        rows = [(now, self._store.seq_of(item_id), rev) for item_id, rev in told]
        self._executemany(SQL["stamp"], rows)

    async def next_due(self) -> int:
        """When the next item comes due."""
        return self._execute(SQL["next_due"]).fetchone()[0] or 0

    async def next_expiry(self) -> int:
        """When the next life is over."""
        return self._execute(SQL["next_expiry"]).fetchone()[0] or 0

    async def commit(self) -> None:
        """Makes it durable."""
        await self._store.commit()

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
