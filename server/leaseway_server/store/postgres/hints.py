"""Hints between servers by NOTIFY and LISTEN, on connections of their own; see `shared.Hints`.

LISTEN is a session's affair: behind a pool of connections such as PgBouncer's in transaction mode it hears nothing, so
that a URL that leads to PostgreSQL itself is needed for it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager
from typing import Final

from leaseway_server.store.postgres.database import Connection, Database, transaction_on
from leaseway_server.store.postgres.faults import postgres_errors
from leaseway_server.store.postgres.neighbours import SQL
from leaseway_server.store.shared import Heard

CHANNEL: Final = "leaseway"


class PostgresHints:
    """Hints in one database. `direct` leads to the same one without a pool between; None where there is none."""

    def __init__(self, database: Database, direct: Database | None) -> None:
        self._database = database
        self._direct = direct
        self._sending: Connection | None = None

    @property
    def heard_at_once(self) -> bool:
        """Whether LISTEN is heard."""
        return self._direct is not None

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncIterator[Awaitable[object]]:
        """Listens. Raises `StoreAway`."""
        assert self._direct is not None
        connection = await self._direct.connect()
        gone = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _connection: gone.set())
            with postgres_errors():
                await connection.add_listener(CHANNEL, lambda _connection, _pid, _channel, hint: heard(str(hint)))
            yield gone.wait()
        finally:
            connection.terminate()

    async def send(self, hints: Collection[str]) -> None:
        """Notifies. Raises `StoreAway`."""
        if self._sending is None or self._sending.is_closed():
            self._sending = await self._database.connect()
        with postgres_errors():
            async with transaction_on(self._sending):
                await self._sending.fetch(SQL["hint"], list(hints))

    def close(self) -> None:
        """Lets go of the connection."""
        if self._sending is not None:
            self._sending.terminate()
