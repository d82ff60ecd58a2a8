"""Stores in a folder: a file of SQLite for each queue, and one for the tokens."""

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from leaseway_server.moving.side import Side
from leaseway_server.moving.sqlite import sqlite_side
from leaseway_server.store.access import AccessStore, SqliteAccess
from leaseway_server.store.base import Store
from leaseway_server.store.sqlite.backup import Backup, back_up
from leaseway_server.store.sqlite.store import SqliteStore
from leaseway_server.stores.base import Stores

_log = logging.getLogger(__name__)


class SqliteStores:
    """See `Stores`."""

    def __init__(self, folder: Path, now: Callable[[], int], closing: AsyncExitStack) -> None:
        self._folder = folder
        self._now = now
        self._closing = closing

    @property
    def facts(self) -> Mapping[str, str]:
        """Which SQLite it is."""
        return {"sqlite": sqlite3.sqlite_version}

    async def access(self) -> AccessStore:
        """The file of tokens."""
        access = await self._closing.enter_async_context(SqliteAccess.open(self._folder))
        await access.refresh()
        return access

    async def queue(self, name: str) -> Store:
        """The file of a queue."""
        store = SqliteStore.open(self._folder / f"{name}.db", self._now)
        self._closing.push_async_callback(store.close)
        if store.salvaged:
            _log.critical(store.salvaged, extra={"event": "store.salvaged", "queue": name})
        return store

    @property
    def sharing(self) -> None:
        """A file has one server."""
        return None


class SqliteKind:
    """See `Kind`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def stores(self, now: Callable[[], int]) -> AsyncIterator[Stores]:
        """The folder is made where it is not there."""
        async with AsyncExitStack() as closing:
            yield SqliteStores(self._folder, now, closing)

    def access(self, *, make: bool) -> AbstractAsyncContextManager[AccessStore]:
        """The file of tokens."""
        return SqliteAccess.open(self._folder, make=make)

    def back_up(self, target: Path) -> Backup:
        """See `back_up`."""
        return back_up(self._folder, target)

    def side(self, *, make: bool) -> AbstractAsyncContextManager[Side]:
        """The folder; a file is made by what is put into it."""
        return sqlite_side(self._folder)

    async def found(self) -> None:
        """To open its files would change them."""
