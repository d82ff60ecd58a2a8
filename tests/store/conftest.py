"""What the tests of stores share: a new store of either kind, whose clock stands at `NOW`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from leaseway_server.store.base import Store
from support.model import NOW
from support.stores import KINDS, opener


@pytest.fixture(params=KINDS)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """How to open the same queue, as often as its server begins anew; a test closes what it opened."""
    async with opener(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as open_store:
        yield lambda: open_store(lambda: NOW)


@pytest.fixture
async def store(opened: Callable[[], Awaitable[Store]]) -> AsyncIterator[Store]:
    """A new store."""
    store = await opened()
    yield store
    await store.close()
