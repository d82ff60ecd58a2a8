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
ASKED_SECONDS: Final = 5.0
"""A connection that listens is asked so often whether it is there, since one that swallows all says nothing either."""
ANSWER_SECONDS: Final = 2.0
"""What takes longer than this has no answer: then another connection is made. Others look by themselves meanwhile."""


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
            yield _until(gone, connection)
        finally:
            connection.terminate()

    async def send(self, hints: Collection[str]) -> None:
        """Notifies. Raises `StoreAway`."""
        if self._sending is None or self._sending.is_closed():
            self._sending = await self._database.connect()
        with postgres_errors():
            async with transaction_on(self._sending, patience=ANSWER_SECONDS):
                await self._sending.fetch(SQL["hint"], list(hints), timeout=ANSWER_SECONDS)

    def close(self) -> None:
        """Lets go of the connection."""
        if self._sending is not None:
            self._sending.terminate()


async def _until(gone: asyncio.Event, connection: Connection) -> None:
    """Returns when the connection is gone. Raises `StoreAway` where it is there no more than in name."""
    while not gone.is_set():
        try:
            async with asyncio.timeout(ASKED_SECONDS):
                await gone.wait()
        except TimeoutError:
            with postgres_errors():
                await connection.fetchval("SELECT 1", timeout=ANSWER_SECONDS)
