"""A SQLite file with our tables, which several processes of one machine may use. Knows no notification.

One thread does each piece of work as a whole, from its BEGIN to its COMMIT, whatever becomes of the task that asked.
The file has a rollback journal: with more than one process SQLite's write-ahead log can lose data before 3.51.3.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from leaseway_notify.errors import StoreAway, StoreBusy, StoreRefused
from leaseway_notify.stores.base import Connection
from leaseway_notify.stores.database import Row, Work
from leaseway_notify.stores.statements import Dialect, load_migrations, load_queries
from leaseway_notify.stores.store import SqlStore

T = TypeVar("T")

APPLICATION_ID: Final = 0x4C45_4E4F  # "LENO"
PATIENCE: Final = 5.0
"""Seconds that a piece of work waits for another process that writes."""
_OWN: Final = 0o600
_DIALECT: Final = Dialect(
    schema="",
    parameter=r"?\1",
    in_list=r"IN (SELECT value FROM json_each(?\1))",
    for_update="",
    for_change="",
    for_staying="",
    text="TEXT",
    integer="INTEGER",
    number="INTEGER PRIMARY KEY AUTOINCREMENT",
    strict=" STRICT",
)
_SQL: Final = load_queries(_DIALECT)


class SqliteSession:
    """A transaction on the thread of its database: nothing here waits, so that a piece of work runs through."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def rows(self, name: str, *arguments: Any) -> list[Row]:
        """What a statement gives."""
        return cast("list[Row]", self._connection.execute(_SQL[name], _bound(arguments)).fetchall())

    async def run(self, name: str, *arguments: Any) -> int:
        """Runs a statement, and says how many rows it wrote."""
        return self._connection.execute(_SQL[name], _bound(arguments)).rowcount

    async def run_many(self, name: str, arguments: Sequence[Sequence[Any]]) -> None:
        """Runs a statement with each of these."""
        self._connection.executemany(_SQL[name], arguments)


class SqliteDatabase:
    """One file. Use `open`, then `close`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leaseway-notify")

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens the file, makes it where there is none, and brings it to the newest version. Raises `StoreRefused`."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OWN))
            connection = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE, check_same_thread=False)
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise StoreRefused(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}") from error
        return cls(path, connection)

    async def do(self, work: Work[T], within: Connection = None) -> T:
        """Does it in a transaction."""
        if within is not None:
            raise TypeError("a connection of the caller's own can only be used where the store is in its PostgreSQL")
        return await self._on_thread("BEGIN IMMEDIATE", work)

    async def look(self, work: Work[T]) -> T:
        """Does what writes nothing."""
        return await self._on_thread("BEGIN", work)

    async def close(self) -> None:
        """Lets go of the file, once the work that was begun is done."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    async def _on_thread(self, begin: str, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._transact, begin, work)

    def _transact(self, begin: str, work: Work[T]) -> T:
        connection = self._connection
        try:
            connection.execute(begin)
            done = _through(cast("Coroutine[Any, Any, T]", work(SqliteSession(connection))))
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            raise (StoreBusy if busy else StoreAway)(f"{self._path}: {error}") from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return done


async def open_sqlite(path: Path) -> SqlStore:
    """The store in this file, which is made where there is none. Raises `StoreRefused`."""
    return SqlStore(await asyncio.to_thread(SqliteDatabase.open, path))


def _through(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise AssertionError("a piece of work awaits nothing but its session")


def _bound(arguments: Sequence[Any]) -> list[Any]:
    """Lists are bound as JSON, see `Dialect.in_list`."""
    return [json.dumps(list(value)) if isinstance(value, list | tuple) else value for value in arguments]


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN")  # Another process may be making the tables.
    _version(connection, path)  # What is not ours is not touched.
    connection.execute("COMMIT")
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = PERSIST")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection, path)
    for number, statements in load_migrations(_DIALECT):
        if number > version:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables, 0 where there are none. Raises `StoreRefused` where they are not for us."""
    ours, version, tables = (
        connection.execute(asked).fetchone()[0]
        for asked in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if ours != APPLICATION_ID and (ours or version or tables):
        raise StoreRefused(f"{path} is a SQLite file, but not one of notifications; name another file")
    newest = load_migrations(_DIALECT)[-1][0]
    if version > newest:
        raise StoreRefused(
            f"{path} was written by a newer version (its tables are number {version}, this one knows {newest}); "
            "run the newer one"
        )
    return int(version)
