"""The dashboard's table on a queue of a million items, in a real Chromium: pages, filters, and items in full.

    python tests/benchmarks/table.py [--items 1000000] [--pages 200]

The items are written straight into a queue's file, then a real server process starts on it. Each step is timed in the
page, from what the person does to the frame that shows what came of it. In the end the page may hold no more than at
its beginning, or this fails. The suite does the same with a few thousand.
"""

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from playwright.async_api import CDPSession, expect

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]  # This is started as a script.

from benchmarks.backlogs import configure, fill  # noqa: E402
from leaseway_server.bench.process import make_way, serving  # noqa: E402
from support.browser import open_browser  # noqa: E402
from support.dashboard import Dashboard, dashboard  # noqa: E402

LONE: Final = "somebody who posted the oldest item and no other"
WHERE: Final = "section[aria-labelledby=items] p[role=status]"
"""What the table says of its page, written anew with each page that is shown."""
IN_FULL: Final = (
    "['item', 'why', 'times'].every((part) => document.querySelector(`dialog [data-part=${part}]`)?.firstChild)"
)
PAGE: Final = 25
MORE_NODES: Final = 1.2
MORE_HEAP: Final = 2_000_000
"""By so much the page may have grown after a walk: a factor, and bytes. A page of 25 items has about 500 nodes; some
1 MB of heap comes in any walk, of 15 pages or of 400.
"""


@dataclass(frozen=True, slots=True)
class Weight:
    """What the page holds after its garbage was collected: nodes, also those that are not shown, and bytes of heap."""

    nodes: int
    heap: int


@dataclass
class Walk:
    """A walk through the table; `took` has the milliseconds of each step by its name."""

    page: Dashboard
    cdp: CDPSession
    took: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def step(self, name: str, act: str, until: str = "true", watched: str = WHERE) -> None:
        """Does something in the page and waits until what is watched changed, and the expression holds."""
        took = await self.page.tab.page.evaluate(
            f"""() => new Promise((resolve) => {{
                const seen = new MutationObserver(() => {{
                    if (!({until})) return;
                    seen.disconnect();
                    requestAnimationFrame(() => resolve(performance.now() - began));
                }});
                seen.observe(document.querySelector("{watched}"), {{ childList: true, subtree: true }});
                const began = performance.now();
                {act};
            }})"""
        )
        self.took[name].append(took)

    async def turn(self, button: str, name: str = "") -> None:
        """To the page beside this one: `Older` or `Newer`."""
        press = f"[...document.querySelectorAll('button')].find((one) => one.textContent === '{button}').click()"
        await self.step(name or f"page: {button}", press)

    async def list_by(self, name: str, **values: str) -> None:
        """Lists what these fields of the filter say; those that are not named are emptied."""
        fields = ["status", "label", "postedBy", "key"]
        fill_in = [f"form.elements.{each}.value = {values.get(each, '')!r}" for each in fields]
        form = "const form = document.querySelector('.filters')"
        await self.step(name, "; ".join([form, *fill_in, "form.requestSubmit()"]))

    async def find(self, name: str, **values: str) -> None:
        """The same, and on until there is something: a page is only looked for among so many items at once."""
        await self.list_by(name, **values)
        while not await self.page.rows.count():
            await expect(self.page.tab.page.get_by_text("There is no such item.")).to_be_hidden()
            await expect(self.page.button("Older")).to_be_enabled()
            await self.turn("Older", f"{name}, on")

    async def open_and_close(self, number: int) -> None:
        """One item of the page in full, and back."""
        click = f"document.querySelectorAll('tr[data-id] a')[{number}].click()"
        await self.step("an item in full", click, IN_FULL, "body")
        await self.step(
            "back to the table",
            "document.querySelector('dialog button').click()",
            "!document.querySelector('dialog')",
            "body",
        )

    async def weight(self) -> Weight:
        """What the page holds now."""
        await self.cdp.send("HeapProfiler.collectGarbage")
        counters = await self.cdp.send("Memory.getDOMCounters")
        usage = await self.cdp.send("Runtime.getHeapUsage")
        return Weight(counters["nodes"], int(usage["usedSize"]))


async def begin(page: Dashboard) -> Walk:
    """Opens the queue."""
    walk = Walk(page, await page.tab.page.context.new_cdp_session(page.tab.page))
    await page.open("bench")
    await expect(page.rows).to_have_count(PAGE)
    return walk


async def through(walk: Walk, items: int, pages: int, opened: int = PAGE) -> tuple[Weight, Weight]:
    """The whole walk, over so many pages there and back. Gives the weight at the first page, before and after.

    `opened` items of the first page are looked at in full.
    """
    page = walk.page
    await walk.list_by("no filter")
    before = await walk.weight()
    seen = await page.listed()
    for _ in range(pages):
        await walk.turn("Older")
        seen |= await page.listed()
    assert len(seen) == min(items, (pages + 1) * PAGE), "an item was shown twice, or left out"
    for _ in range(pages):
        await walk.turn("Newer")
    assert await page.listed() <= seen
    for number in range(opened):
        await walk.open_and_close(number)
    for status in ("pending", "finished", "failed", "dead"):
        await walk.find(f"status {status}", status=status)
        await expect(page.rows.locator(f".badge[data-status={status}]")).to_have_count(PAGE)
    await walk.find("label scheduled", label="scheduled")
    await expect(page.rows.get_by_text("scheduled")).to_have_count(PAGE)
    await walk.find("poster of all", postedBy="ann")
    await expect(page.rows).to_have_count(PAGE)
    await walk.find("poster of the oldest alone", postedBy=LONE)
    await expect(page.rows).to_have_count(1)
    await walk.list_by("key of none", key="none")
    await expect(page.tab.page.get_by_text("There is no such item.")).to_be_visible()
    await walk.list_by("no filter")
    return before, await walk.weight()


def check(before: Weight, after: Weight) -> None:
    """Raises `AssertionError` where the page grew with what it went through."""
    assert after.nodes <= before.nodes * MORE_NODES, f"the page has {after.nodes} nodes, and had {before.nodes}"
    assert after.heap <= before.heap + MORE_HEAP, f"the page's heap is {after.heap} bytes, and was {before.heap}"


def write(file: Path, items: int) -> int:
    """Fills a new store with about so many items, a third of them ended, a third delayed; says how many there are."""
    fill(file, items // 3)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE item SET posted_by = ? WHERE seq = (SELECT min(seq) FROM item)", (LONE,))
    return items // 3 * 3


async def main(items: int, pages: int) -> None:
    """Walks, and prints."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure(Path(folder))
        print(f"writing {items:,} items …", file=sys.stderr)
        count = await asyncio.to_thread(write, Path(folder) / "data" / "bench.db", items)
        make_way()
        async with (
            serving("leaseway_server", "--config", str(config), "--log", "terminal") as server,
            open_browser() as browser,
        ):
            walk = await begin(await dashboard(browser, f"http://127.0.0.1:{server.port}"))
            before, after = await through(walk, count, pages)
    print(f"{count:,} items\n{'':32}{'times':>6}{'p50 ms':>9}{'max ms':>9}")
    for name, took in walk.took.items():
        print(f"{name:32}{len(took):>6}{statistics.median(took):>9.1f}{max(took):>9.1f}")
    for name, weight in (("before", before), ("after", after)):
        print(f"the page {name}: {weight.nodes:,} nodes, {weight.heap / 1e6:.1f} MB of heap")
    check(before, after)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    asyncio.run(main(options.items, options.pages))
