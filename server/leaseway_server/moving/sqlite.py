"""A folder of SQLite files as one end of a move; see `side.py`.

Each queue's file is locked as its server would lock it. A file that is read is written only for its mark.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from leaseway_server.core.errors import StoreRefused
from leaseway_server.core.model import Status
from leaseway_server.moving import tables
from leaseway_server.moving.side import Facts, Look, TokenRow, refuse_taken
from leaseway_server.moving.tables import ADRIFT, Key, Row, Table, with_epoch
from leaseway_server.store.access import sqlite as access
from leaseway_server.store.moved import Mark, read_mark
from leaseway_server.store.queries import load_migrations, load_queries
from leaseway_server.store.sqlite.files import (
    APPLICATION_ID,
    PACKAGE,
    FileLock,
    check_owner,
    check_pages,
    connect,
    keep_private,
    make_file,
    make_folder,
    was_abandoned,
)

T = TypeVar("T")

_SQL: Final = load_queries("leaseway_server.moving", "sqlite.sql")
_BESIDE: Final = ("", "-wal", "-shm")
CHECKPOINT_PAGES: Final = 1_000


class SqliteSide:
    """See `Side`."""

    def __init__(self, folder: Path) -> None:
        self.place = f"sqlite:{folder}"
        self._folder = folder
        self._queues: dict[str, SqliteQueue] = {}

    def close(self) -> None:
        """Lets go of all files."""
        for queue in self._queues.values():
            queue.close()

    async def queues(self) -> list[str]:
        """The queues whose files are there."""
        return sorted(path.stem for path in self._folder.glob("*.db") if _is_queue(path))

    async def queue(self, name: str) -> "SqliteQueue":
        """A queue's file, which is not opened yet."""
        return self._queues.setdefault(name, SqliteQueue(name, self._folder / f"{name}.db"))

    async def tokens(self) -> list[TokenRow]:
        """The tokens in the folder's file."""
        if not self._tokens_file.exists():
            return []
        with _told(self._tokens_file), closing(self._open_tokens()) as connection:
            return connection.execute(_SQL["tokens"]).fetchall()

    async def add_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """In one transaction."""
        with _told(self._tokens_file):
            make_folder(self._folder)
            make_file(self._tokens_file)
            keep_private(self._tokens_file)
            self._change_tokens("add_token", tokens)

    async def remove_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """In one transaction."""
        if tokens:
            with _told(self._tokens_file):
                self._change_tokens("remove_token", [(row[0],) for row in tokens])

    async def mark_tokens(self, mark: Mark | None) -> None:
        """In place of the mark that is there."""
        if self._tokens_file.exists():
            with _told(self._tokens_file), closing(self._open_tokens()) as connection, _transaction(connection):
                connection.execute(_SQL["unmark_tokens"])
                connection.executemany(_SQL["mark_tokens"], [(mark.text,)] if mark else [])

    @property
    def _tokens_file(self) -> Path:
        return self._folder / access.FILE_NAME

    def _open_tokens(self) -> sqlite3.Connection:
        return access.connect_to_move(self._tokens_file)

    def _change_tokens(self, verb: str, rows: Sequence[Sequence[object]]) -> None:
        with closing(self._open_tokens()) as connection, _transaction(connection):
            connection.executemany(_SQL[verb], rows)


class SqliteQueue:
    """One file; see `QueueSide`. It is locked and opened by the first `look` that finds it, or by `begin`.

    Slices are read and written on a thread, beside the other end.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.where = str(path)
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leaseway-move")
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Lets go of the file, whose log SQLite writes back."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()
        if self._lock is not None:
            self._lock.mark_stopped()
            self._lock.release()
        self._connection = self._lock = None

    async def look(self) -> Look:
        """How the file is; one that is not there is not made."""
        if self._connection is None and not self._path.exists():
            return Look(None, None, holds=False)
        with _told(self._path):
            connection = self._opened()
            (holds,) = connection.execute(_SQL["holds"]).fetchone()
            found = connection.execute(_SQL["facts"]).fetchone()
        if found is None:  # Nobody ever served it.
            return Look(None, None, holds=bool(holds))
        id_key, paused, match, numbers, mark = found
        return Look(read_mark(mark), Facts(id_key, bool(paused), match, numbers), holds=bool(holds))

    async def set_mark(self, _before: Mark | None, mark: Mark | None) -> None:
        """One small commit. The file has been locked since its mark was read."""
        with _told(self._path):
            self._opened().execute(_SQL["mark"], (mark.text if mark else "",))

    async def counts(self) -> Mapping[Status, int]:
        """As the file has them."""
        with _told(self._path):
            return dict(self._opened().execute(_SQL["counts"]))

    async def read(self, table: Table, after: Key) -> list[Row]:
        """The next rows."""
        return await self._aside(partial(self._read, table, after))

    def _read(self, table: Table, after: Key) -> list[Row]:
        large = [table.columns.index(name) for name in table.large]
        rows: list[Row] = []
        size = 0
        with _told(self._path):
            cursor = self._opened().execute(_statement("read", table), (*after, tables.SLICE_ROWS))
            for row in cursor:
                rows.append(row)
                size += sum(len(row[place]) for place in large)
                if size >= tables.SLICE_CHARACTERS:
                    break
            cursor.close()
        return with_epoch(table, rows, ADRIFT)

    async def begin(self, facts: Facts, mark: Mark) -> None:
        """Makes the file."""
        with _told(self._path):
            make_folder(self._path.parent)
            connection = self._opened(make=True)
            refuse_taken(self.where, await self.look())
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            with _transaction(connection):
                connection.execute(_SQL["forget_state"])
                row = (facts.id_key, facts.numbers, ADRIFT, facts.paused, facts.match, mark.text)
                connection.execute(_SQL["begin"], row)

    async def last(self, table: Table) -> Key:
        """The last key."""
        with _told(self._path):
            found: Key | None = self._opened().execute(_statement("last", table)).fetchone()
        return found or table.first

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """In one transaction."""
        await self._aside(partial(self._write, table, rows))

    def _write(self, table: Table, rows: Sequence[Row]) -> None:
        with _told(self._path), _transaction(self._opened()) as connection:
            connection.executemany(_statement("write", table), rows)

    async def end(self, counts: Mapping[Status, int], mark: Mark) -> None:
        """Counts and mark in one transaction."""
        with _told(self._path), _transaction(self._opened()) as connection:
            connection.execute(_SQL["forget_counts"])
            connection.executemany(_SQL["count"], counts.items())
            connection.execute(_SQL["mark"], (mark.text,))

    async def remove(self) -> None:
        """Its files go, the lock last."""
        with _told(self._path):
            self.close()
            for ending in _BESIDE:
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            self._path.with_suffix(".lock").unlink(missing_ok=True)

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _opened(self, *, make: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            if self._lock is None:
                self._lock = _lock(self._path)
            self._connection = connect(self._path) if make else _open(self._path)
        return self._connection


def _is_queue(path: Path) -> bool:
    """Whether it is a queue's file. What a kill left is not even opened: the next start has to see it as it is."""
    _refuse_abandoned(was_abandoned(path), path)
    with _told(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            return False
    return bool(application == APPLICATION_ID)


def _lock(path: Path) -> FileLock:
    lock = FileLock(path.with_suffix(".lock"))
    if lock.was_serving:
        lock.release()
    _refuse_abandoned(lock.was_serving, path)
    lock.mark_moving()
    return lock


def _refuse_abandoned(abandoned: bool, path: Path) -> None:
    if abandoned:
        raise StoreRefused(
            f"{path} was not stopped cleanly, and nobody serves it; start the server once, which looks after what was "
            "left, stop it, and move then"
        )


def _open(path: Path) -> sqlite3.Connection:
    """A connection to a queue's file of this version, which is sound as far as a quick look tells."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        _refuse_older(check_owner(connection, path, PACKAGE, APPLICATION_ID, "one of Leaseway's"), path)
        check_pages(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_older(version: int, path: Path) -> None:
    if version < load_migrations(PACKAGE)[-1][0]:
        raise StoreRefused(
            f"{path} is an older Leaseway's; start the server of this version once, which brings it up to date, stop "
            "it, and move then"
        )


def _statement(verb: str, table: Table) -> str:
    marks, key_marks = (", ".join("?" * len(names)) for names in (table.columns, table.key))
    return table.fill(_SQL[verb], marks=marks, key_marks=key_marks)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Names the file in what went wrong."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{path} cannot be used: {getattr(error, 'strerror', None) or error}") from error


@asynccontextmanager
async def sqlite_side(folder: Path) -> AsyncIterator[SqliteSide]:
    """The store in a folder."""
    with closing(SqliteSide(Path.cwd() / folder)) as side:
        yield side
