"""The PostgreSQL store of one queue: one connection for its turns, the database's pool for what runs beside them.

Any number of servers have the same queue open. It decides nothing about items: what is picked, changed and saved is
the turn's. A connection that broke is made anew by the next turn.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Self

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreLost
from leaseway_server.core.ids import KEY_BYTES, IdPermutation
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.match import Match
from leaseway_server.core.model import HTTP, STATUSES, Item, Position, Status
from leaseway_server.store.columns import item_of
from leaseway_server.store.moved import refuse_moved
from leaseway_server.store.postgres import servers
from leaseway_server.store.postgres.database import ANSWER_SECONDS, Connection, Database, roll_back
from leaseway_server.store.postgres.faults import in_step, postgres_errors
from leaseway_server.store.postgres.looking import PostgresLooking
from leaseway_server.store.postgres.numbers import Numbers
from leaseway_server.store.postgres.rematch import matched, rematch
from leaseway_server.store.postgres.statements import SQL
from leaseway_server.store.postgres.turn import Numbering, PostgresTurn, Row

CHANGES_MS: Final = 60_000
"""So long a turn's changes may be read by other servers; whoever comes later compares what it watches."""
FORGET_TURNS: Final = 500
"""After so many turns those that are older than that are removed."""


def _same(now: int) -> int:
    return now


class PostgresStore:
    """The items of one queue. Use `open`; `epoch` is this server's number, see `servers.enter`.

    `time_of` may make another time of the database's, ms since the epoch.
    """

    def __init__(
        self,
        database: Database,
        epoch: int,
        queue: int,
        id_key: bytes,
        time_of: Callable[[int], int] = _same,
        *,
        made: bool = False,
    ) -> None:
        self.epoch = epoch
        self.made = made
        self.queue: Final = queue
        """The queue's number in the database."""
        self.numbering: Final = Numbering(epoch)
        self.ids: Final = IdPermutation(id_key)
        self._numbers = Numbers()
        self._database = database
        self._time_of = time_of
        self._connection: Connection | None = None
        self._looking = PostgresLooking(database, queue, self.ids)
        self._forget_at = FORGET_TURNS

    @classmethod
    async def open(cls, database: Database, name: str, epoch: int, time_of: Callable[[int], int] = _same) -> Self:
        """Opens the queue of this name, or makes it. Raises as `Database.transaction` does, and `StoreRefused` where it
        was moved."""
        async with database.transaction() as connection:
            made = bool(await connection.fetch(SQL["new_queue"], name, secrets.token_hex(KEY_BYTES)))
            [(queue, id_key, moved)] = await connection.fetch(SQL["queue"], name)
            refuse_moved(moved, f"the queue {name} of the database {database.address}")
            await connection.execute(SQL["settle"], queue)
            await connection.execute(SQL["new_share"], queue, epoch)
        return cls(database, epoch, queue, bytes.fromhex(id_key), time_of, made=made)

    @asynccontextmanager
    async def turn(self, *, durable: bool) -> AsyncIterator[PostgresTurn]:
        """A transaction; see `base.Store.turn`. Raises `StoreAway`, `StoreBusy`, `StoreFull`."""
        async with self._transaction() as connection:
            if self._database.pooled:  # Behind that the database may be another one in each turn.
                self._numbers.raised = False
            numbered = (self._numbers, self.numbering)
            yield PostgresTurn(connection, self.queue, self.ids, *numbered, self._time_of, durable=durable)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        with postgres_errors():
            connection = await self._connected()
            try:
                with in_step(connection):
                    await connection.execute(self._database.settle(SQL["begin"]))
                    yield connection
            finally:
                if not connection.is_closed() and connection.is_in_transaction():
                    await roll_back(connection)

    async def ask(self, statement: str, *arguments: object, patience: float | None = None) -> list[Row]:
        """Runs one statement by the connection of the turns, between two of them: a transaction of its own.

        It has so many seconds, or as many as one of a turn.
        """
        if not self._database.pooled:
            with postgres_errors():
                connection = await self._connected()
                with in_step(connection):
                    return await connection.fetch(statement, *arguments, timeout=patience)
        async with self._transaction() as connection:  # Else what is prepared is not where it is executed.
            rows = await connection.fetch(statement, *arguments, timeout=patience)
            await connection.execute("COMMIT")
        return rows

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
            self._numbers.raised = False
        return self._connection

    async def committed(self) -> bool:
        """Whether the turn was committed that ended in a `StoreAway` which left it unknown: its number tells.

        Raises `StoreAway` while that cannot be told yet, `StoreLost` where it never can.
        """
        try:
            async with self._transaction() as connection:
                rows = await connection.fetch(SQL["last_turn"], self.queue, self.numbering.server)
        except StoreBusy as busy:  # The transaction is not over.
            raise StoreAway(str(busy), unknown=True) from busy
        if not rows:
            raise StoreLost("the database has forgotten this server, and what became of its last turn")
        before, found = self.numbering.turn, rows[0]["turn"]
        # What a crash took back is not numbered so again: others have read it.
        self.numbering.turn = max(before, found)
        return bool(found > before)

    def check(self) -> None:
        """Nobody replaces a database while it is served."""

    async def maintain(self) -> None:
        """Removes what no other server needs to read any more."""
        if self.numbering.turn < self._forget_at:
            return
        self._forget_at = self.numbering.turn + FORGET_TURNS
        async with self._database.transaction() as connection:
            await connection.execute(SQL["forget_changes"], self.queue, self.epoch, CHANGES_MS)

    async def counts(self) -> dict[Status, int]:
        """How many items there are of each status, over all servers."""
        [numbers] = await self.ask(SQL["counts"], self.queue)
        return dict(zip(STATUSES, numbers, strict=True))

    async def paused(self) -> bool:
        """Whether the queue is paused."""
        [(_, paused, _)] = await self.ask(SQL["time"], self.queue)
        return bool(paused)

    async def leases(self) -> list[Item]:
        """All items that are `processing`, but for those of other servers that live. They may be very many."""
        rows = await self.ask(SQL["leases"], self.queue, self.epoch, HTTP, servers.GONE_MS, patience=ANSWER_SECONDS)
        return [item_of(self.ids, row) for row in rows]

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """A part of a list, read beside the turns; see `base.Store.page`."""
        return await self._looking.page(wanted, cursor, limit, now, results=results)

    async def ahead(self, position: Position, most: int) -> int:
        """How many ready items stand before a position; see `base.Store.ahead`."""
        return await self._looking.ahead(position, most)

    async def matched(self) -> Match | None:
        """What the columns of `match` are computed for: from now on this server uses them so."""
        async with self._database.transaction() as connection:
            return await matched(connection, self.queue, self.epoch)

    async def rematch(self, match: Match) -> int:
        """Computes them anew. Raises `StoreRefused` while another server uses others."""
        return await rematch(self._database, self.queue, self.epoch, match)

    async def close(self) -> None:
        """Lets go of the connection."""
        if self._connection is not None:
            self._connection.terminate()
