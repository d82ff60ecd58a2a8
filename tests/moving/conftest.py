"""What the tests of moves share: an empty place of each kind, and slices so small that a few items are many."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_server.moving import tables
from leaseway_server.store.place import PostgresUrl, SqliteFolder
from support.postgres import Postgres, fresh_database
from support.rehoused import House


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[House]:
    """A database of one's own."""
    async with fresh_database(postgres) as url:
        yield House(PostgresUrl(url))


@pytest.fixture
def folder(tmp_path: Path) -> House:
    """A folder of one's own, with nothing in it."""
    return House(SqliteFolder(tmp_path / "store"))


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, so that a few items are many steps."""
    monkeypatch.setattr(tables, "SLICE_ROWS", 6)
    monkeypatch.setattr(tables, "SLICE_CHARACTERS", 300_000)
