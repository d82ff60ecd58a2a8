"""A database of PostgreSQL as one end of a move; see `side.py`. Other queues in it may be served meanwhile."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import ceil
from typing import Final

import asyncpg

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost, StoreRefused
from leaseway_server.core.model import STATUSES, Status
from leaseway_server.moving import tables
from leaseway_server.moving.side import Facts, Look, TokenRow, refuse_taken
from leaseway_server.moving.tables import ADRIFT, ITEM, TABLES, Key, Row, Table, with_epoch
from leaseway_server.store.moved import Mark, read_mark
from leaseway_server.store.place import PostgresUrl
from leaseway_server.store.postgres.database import Connection, Database
from leaseway_server.store.postgres.locks import lock_numbers
from leaseway_server.store.postgres.numbers import AHEAD
from leaseway_server.store.postgres.servers import GONE_MS
from leaseway_server.store.queries import load_queries

_SQL: Final = load_queries("leaseway_server.moving", "postgres.sql")
REMOVED_ROWS: Final = 1_000
"""So many are removed at once: each may be a MiB."""


class PostgresSide:
    """See `Side`."""

    def __init__(self, place: str, database: Database) -> None:
        self.place = place
        self._database = database
        self._queues: dict[str, PostgresQueue] = {}

    async def queues(self) -> list[str]:
        """The queues in the database."""
        async with _transaction(self._database) as connection:
            return [name for (name,) in await connection.fetch(_SQL["queues"])]

    async def queue(self, name: str) -> "PostgresQueue":
        """One of them."""
        return self._queues.setdefault(name, PostgresQueue(name, self._database))

    async def tokens(self) -> list[TokenRow]:
        """The tokens in the database."""
        async with _transaction(self._database) as connection:
            return [tuple(row) for row in await connection.fetch(_SQL["tokens"])]

    async def add_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """In one transaction; servers see them within a second."""
        async with _transaction(self._database) as connection:
            await connection.executemany(_SQL["add_tokens"], tokens)
            await connection.execute(_SQL["changed_tokens"])

    async def remove_tokens(self, tokens: Sequence[TokenRow]) -> None:
        """In one transaction."""
        async with _transaction(self._database) as connection:
            await connection.execute(_SQL["remove_tokens"], [row[0] for row in tokens])
            await connection.execute(_SQL["changed_tokens"])

    async def mark_tokens(self, mark: Mark | None) -> None:
        """In place of the mark that is there."""
        async with _transaction(self._database) as connection:
            await connection.execute(_SQL["mark_tokens"], mark.text if mark else "")


class PostgresQueue:
    """One queue of a database; see `QueueSide`."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        self.where = f"the queue {name} of the database {database.address}"
        self._database = database
        self._number = 0
        self._epoch = 0

    async def look(self) -> Look:
        """How it is."""
        async with _transaction(self._database) as connection:
            return await self._look(connection)

    async def _look(self, connection: Connection) -> Look:
        rows = await connection.fetch(_SQL["facts"], self.name)
        if not rows:
            return Look(None, None, holds=False)
        self._number, id_key, paused, match, mark, numbers = rows[0]
        await self._refuse_served(connection)
        holds = await connection.fetchval(_SQL["holds"], self._number)
        return Look(read_mark(mark), Facts(bytes.fromhex(id_key), paused, match, numbers), holds=holds)

    async def set_mark(self, before: Mark | None, mark: Mark | None) -> None:
        """A server that opens the queue at the same time is seen, or sees the mark; and so is a turn of one that stood
        still in the midst of it."""
        async with _transaction(self._database) as connection:
            await connection.execute(_SQL["let_turns_end"])
            await self._lock(connection)
            if (await self._look(connection)).mark != before:
                raise StoreRefused(f"{self.where} is being moved by somebody else at this moment")
            await connection.execute(_SQL["mark"], self._number, mark.text if mark else "")

    async def counts(self) -> Mapping[Status, int]:
        """Those of all servers that ever were."""
        async with _transaction(self._database) as connection:
            [numbers] = await connection.fetch(_SQL["counts"], self._number)
        return dict(zip(STATUSES, numbers, strict=True))

    async def read(self, table: Table, after: Key) -> list[Row]:
        """The next rows."""
        async with _transaction(self._database) as connection:
            rows = await connection.fetch(_statement("read", table), self._number, *after)
        return with_epoch(table, map(tuple, rows), ADRIFT)

    async def begin(self, facts: Facts, mark: Mark) -> None:
        """Makes the queue; and what was given out before it came is given out by nobody here."""
        async with _transaction(self._database) as connection:
            await lock_numbers(connection)
            await connection.execute(_SQL["raise_numbers"], facts.numbers, AHEAD)
            await connection.execute(_SQL["skip_numbers"], facts.numbers)
            await connection.execute(_SQL["make"], self.name)
            await self._lock(connection)
            refuse_taken(self.where, await self._look(connection))
            row = (self._number, facts.id_key.hex(), facts.paused, facts.match, mark.text)
            await connection.execute(_SQL["begin"], *row)

    async def last(self, table: Table) -> Key:
        """The last key."""
        async with _transaction(self._database) as connection:
            row = await connection.fetchrow(_statement("last", table), self._number)
        return table.first if row is None else tuple(row)

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """By COPY. Leases are held by sockets of a server that never was: for all that start here it is gone."""
        async with _transaction(self._database) as connection:
            if table is ITEM and not self._epoch:
                self._epoch = await connection.fetchval(_SQL["new_epoch"])
            records = [(self._number, *row) for row in with_epoch(table, rows, self._epoch)]
            columns = ["queue", *table.columns]
            await connection.copy_records_to_table(table.name, schema_name="leaseway", columns=columns, records=records)

    async def end(self, counts: Mapping[Status, int], mark: Mark) -> None:
        """Counts and mark in one transaction; they are nobody's share, as those of servers that are gone."""
        async with _transaction(self._database) as connection:
            await self._lock(connection)
            await connection.execute(_SQL["forget_counts"], self._number)
            await connection.execute(_SQL["count"], self._number, *(counts.get(status, 0) for status in STATUSES))
            await connection.execute(_SQL["mark"], self._number, mark.text)
            await connection.execute(_SQL["analyze"])

    async def remove(self) -> None:
        """Its rows, some at a time, then itself."""
        for table in TABLES:
            removed = REMOVED_ROWS
            while removed == REMOVED_ROWS:
                async with _transaction(self._database) as connection:
                    statement = _statement("remove_rows", table)
                    removed = await connection.fetchval(statement, self._number, REMOVED_ROWS)
        async with _transaction(self._database) as connection:
            await connection.execute(_SQL["remove_queue"], self._number)

    async def _lock(self, connection: Connection) -> None:
        """Until the transaction is over no server opens the queue. Raises where one has."""
        self._number = await connection.fetchval(_SQL["lock"], self.name)
        await self._refuse_served(connection)

    async def _refuse_served(self, connection: Connection) -> None:
        server = await connection.fetchval(_SQL["served_by"], self._number, GONE_MS)
        if server is not None:
            raise StoreRefused(
                f"{self.where} is served by a server on {server}; stop all servers that serve it. One that was killed "
                f"counts as gone after {ceil(GONE_MS / 1000)} s"
            )


def _statement(verb: str, table: Table) -> str:
    return table.fill(
        _SQL[verb],
        key_marks=", ".join(f"${number}::bigint" for number, _ in enumerate(table.key, 2)),
        size=" + ".join(f"octet_length({name})" for name in table.large),
        rows=tables.SLICE_ROWS,
        characters=tables.SLICE_CHARACTERS,
    )


@asynccontextmanager
async def _transaction(database: Database) -> AsyncIterator[Connection]:
    """What goes wrong in it is told as the database's."""
    with _told(database):
        async with database.transaction() as connection:
            yield connection


@contextmanager
def _told(database: Database) -> Iterator[None]:
    """Names the database in what went wrong."""
    where = f"the database {database.address}"
    try:
        yield
    except StoreAway as error:
        raise StoreRefused(f"{where} cannot be reached any more: {error}") from error
    except StoreFull as error:
        raise StoreRefused(f"{where} takes nothing in: {error}") from error
    except StoreBusy as error:
        raise StoreRefused(f"{where} is in use by somebody who does not let go: {error}") from error
    except StoreLost as error:
        raise StoreRefused(f"{where} cannot be used: {error}") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreRefused(f"{where} does not take what it was given: {error}") from error


@asynccontextmanager
async def postgres_side(place: PostgresUrl, *, make: bool) -> AsyncIterator[PostgresSide]:
    """The store in a database, whose tables are made, or brought up to date, where `make` says so."""
    async with await Database.open(place.url, make=make) as database:
        yield PostgresSide(str(place), database)
