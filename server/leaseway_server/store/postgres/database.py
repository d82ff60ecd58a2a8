"""One database of PostgreSQL: opened, checked and brought up to date; it gives connections, and knows no item.

Whatever hinders that at the start comes out as `StoreRefused`, which says what, where, and what to do; never with the
password. Later faults are those of `faults.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from socket import gaierror
from typing import Any, Final, Self, TypeAlias

import asyncpg

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreRefused
from leaseway_server.store.postgres.address import Address
from leaseway_server.store.postgres.faults import ALL, end, in_step, postgres_errors, said_by
from leaseway_server.store.postgres.schema import NEW_DATABASE, OLDEST, check_server, check_tables, migrate

Connection: TypeAlias = asyncpg.Connection

CONNECT_SECONDS: Final = 5.0
"""So long a connection may take to be made."""
ANSWER_SECONDS: Final = 30.0
"""An answer that takes longer than this does not come: the connection is taken for dead."""
TURN_SECONDS: Final = 10.0
"""The same in a turn, for which all wait: each of its statements is about few rows, and waits for no lock longer."""
POOL: Final = 4
"""So many connections at most for what runs beside the turns: lists, tokens, the heartbeat."""
BESIDE: Final = POOL - 1
"""So many of them at most for what clients ask for: a server whose heartbeat waited behind that was taken for gone."""
LOOKING: Final = BESIDE - 1
"""So many of these at most for lists: tokens do not wait behind them."""
_SETTINGS: Final = {
    "lock_timeout": "5s",  # Then the turn is run again.
    "idle_in_transaction_session_timeout": "10s",  # What a server holds that stands still, others wait for.
    # Each statement has its index, also while a table is small: a plan that was made then outlives that.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",  # To compile a statement takes longer than to run any of ours.
}
"""What holds in all transactions: set once for a session of ours, or else in each of them."""


class Database:
    """A database with Leaseway's tables. Use `open`, then `close` or `async with`.

    `pooled`: something stands between, such as PgBouncer in transaction mode, so that a session is only ours for the
    time of a transaction: no statement stays prepared, and LISTEN hears nothing.
    """

    def __init__(self, address: Address, *, pooled: bool) -> None:
        self.address: Final = address
        self.pooled: Final = pooled
        self._settings: Final = _settings(pooled=pooled)
        self._beside: Final = asyncio.Semaphore(BESIDE)
        self._looking: Final = asyncio.Semaphore(LOOKING)
        self._pool = asyncpg.create_pool(
            address.url, min_size=0, max_size=POOL, connect=_connect, init=_prepare, **self._settings
        )

    @classmethod
    async def open(cls, url: str, *, make: bool = True, oldest: int = OLDEST) -> Self:
        """Connects, checks, and brings the tables to the newest version; unless `make`, they must be so already.

        Raises `StoreRefused`.
        """
        async with first_connection(url, oldest=oldest) as first:
            await (migrate if make else check_tables)(first.connection, first.address.shown)
        database = cls(first.address, pooled=first.pooled)
        with postgres_errors():
            await database._pool
        return database

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of the connections, whatever they are at."""
        self._pool.terminate()

    async def connect(self) -> Connection:
        """A connection of one's own, as a turn needs it, to be closed by who asked. Raises `StoreAway`."""
        connection = await _connect(self.address.url, **self._settings | {"command_timeout": TURN_SECONDS})
        with postgres_errors():
            await _prepare(connection)
        return connection

    @asynccontextmanager
    async def transaction(self, *, readonly: bool = False) -> AsyncIterator[Connection]:
        """A connection of the pool, within a transaction that is committed at the end, unless that is an exception.

        Raises as the turns do: `StoreFull`, `StoreBusy`, `StoreAway`.
        """
        async with _let_in(self._beside), self._transaction(ANSWER_SECONDS, readonly=readonly) as connection:
            yield connection

    @asynccontextmanager
    async def urgent(self, patience: float) -> AsyncIterator[Connection]:
        """The same, for what waits behind nobody, and begins and commits within so many seconds."""
        async with self._transaction(patience) as connection:
            yield connection

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Connection]:
        """A transaction that only reads, for what any client may ask for, as often as it likes. Raises as those do."""
        async with _let_in(self._looking), self.transaction(readonly=True) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, patience: float, *, readonly: bool = False) -> AsyncIterator[Connection]:
        with postgres_errors():
            async with (
                self._pool.acquire(timeout=patience) as connection,
                transaction_on(connection, readonly=readonly, patience=patience),  # type: ignore[arg-type]  # A proxy.
            ):
                if self.pooled:
                    await connection.execute(_settle(_SETTINGS))
                try:
                    yield connection  # type: ignore[misc]
                except asyncpg.ReadOnlySQLTransactionError:
                    await self._pool.expire_connections()  # All of them may lead to a standby.
                    raise

    def settle(self, begin: str) -> str:
        """The statement that begins a transaction, with the settings that its session may not have."""
        return f"{begin};" + _settle(_SETTINGS if self.pooled else {})


@asynccontextmanager
async def _let_in(gate: asyncio.Semaphore) -> AsyncIterator[None]:
    """Waits until there is room. Raises `StoreAway` where there is none for long."""
    with postgres_errors():
        async with asyncio.timeout(ANSWER_SECONDS):
            await gate.acquire()
    try:
        yield
    finally:
        gate.release()


@asynccontextmanager
async def transaction_on(
    connection: Connection, *, readonly: bool = False, patience: float = ANSWER_SECONDS
) -> AsyncIterator[None]:
    """A transaction of this connection, committed at the end; what was canceled in it ends the connection.

    `patience`: so long (s) it may take to begin and to commit.
    """
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED" + " READ ONLY" * readonly
    try:
        with in_step(connection):
            await connection.execute(begin, timeout=patience)
            yield
            await connection.execute("COMMIT", timeout=patience)
    except BaseException:  # Where it was canceled, it is not known yet whether it had begun.
        await roll_back(connection)
        raise


async def roll_back(connection: Connection) -> None:
    """Ends what was not committed; where that cannot be, the connection, and with it the transaction."""
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK", timeout=CONNECT_SECONDS)
    except Exception:  # noqa: BLE001  Whatever it was, nothing of it is kept.
        end(connection)


@dataclass(frozen=True, slots=True)
class First:
    """The first connection to a database: it may be used."""

    connection: Connection
    address: Address
    pooled: bool


@asynccontextmanager
async def first_connection(url: str, *, oldest: int = OLDEST) -> AsyncIterator[First]:
    """Connects, and checks the server. Raises `StoreRefused`, also for what goes wrong with it afterwards."""
    address = Address(url)
    try:
        connection = await _connect(url, **_settings(pooled=True))
    except StoreAway as away:
        raise StoreRefused(f"the database {address.shown} cannot be reached: {away}") from away
    try:
        with _refusals(address.shown), postgres_errors():
            await check_server(connection, address.shown, oldest)
            pooled = await connection.fetchval("SELECT pg_catalog.pg_backend_pid()") != connection.get_server_pid()
            yield First(connection, address, pooled)
    finally:
        await connection.close()


def _settings(*, pooled: bool) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "timeout": CONNECT_SECONDS,
        "command_timeout": ANSWER_SECONDS,
        "target_session_attrs": "primary",  # What a standby says may be older than what was acknowledged.
    }
    return shared | ({"statement_cache_size": 0} if pooled else {"server_settings": _SETTINGS})


def _settle(settings: dict[str, str]) -> str:
    return "".join(f" SET LOCAL {name} = '{value}';" for name, value in settings.items())


async def _connect(dsn: str | None = None, **settings: Any) -> Connection:
    """One more connection. Raises `StoreAway`, whatever hinders it: no data was sent that could be at fault."""
    try:
        return await asyncpg.connect(dsn, **settings)
    except (*ALL, ValueError) as error:
        raise StoreAway(_reason(error)) from error


async def _prepare(connection: Connection) -> None:
    """What is bytea in our tables is text in UTF-8."""
    await connection.set_type_codec(
        "bytea", schema="pg_catalog", encoder=str.encode, decoder=bytes.decode, format="binary"
    )


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Names the database in what went wrong while it was opened."""
    try:
        yield
    except (StoreFull, StoreBusy, StoreAway) as error:
        raise StoreRefused(f"the database {where} cannot be used: {error}") from error


def _reason(error: Exception) -> str:
    """Why there is no connection, and what to do."""
    match error:
        case asyncpg.InvalidPasswordError():
            return f"{said_by(error)} (it is given in the URL, or by PGPASSWORD or ~/.pgpass)"
        case asyncpg.InvalidCatalogNameError():
            return f"{said_by(error)}; make it with {NEW_DATABASE}"
        case asyncpg.TooManyConnectionsError():
            return f"{said_by(error)}; raise that limit there, or put PgBouncer in between"
        case asyncpg.InvalidAuthorizationSpecificationError():
            return f"{said_by(error)} (there CREATE ROLE makes a user, and pg_hba.conf says who is let in from where)"
        case TimeoutError():
            return f"no answer within {CONNECT_SECONDS:g} s"
        case asyncpg.TargetServerAttributeNotMatched():
            return "it is a standby, which can only be read; name the primary"
        case ConnectionRefusedError():
            return "nobody listens there; is PostgreSQL running, and with this address in listen_addresses?"
        case gaierror():
            return f"there is no such host ({said_by(error)})"
        case asyncpg.PostgresError() | OSError():
            return said_by(error)
    return "its URL holds an option that cannot be used"  # The driver's text may show the URL.
