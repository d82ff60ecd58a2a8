"""Where the data of the queue under random programs live in PostgreSQL: a queue of its own in a shared database.

What is looked at behind the engine's back is read on a thread with an event loop of its own, since that is asked for
within the engine's loop and outside of it.
"""

import asyncio
import threading
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.match import MOST_MATCHES, Match
from leaseway_server.core.model import Item
from leaseway_server.store.columns import COLUMNS, item_of
from leaseway_server.store.postgres import rematch
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.statements import SQL
from support.clock import ManualClock
from support.postgres import Postgres
from support.stores import TestedPostgresStore

Found = TypeVar("Found")

_COLUMNS = ", ".join([f"item.{name}" for name in COLUMNS] + [f"match_{n}" for n in range(1, MOST_MATCHES + 1)])
_ROWS = f"""SELECT body.value, coalesce(result.value, ''), result.seq IS NOT NULL, {_COLUMNS} FROM leaseway.item
LEFT JOIN leaseway.body USING (queue, seq) LEFT JOIN leaseway.result USING (queue, seq)
WHERE queue = $1 ORDER BY seq"""  # noqa: S608
_ATTEMPTS = (
    """SELECT seq, attempts, worker, started_at, ended_at, ending, error FROM leaseway.attempt WHERE queue = $1"""
)
_numbers = count(1)


class Behind:
    """A database that is asked from wherever one is. One for all programs of a run; `close` it at the end."""

    def __init__(self, postgres: Postgres) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.url = self.run(postgres.shared())
        self.database = self.run(Database.open(self.url))

    def run(self, asked: Coroutine[Any, Any, Found]) -> Found:
        """What it gives, once it is done on the other thread."""
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    def close(self) -> None:
        """Lets go of everything."""
        self.run(self.database.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PostgresHome:
    """A queue. The server that is killed is one that the database knows to be gone."""

    def __init__(self, behind: Behind) -> None:
        self._behind = behind
        self._name = f"program-{next(_numbers)}"
        self._database: Database | None = None
        self.store: TestedPostgresStore

    async def open(self, clock: ManualClock) -> TestedPostgresStore:
        """A store on the same queue."""
        if self._database is None:
            self._database = await Database.open(self._behind.url)
        self.store = await TestedPostgresStore.enter(self._database, self._name, clock.now)
        return self.store

    def crash(self) -> None:
        """The store's own `close` says no goodbye either."""

    async def close(self) -> None:
        """Lets go of the connections."""
        if self._database is not None:
            await self._database.close()

    def next_number(self) -> int:
        """The row number that is given out next: nobody else has any at the time."""
        query = "SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM leaseway.number"
        return int(self._behind.run(self._ask(query))[0][0])

    def break_off_indexing(self, match: Match) -> None:
        """After the first slice."""
        self._behind.run(self._begin_indexing(match))

    def rows(self) -> list[Item]:
        """The database's."""
        items = []
        for body, result, has_result, *row in self._behind.run(self._ask(_ROWS, self.store.queue)):
            item = item_of(self.store.ids, row[: len(COLUMNS)])
            item.body, item.result, item.match = body, result, tuple(row[len(COLUMNS) :])
            assert has_result == (item.status == "finished")
            items.append(item)
        return items

    def attempts(self) -> dict[tuple[int, int], Attempt]:
        """The database's."""
        rows = self._behind.run(self._ask(_ATTEMPTS, self.store.queue))
        return {(seq, number): Attempt(number, *rest) for seq, number, *rest in rows}

    async def _ask(self, query: str, *arguments: object) -> list[Any]:
        async with self._behind.database.transaction() as connection:
            return await connection.fetch(query, *arguments)

    async def _begin_indexing(self, match: Match) -> None:
        async with self._behind.database.transaction() as connection:
            await connection.execute(SQL["set_matched"], self.store.queue, "null")
        await rematch._slice(self._behind.database, self.store.queue, 0, match)
