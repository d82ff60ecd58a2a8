"""The SQLite store of one queue: one connection, statements on the event loop, COMMIT on a thread where it is slow.

It decides nothing about items: what is picked, changed and saved is the turn's.
"""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from leaseway_server.core.errors import StoreFull, StoreLost
from leaseway_server.core.ids import KEY_BYTES, IdPermutation
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.match import Match
from leaseway_server.core.model import Item, Position, Status
from leaseway_server.store.columns import item_of
from leaseway_server.store.moved import refuse_moved
from leaseway_server.store.sqlite.files import FileLock, connect, keep_private, make_folder, refusals
from leaseway_server.store.sqlite.looking import SqliteLooking
from leaseway_server.store.sqlite.rematch import matched, rematch
from leaseway_server.store.sqlite.turn import SQL, SqliteTurn
from leaseway_server.store.sqlite.wal import check_after_kill

Found = TypeVar("Found")

INLINE_SECONDS: Final = 0.000_6
"""While a COMMIT takes less than this on average, the event loop waits for it: cheaper than a thread and back."""
PROBE: Final = 32
"""One in so many commits is made on the event loop and timed: on the thread the time holds a wait for Python's lock."""
NUMBERS_A_MS: Final = 10
"""Bits: a queue that posts less than 1,024 items a ms, over its life, meets no number twice after a restored backup."""
RESERVE: Final = 10_000
"""Row numbers are reserved in blocks, so that none is given out twice after a crash."""
CHECKPOINT_FRAMES: Final = 1_000
_NO_SPACE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY})
_LOST: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN})


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
        self._before_turn = 0
        self._rows = 0
        self._frames_a_row = 4.0
        self.made = connection.execute(SQL["state"]).fetchone() is None
        id_key, self._reserved, epoch = self._start()
        # Numbers begin where none was before, though the file be an old copy: an id never names two items.
        self._next_seq = max(self._reserved, clock() << NUMBERS_A_MS)
        self._reserving = 0
        self.epoch = epoch
        self.ids = IdPermutation(id_key)
        self._looking = SqliteLooking(self._path, id_key)
        self._looking_thread = ThreadPoolExecutor(1, thread_name_prefix="leaseway-look")

    @classmethod
    def open(cls, path: Path, clock: Callable[[], int]) -> "SqliteStore":
        """Opens or makes the file. Raises `StoreRefused`, which names the file and says why."""
        with ExitStack() as undo, refusals(path):
            make_folder(path.parent)
            lock = FileLock(path.with_suffix(".lock"))
            undo.callback(lock.release)
            keep_private(path)
            salvaged = check_after_kill(path) if lock.was_serving else ""
            if not salvaged:
                lock.mark_stopped()  # A start that fails below has written the log back and removed it.
            connection = connect(path)
            undo.callback(connection.close)
            for (moved,) in connection.execute(SQL["moved"]):
                refuse_moved(moved, str(path))
            store = cls(connection, lock, clock, salvaged)
            lock.mark_serving()
            undo.pop_all()
            return store

    def _start(self) -> tuple[bytes, int, int]:
        self.connection.execute("BEGIN IMMEDIATE")
        if self.made:
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
        before = self._before_turn = self.connection.total_changes
        with sqlite_errors():
            try:
                self.connection.execute("BEGIN")
                yield SqliteTurn(self.connection, self.ids, self.clock, self._reserve, self._commit)
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

    async def committed(self) -> bool:
        """Nothing is: a COMMIT in doubt is a `StoreLost` here."""
        return False

    async def counts(self) -> dict[Status, int]:
        """How many items there are of each status."""
        return dict(self.connection.execute(SQL["counts"]))

    async def paused(self) -> bool:
        """Whether the queue is paused."""
        return bool(self.connection.execute(SQL["paused"]).fetchone()[0])

    async def leases(self) -> list[Item]:
        """All items that are `processing`."""
        return [self.item(row) for row in self.connection.execute(SQL["leases"])]

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """A part of a list, read beside the turns; see `base.Store.page`."""
        return await self._look(partial(self._looking.page, wanted, cursor, limit, now, results=results))

    async def ahead(self, position: Position, most: int) -> int:
        """How many ready items stand before a position; see `base.Store.ahead`."""
        return await self._look(partial(self._looking.ahead, position, most))

    async def matched(self) -> Match | None:
        """What the columns of `match` are computed for."""
        return matched(self.connection)

    async def rematch(self, match: Match) -> int:
        """Computes them anew, while the loop serves others between two slices."""
        rows = 0
        with sqlite_errors():
            for some in rematch(self.connection, match):
                rows += some
                await asyncio.sleep(0)
        return rows

    async def close(self) -> None:
        """Writes the log back and lets go of the files."""
        self._looking_thread.shutdown()
        self._looking.close()
        self._thread.shutdown()
        with suppress(OSError):  # Of a disk that fails: at worst, the next start asks in vain for the log.
            self._lock.mark_stopped()
        self.connection.close()
        self._lock.release()

    async def _look(self, question: Callable[[], Found]) -> Found:
        with sqlite_errors():
            return await asyncio.get_running_loop().run_in_executor(self._looking_thread, question)

    def item(self, row: Sequence[object]) -> Item:
        """A row of `COLUMNS` as an item."""
        return item_of(self.ids, row)

    def _reserve(self, count: int) -> range:
        """The next row numbers; a new block is reserved in the transaction that is open."""
        first = self._next_seq
        self._next_seq += count
        if self._next_seq > max(self._reserved, self._reserving):
            self._reserving = self._next_seq + RESERVE
            self.connection.execute(SQL["reserve"], (self._reserving,))
        return range(first, self._next_seq)

    async def _commit(self) -> None:
        """COMMIT; on the store's thread while that is slow on average."""
        if not self._synchronous or self.connection.total_changes == self._before_turn:
            self.connection.execute("COMMIT")  # Nothing is synced; so it tells nothing about the disk either.
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
