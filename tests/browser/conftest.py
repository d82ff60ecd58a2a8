"""One browser for the tests of a file; each test has a tab of its own in it."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from support.browser import open_browser
from support.dashboard import Dashboard, dashboard
from support.server import TestServer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A real Chromium."""
    async with open_browser() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: TestServer) -> AsyncIterator[Dashboard]:
    """The dashboard of the file's server. In the end nothing was complained of: no error, no breach of the policy."""
    shown = await dashboard(browser, server.base_url)
    yield shown
    await shown.tab.page.context.close()
    assert shown.complaints == []
