"""The table of items in a real browser, on a few thousand of them; `make campaign-table` has a million."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from benchmarks.backlogs import MATCH
from benchmarks.table import begin, check, through, write
from support.dashboard import Dashboard
from support.server import TestServer, open_queue, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = 3_000
PAGES = 15
OPENED = 5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    """A queue that has them already."""
    folder = tmp_path_factory.mktemp("server")
    await asyncio.to_thread(write, folder / "data" / "bench.db", ITEMS)
    async with running_server(folder, open_queue("bench", match=json.dumps(MATCH))) as running:
        yield running


async def test_a_long_table_is_walked_through_and_the_page_holds_no_more_than_before(page: Dashboard) -> None:
    walk = await begin(page)
    check(*await through(walk, ITEMS, PAGES, OPENED))
    assert len(walk.took["page: Older"]) == PAGES
