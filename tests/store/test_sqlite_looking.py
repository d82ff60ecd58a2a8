"""The SQLite store's reader of lists: a thread and a connection of its own, which cannot write."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.errors import StoreLost
from leaseway_server.core.listing import Filter
from leaseway_server.core.model import NewItem
from leaseway_server.store.sqlite import looking
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW
from support.stored import ended, posted


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
    yield store
    await store.close()


async def test_it_cannot_write_and_holds_nothing_open(sqlite: SqliteStore) -> None:
    """The log can be written back wholly after it: no read is left open."""
    await ended(sqlite, *[{"status": "dead", "finished_at": NOW}] * 50)
    for wanted in (Filter(), Filter(status=frozenset({"dead", "failed"})), Filter(key=frozenset({"a", "b"}))):
        await sqlite.page(wanted, "", 3, NOW, results=True)
    await sqlite.ahead((0, NOW, 2**62), 3)
    await posted(sqlite, NewItem("1"))
    busy, log, written = sqlite.connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert (busy, log) == (0, written)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        sqlite._looking._connection.execute("DELETE FROM item")


async def test_turns_go_on_while_a_list_is_read(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader waits in the middle of its work, on its own thread; a turn is committed meanwhile."""
    await posted(sqlite, NewItem("1"))
    reading, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    floor: Callable[..., int] = looking.SqliteLooking._floor

    def held(self: looking.SqliteLooking, *arguments: Any) -> int:
        loop.call_soon_threadsafe(reading.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        return floor(self, *arguments)

    monkeypatch.setattr(looking.SqliteLooking, "_floor", held)
    page = asyncio.create_task(sqlite.page(Filter(), "", 9, NOW, results=True))
    await reading.wait()
    await posted(sqlite, NewItem("1"))
    go_on.set()
    found = await page
    assert found is not None
    assert 1 <= len(found.items) <= 2


async def test_a_file_that_cannot_be_read_is_lost(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> int:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(looking.SqliteLooking, "_before", fails)
    with pytest.raises(StoreLost, match="disk I/O error"):
        await sqlite.page(Filter(), "", 9, NOW, results=True)
