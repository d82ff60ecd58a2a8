"""Stores in a database of PostgreSQL: all queues, and the tokens, in one schema. Needs asyncpg."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from socket import gethostname
from typing import NoReturn

from leaseway_server.core.errors import StoreRefused
from leaseway_server.moving.postgres import postgres_side
from leaseway_server.moving.side import Side
from leaseway_server.store.access import AccessStore
from leaseway_server.store.access.postgres import PostgresAccess
from leaseway_server.store.base import Store
from leaseway_server.store.place import PostgresUrl
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.finding import Finding, look_at
from leaseway_server.store.postgres.hints import PostgresHints
from leaseway_server.store.postgres.neighbours import PostgresRegistry, PostgresSharedQueue
from leaseway_server.store.postgres.servers import enter
from leaseway_server.store.postgres.store import PostgresStore
from leaseway_server.store.shared import Hints, Registry, SharedQueue
from leaseway_server.stores.base import Found, Stores


class PostgresSharing:
    """See `Sharing`."""

    def __init__(self, registry: Registry, hints: Hints) -> None:
        self.registry = registry
        self.hints = hints
        self._stores: dict[str, PostgresStore] = {}

    def add(self, name: str, store: PostgresStore) -> None:
        """The store of a queue was opened."""
        self._stores[name] = store

    def queue(self, name: str) -> SharedQueue:
        """What is shared of this queue."""
        return PostgresSharedQueue(self._stores[name])


class PostgresStores:
    """See `Stores`. `epoch` is the number of this server in the database."""

    def __init__(
        self, place: PostgresUrl, database: Database, epoch: int, sharing: PostgresSharing, closing: AsyncExitStack
    ) -> None:
        self.database = database
        self.epoch = epoch
        self._place = place
        self._closing = closing
        self._sharing = sharing

    @property
    def facts(self) -> Mapping[str, str]:
        """Which database it is."""
        return {"database": str(self._place)}

    async def access(self) -> AccessStore:
        """The tokens in the database."""
        access = await self._closing.enter_async_context(await PostgresAccess.open(self.database))
        await access.refresh()
        return access

    async def queue(self, name: str) -> Store:
        """The items of a queue."""
        store = await PostgresStore.open(self.database, name, self.epoch)
        self._closing.push_async_callback(store.close)
        self._sharing.add(name, store)
        return store

    @property
    def sharing(self) -> PostgresSharing:
        """All that other servers have to know, and this one of them."""
        return self._sharing


class PostgresKind:
    """See `Kind`."""

    def __init__(self, place: PostgresUrl) -> None:
        self._place = place

    @asynccontextmanager
    async def stores(self, _now: Callable[[], int]) -> AsyncIterator[Stores]:
        """The tables are made, or brought up to date; the time is the database's."""
        async with AsyncExitStack() as closing:
            database = await closing.enter_async_context(await Database.open(self._place.url))
            hints = PostgresHints(database, await self._direct(database, closing))
            closing.callback(hints.close)
            name, ours = gethostname(), version("leaseway")
            epoch = await enter(database, name, ours)
            sharing = PostgresSharing(PostgresRegistry(database, epoch, name, ours), hints)
            yield PostgresStores(self._place, database, epoch, sharing, closing)

    async def _direct(self, database: Database, closing: AsyncExitStack) -> Database | None:
        """The same database where it can be listened to."""
        if self._place.listen_url:
            return await closing.enter_async_context(await Database.open(self._place.listen_url))
        return None if database.pooled else database

    @asynccontextmanager
    async def access(self, *, make: bool) -> AsyncIterator[AccessStore]:
        """The tokens in the database."""
        async with (
            await Database.open(self._place.url, make=make) as database,
            await PostgresAccess.open(database) as access,
        ):
            yield access

    def back_up(self, target: Path) -> NoReturn:
        """It is refused: PostgreSQL has tools of its own, which are better at it."""
        raise StoreRefused(
            "a store in PostgreSQL is copied by its own tools, also while servers run. Copy it with\n"
            f"  pg_dump --format=custom --schema=leaseway --file={target}.dump --dbname=URL\n"
            "and put it back, with no server running, by\n"
            f"  pg_restore --clean --if-exists --dbname=URL {target}.dump\n"
            "where URL is that of the store; or let the database be archived as a whole (PITR)"
        )

    def side(self, *, make: bool) -> AbstractAsyncContextManager[Side]:
        """The database."""
        return postgres_side(self._place, make=make)

    async def found(self) -> Found:
        """Which PostgreSQL it is, and what of ours is in it."""
        finding = await look_at(self._place.url, self._place.listen_url)
        return Found(f"The database {self._place} is {_in_words(finding)}", asdict(finding))


def _in_words(found: Finding) -> str:
    pooler = ", behind a pooler" if found.pooled else ""
    if not found.tables:
        return f"PostgreSQL {found.postgres}{pooler}, with no store of Leaseway yet: the first start makes one."
    older = " (an older Leaseway's: the next start brings it up to date)" if found.tables < found.newest else ""
    queues = ", ".join(found.queues) or "none"
    return (
        f"PostgreSQL {found.postgres}{pooler}, with a store of Leaseway{older}. "
        f"Queues: {queues}. Servers at work: {found.servers}."
    )
