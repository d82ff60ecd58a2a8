"""The pictures of the pages in the README, taken anew from a real browser: `make screens-pages`.

    python tests/docs/page_screens.py

A server of its own works through an hour in a few seconds, so that there is something to be seen.
"""

import asyncio
import math
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.async_api import Browser, Locator, Page, expect

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from leaseway import Attempt, Client, Permanent, Worker
from leaseway_server.runtime.clock import Clock
from support.browser import open_browser
from support.server import TestServer, open_queue, resize_queue, running_server

SCREENS: Final = Path(__file__).resolve().parents[2] / "docs" / "screens"
MINUTE: Final = 60_000
WAITING: Final = 40
PATIENCE_MS: Final = 30_000
HELD: Final = "part"
"""A member of the items that are under way, or wait, in the pictures."""
OVER: Final = asyncio.Event()
"""The pictures are taken: work that is under way can end."""


class LastHour(Clock):
    """A clock that is an hour late, until it has caught up."""

    def __init__(self) -> None:
        super().__init__()
        self._offset -= 3_600

    def move_to(self, minute: int) -> None:
        """It is in the middle of that minute now, where it is not later: what belongs together falls into one."""
        self._offset += max(0, (minute + 0.5) * MINUTE - self.now()) / 1_000

    def catch_up(self) -> None:
        """It is as late as it is."""
        self._offset += max(0, Clock().now() - self.now()) / 1_000


async def main() -> None:
    """Takes all."""
    SCREENS.mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    clock = LastHour()
    toml = "".join(open_queue(name, retry='{ delays = ["1ms"] }') for name in ("primes", "mail")) + resize_queue()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_server(Path(folder), toml, clock=clock) as server,
            open_browser() as browser,
            _at_work(server, clock) as shown,
        ):
            await _take_dashboard(browser, server, shown)
            await _take_showcase(browser, server)


@asynccontextmanager
async def _at_work(server: TestServer, clock: LastHour) -> AsyncIterator[str]:
    """An hour of work is done, some is under way, and some waits; gives an item that is under way."""
    workers = [Worker(f"{server.ws_url}/primes", name=f"box-{number}", concurrency=2) for number in (1, 2, 3)]
    for worker in workers:
        worker.handler(_work)
    async with Client(f"{server.ws_url}/primes") as queue, workers[0], workers[1], workers[2]:
        begin = clock.now() // MINUTE
        for minute in range(60):
            clock.move_to(begin + minute)
            many = round(14 + 10 * math.sin(minute / 7) + minute * 7 % 5)
            jobs = await queue.post_many([{"from": minute * 1000 + number, "to": 0} for number in range(many)])
            await asyncio.gather(*(job.result() for job in jobs), return_exceptions=True)
        clock.catch_up()
        first = await queue.post({"from": 0, "to": 1_000_000, HELD: 1}, key="the first million", max_attempts=5)
        async for view in first.watch():
            if view.status == "processing" and view.progress and view.attempts > 1:
                break
        await queue.post_many([{"from": number, "to": 0, HELD: number} for number in range(2, WAITING)])
        try:
            yield first.id
        finally:
            OVER.set()


async def _work(item: Any, attempt: Attempt) -> Any:
    """Counts nothing: it takes as long as the picture needs."""
    if item["from"] % 97 == 3:
        raise Permanent("the range is empty")
    if HELD not in item:
        return {"primes": 168}
    if item[HELD] == 1 and attempt.attempts == 1:
        raise OSError("the disk of this machine is full")
    await attempt.progress({"percent": 62, "stage": "sieving", "primes": 50_121})
    await OVER.wait()
    return {"primes": 78_498}


async def _take_dashboard(browser: Browser, server: TestServer, item: str) -> None:
    page = await browser.new_page(viewport={"width": 1120, "height": 1060}, color_scheme="light")
    await page.goto(f"{server.base_url}/#primes")
    await expect(page.locator(".connection")).to_have_attribute("data-state", "open")
    await page.locator(".filters [name=status]").select_option("processing")
    await expect(page.locator("tr[data-id]")).to_have_count(6)
    await _save(page, "dashboard-light")
    await page.emulate_media(color_scheme="dark")
    await page.goto(f"{server.base_url}/#primes/{item}")
    await expect(page.locator("dialog [data-part=attempts] tbody tr")).to_have_count(1)
    await _save(page, "dashboard-dark")
    await page.set_viewport_size({"width": 390, "height": 1060})
    await page.get_by_role("button", name="Close").click()
    await page.evaluate("scrollTo(0, 0)")
    await _save(page, "dashboard-phone")


async def _take_showcase(browser: Browser, server: TestServer) -> None:
    page = await browser.new_page(viewport={"width": 1120, "height": 1060}, color_scheme="light")
    await page.goto(f"{server.base_url}/_showcase")
    await page.get_by_role("button", name="Draw three samples").click()
    await page.get_by_role("button", name="Run both").click()
    await expect(page.locator("#verdict")).to_contain_text("in a Web Worker")
    await _save(page.locator("section[aria-labelledby=threads-title]"), "showcase")
    await page.get_by_role("button", name="Work in this tab").click()
    await page.get_by_role("button", name="Post the pictures").click()
    await expect(page.locator("#posted img.result")).to_have_count(3)
    await _save(page.locator("#queue"), "showcase-queue")


async def _save(shown: Page | Locator, name: str) -> None:
    path = SCREENS / f"{name}.png"
    await shown.screenshot(path=path)
    _reduced(Image.open(path).convert("RGB")).save(path, optimize=True)
    print(path, path.stat().st_size, "bytes")


def _reduced(picture: Image.Image) -> Image.Image:
    """The picture in its 256 most frequent colours, a third as large: a page is made of few, and keeps them."""
    bands = picture.tobytes()
    counted = Counter(zip(bands[::3], bands[1::3], bands[2::3], strict=True)).most_common(256)
    palette = Image.new("P", (1, 1))
    palette.putpalette([band for colour, _ in counted for band in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


if __name__ == "__main__":
    asyncio.run(main())
