"""One browser for the tests of a file; each test has a tab of its own in it."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from support.browser import open_browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A real Chromium."""
    async with open_browser() as opened:
        yield opened
