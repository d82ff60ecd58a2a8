"""A real Chromium for tests of pages: the machine's own, never downloaded.

Where there is none the test is skipped; with CI=true, where nothing may be skipped, it fails.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

WHOLE = ("chromium", "chromium-browser", "google-chrome")
NAMES = ("chromium-headless-shell", *WHOLE)
"""The first shows a page in half the time: it has no windows, whose own parts would be pages too, nor notifications."""
# No sandbox, since tests may run as root; and nothing that talks to anybody but the page's server.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
)


@dataclass  # No slots: playwright remembers its listeners on their object.
class Tab:
    """A page, and what it complained about: exceptions, and errors on the console, as violations of its policy are."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def on_console(self, message: ConsoleMessage) -> None:
        """Notes what is worse than a remark."""
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def another(self) -> "Tab":
        """A second tab of the same browser, which shares nothing with this one."""
        browser = self.page.context.browser
        assert browser is not None
        return await new_tab(browser)


@asynccontextmanager
async def open_browser(*, whole: bool = False) -> AsyncIterator[Browser]:
    """A browser, for as long as it takes; a `whole` one has notifications too."""
    chromium = find_chromium(WHOLE if whole else NAMES)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


async def new_tab(browser: Browser) -> Tab:
    """A tab without a page yet, which shares nothing with others of the browser; close its page's context."""
    tab = Tab(await (await browser.new_context()).new_page())
    tab.page.on("console", tab.on_console)
    tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    return tab


@asynccontextmanager
async def open_tab() -> AsyncIterator[Tab]:
    """A tab of a fresh browser, without a page yet."""
    async with open_browser() as browser:
        yield await new_tab(browser)


def find_chromium(names: tuple[str, ...] = NAMES) -> str:
    """The path of a Chromium on this machine. Skips the test where there is none, or fails it (see above)."""
    found, missing = _search(names)
    if not missing:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@cache
def _search(names: tuple[str, ...]) -> tuple[str, str]:
    """The path, and what is missing."""
    found = next(filter(None, map(shutil.which, names)), "")
    if not found:
        return "", f"there is no Chromium on this machine (looked for {', '.join(names)})"
    driver = subprocess.run([sys.executable, "-m", "playwright", "--version"], capture_output=True, text=True)
    return found, "" if driver.returncode == 0 else f"playwright's driver does not run: {driver.stderr.strip()}"
