"""What the tests of notifications share: an empty store of either kind, in which ada has a profile."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_notify.stores.store import SqlStore
from support.notify_stores import Opener, notify_store, profile
from support.stores import KINDS


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Opener]]:
    """Where the store is, and how to open it."""
    async with notify_store(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as place:
        yield place


@pytest.fixture
async def store(place: tuple[str, Opener]) -> AsyncIterator[SqlStore]:
    """A store in which ada has a profile."""
    async with await place[1]() as store:
        await store.save_profile(profile())
        yield store
