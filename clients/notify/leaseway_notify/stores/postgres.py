"""A PostgreSQL database with our tables, in the schema `leaseway_notify`. Knows no notification.

A piece of work runs on a connection of ours, or in the transaction of a caller whose own database it is.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg

from leaseway_notify.errors import StoreAway, StoreBusy, StoreRefused
from leaseway_notify.stores.base import Connection
from leaseway_notify.stores.database import Row, Work
from leaseway_notify.stores.statements import Dialect, load_migrations, load_queries
from leaseway_notify.stores.store import SqlStore

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
"""An answer that takes longer than this does not come."""
CONNECTIONS: Final = 10
TRIES: Final = 5
"""So often a piece of work is done where it meets another that wants the same rows in another order."""
_LOCK: Final = "SELECT pg_catalog.pg_advisory_xact_lock(1279607123, 8)"
_DIALECT: Final = Dialect(
    schema="leaseway_notify.",
    parameter=r"$\1",
    in_list=r"= ANY($\1::text[])",
    for_update="FOR UPDATE",
    for_change="FOR NO KEY UPDATE",
    for_staying="FOR KEY SHARE",
    text='text COLLATE "C"',
    integer="bigint",
    number="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    strict="",
)
_SQL: Final = load_queries(_DIALECT)
_AGAIN: Final = frozenset({"40001", "40P01"})
_BUSY: Final = frozenset({"55P03", "57014"})
_AWAY: Final = frozenset({"25006", "3D000", "42501", "55000"})
_AWAY_CLASSES: Final = frozenset({"08", "28", "53", "57", "58"})
"""Codes (SQLSTATE) and their classes that are not the work's fault."""


class PostgresSession:
    """A transaction on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rows(self, name: str, *arguments: Any) -> list[Row]:
        """What a statement gives."""
        rows: list[Row] = await self._connection.fetch(_SQL[name], *arguments)
        return rows

    async def run(self, name: str, *arguments: Any) -> int:
        """Runs a statement, and says how many rows it wrote."""
        told: str = await self._connection.execute(_SQL[name], *arguments)
        return int(told.rpartition(" ")[2])

    async def run_many(self, name: str, arguments: Sequence[Sequence[Any]]) -> None:
        """Runs a statement with each of these."""
        await self._connection.executemany(_SQL[name], arguments)


class PostgresDatabase:
    """One database. Use `open`, then `close`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connects, and brings the tables to the newest version. Raises `StoreRefused`, never with the password."""
        where = _shown(url)
        try:
            # No statement stays prepared: what stands between may be PgBouncer.
            connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, statement_cache_size=0)
            try:
                pooled = await connection.fetchval("SELECT pg_catalog.pg_backend_pid()") != connection.get_server_pid()
                await _migrate(connection, where)
            finally:
                await connection.close()
            cached: dict[str, Any] = {"statement_cache_size": 0} if pooled else {}
            pool = await asyncpg.create_pool(
                url, min_size=0, max_size=CONNECTIONS, command_timeout=ANSWER_SECONDS, timeout=CONNECT_SECONDS, **cached
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise StoreRefused(f"the database {where} cannot be used: {_said(error)}") from error
        return cls(pool)

    async def do(self, work: Work[T], within: Connection = None) -> T:
        """Does it in a transaction."""
        if within is not None:
            async with within.transaction():  # A savepoint: what is refused leaves the caller's transaction whole.
                return await work(PostgresSession(within))
        for _ in range(TRIES):
            try:
                return await self._transact(work, readonly=False)
            except _Again as met:
                last = met
        raise StoreBusy(str(last)) from last

    async def look(self, work: Work[T]) -> T:
        """Does what writes nothing."""
        return await self._transact(work, readonly=True)

    async def close(self) -> None:
        """Lets go of the connections."""
        try:
            await asyncio.wait_for(self._pool.close(), ANSWER_SECONDS)
        except TimeoutError:
            self._pool.terminate()

    async def _transact(self, work: Work[T], *, readonly: bool) -> T:
        with _errors():
            async with (
                self._pool.acquire(timeout=ANSWER_SECONDS) as connection,
                connection.transaction(isolation="read_committed", readonly=readonly),
            ):
                return await work(PostgresSession(connection))


async def open_postgres(url: str) -> SqlStore:
    """The store in this database, whose tables are made where there are none. Raises `StoreRefused`."""
    return SqlStore(await PostgresDatabase.open(url))


class _Again(StoreBusy):
    """It met another one, and may be done again."""


@contextmanager
def _errors() -> Iterator[None]:
    """Turns what is not the work's fault into ours."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        # That a broken connection cannot end its transaction says less than what broke it.
        before = error.__context__
        first = before if isinstance(before, asyncpg.PostgresError | OSError) else error
        ours = _ours(first)
        if ours is None:
            raise
        raise ours(_said(first)) from error


def _ours(error: Exception) -> type[StoreAway] | None:
    code = getattr(error, "sqlstate", None) or ""
    if isinstance(error, OSError | asyncpg.InternalClientError):
        return StoreAway
    if isinstance(error, asyncpg.InterfaceError):
        return StoreAway if "clos" in str(error) else None  # Else it is about arguments that do not fit.
    if code in _AGAIN:
        return _Again
    if code in _BUSY:
        return StoreBusy
    return StoreAway if code in _AWAY or code[:2] in _AWAY_CLASSES else None


def _said(error: BaseException) -> str:
    """In one line: what stands behind that may be data."""
    return str(error).partition("\n")[0] or type(error).__name__


def _shown(url: str) -> str:
    """Where it is, without the password. Raises `StoreRefused`."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts = None
    if parts is None or not re.fullmatch("postgres(ql)?", parts.scheme) or "@" in parts.path + parts.query:
        raise StoreRefused("the URL of the database must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    return f"{parts.hostname or 'localhost'}{port}{parts.path}"


async def _migrate(connection: asyncpg.Connection, where: str) -> None:
    """Each start under one lock; a script that was cut short never was."""
    try:
        async with connection.transaction():
            await connection.execute(_LOCK)
            version = await _version(connection, where)
            for number, statements in load_migrations(_DIALECT):
                if number > version:
                    for statement in statements:
                        await connection.execute(statement)
                    await connection.execute("UPDATE leaseway_notify.version SET number = $1", number)
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreRefused(
            f"the user may not make or use the schema leaseway_notify in the database {where} ({_said(error)}); as its "
            "owner run GRANT CREATE ON DATABASE … TO …, or make that schema over to this user"
        ) from error


async def _version(connection: asyncpg.Connection, where: str) -> int:
    """The version of the tables, 0 where they were not there until now. Raises `StoreRefused`."""
    if await connection.fetchval("SELECT pg_catalog.to_regnamespace('leaseway_notify')") is None:
        await connection.execute("CREATE SCHEMA leaseway_notify")
        await connection.execute("CREATE TABLE leaseway_notify.version (number integer NOT NULL)")
        await connection.execute("INSERT INTO leaseway_notify.version VALUES (0)")
    if await connection.fetchval("SELECT pg_catalog.to_regclass('leaseway_notify.version')") is None:
        raise StoreRefused(f"the schema leaseway_notify of the database {where} holds what is not ours; move it away")
    version = int(await connection.fetchval("SELECT number FROM leaseway_notify.version"))
    newest = load_migrations(_DIALECT)[-1][0]
    if version > newest:
        raise StoreRefused(
            f"the database {where} was brought up to date by a newer version (its tables are number {version}, this "
            f"one knows {newest}); run the newer one"
        )
    return version
