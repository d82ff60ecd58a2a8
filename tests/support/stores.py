"""A queue's store of either kind, which a test opens as often as it starts its server anew."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from leaseway_server.store.base import Store
from leaseway_server.store.postgres import servers
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.neighbours import SQL
from leaseway_server.store.postgres.store import PostgresStore
from leaseway_server.store.sqlite.store import SqliteStore
from support.postgres import Postgres

Kind: TypeAlias = Literal["sqlite", "postgres"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgres")
Opener: TypeAlias = Callable[[Callable[[], int]], Awaitable[Store]]
"""Opens the same queue again, for a server that has just been started; takes its clock."""
_names = count(1)


def no_postgres() -> Postgres:
    """For a test that wants none."""
    raise AssertionError("this test said that it needs no PostgreSQL")


@asynccontextmanager
async def opener(kind: Kind, folder: Path, postgres: Callable[[], Postgres]) -> AsyncIterator[Opener]:
    """How to open a new queue: a file in the folder, or a queue in a database that other tests share.

    `postgres` is asked only where it is needed.
    """
    if kind == "sqlite":

        async def open_file(clock: Callable[[], int]) -> Store:
            return SqliteStore.open(folder / "queue.db", clock)

        yield open_file
        return
    name = f"queue-{next(_names)}"
    async with await Database.open(await postgres().shared()) as database:

        async def open_queue(clock: Callable[[], int]) -> Store:
            return await TestedPostgresStore.enter(database, name, clock)

        yield open_queue


class TestedPostgresStore(PostgresStore):
    """One whose server is gone for all others when it is closed, and whose clock is the test's."""

    __test__ = False

    @classmethod
    async def enter(cls, database: Database, name: str, clock: Callable[[], int]) -> "TestedPostgresStore":
        """As a server that was just started."""
        epoch = await servers.enter(database, "test", "0")
        return await cls.open(database, name, epoch, lambda _now: clock())

    async def close(self) -> None:
        """As a server that is gone."""
        await super().close()
        await forget(self._database, self.epoch)


async def forget(database: Database, epoch: int) -> None:
    """A server that is gone for long; what it counted stays counted."""
    async with database.transaction() as connection:
        await connection.execute(SQL["forget"], epoch)
