"""Which kind of store a configuration names is decided here, once; all others know the interfaces of `store/` alone.

Nothing is read or written here but by the stores themselves.
"""

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from leaseway_server.store.access import AccessStore, SqliteAccess
from leaseway_server.store.base import Store
from leaseway_server.store.place import Place
from leaseway_server.store.sqlite.backup import Backup, back_up
from leaseway_server.store.sqlite.store import SqliteStore

_log = logging.getLogger(__name__)


class Stores(Protocol):
    """The stores of one server. What it gave out is closed with it, the last first."""

    facts: Mapping[str, str]
    """What the log tells of them at the start."""

    async def access(self) -> AccessStore:
        """The tokens and tickets, as they are now."""
        ...

    async def queue(self, name: str) -> Store:
        """The items of a queue, which is made where it is not there."""
        ...


class SqliteStores:
    """A file for each queue, and one for the tokens."""

    def __init__(self, folder: Path, now: Callable[[], int], closing: AsyncExitStack) -> None:
        self.facts: Mapping[str, str] = {"sqlite": sqlite3.sqlite_version}
        self._folder = folder
        self._now = now
        self._closing = closing

    async def access(self) -> AccessStore:
        """As in `Stores`."""
        access = await self._closing.enter_async_context(SqliteAccess.open(self._folder))
        await access.refresh()
        return access

    async def queue(self, name: str) -> Store:
        """As in `Stores`."""
        store = SqliteStore.open(self._folder / f"{name}.db", self._now)
        self._closing.push_async_callback(store.close)
        if store.salvaged:
            _log.critical(store.salvaged, extra={"event": "store.salvaged", "queue": name})
        return store


@asynccontextmanager
async def open_stores(place: Place, now: Callable[[], int]) -> AsyncIterator[Stores]:
    """The stores that are there, for as long as the `with` lasts. `now` gives ms. Raises `StoreRefused`."""
    async with AsyncExitStack() as closing:
        yield SqliteStores(place.folder, now, closing)


@asynccontextmanager
async def open_access(place: Place, *, make: bool) -> AsyncIterator[AccessStore]:
    """Only the tokens, as commands have them; `make`: makes what is missing. Raises `StoreRefused`."""
    async with SqliteAccess.open(place.folder, make=make) as access:
        yield access


def back_up_store(place: Place, target: Path) -> Backup:
    """Copies the store, also while servers use it; see `sqlite/backup.py`. Raises `StoreRefused`, `FileExistsError`."""
    return back_up(place.folder, target)
