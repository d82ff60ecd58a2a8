"""The dashboard of a queue in a real browser, with a real server: what it shows, live, and what one does with it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from websockets.asyncio.client import connect

from leaseway import Attempt, Client, Failed, Permanent, Worker
from leaseway_server.core.commands import Found, Read
from support.dashboard import EVIL, Dashboard, dashboard
from support.server import TestServer, open_queue, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "q" * 63
QUEUES = (
    "live",
    "full",
    "looked",
    "room",
    "many",
    "turned",
    "evil",
    "large",
    "bulk",
    "busy",
    "keys",
    "skewed",
    "slept",
    "typed",
    LONG,
)
DAY_OFF = "const now = Date.now; Date.now = () => now() + {days} * 86_400_000;"
"""In the page: its clock is off by so many days."""
JUST_NOW = re.compile(r"^(just now|[1-9] s ago|\d\d s ago)$")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    """Each test has a queue of its own."""
    toml = "".join(open_queue(name, retry='{ delays = ["1ms"] }') for name in QUEUES)
    async with running_server(tmp_path_factory.mktemp("server"), toml, users={EVIL: []}) as running:
        yield running


async def test_all_queues_are_shown_live_at_two_pushes_a_second_in_all(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue("live") + open_queue("other")) as server:
        page = await dashboard(browser, server.base_url)
        await page.go()
        card = page.tab.page.locator(".cards li").filter(has_text="live")
        await expect(card).to_contain_text("empty · 0 workers")
        async with Client(f"{server.ws_url}/live") as queue:
            job = await queue.post(1)
            await expect(card).to_contain_text("1 pending")
            assert await job.cancel()
            await expect(card).to_contain_text("1 cancelled")
        assert {(path, hello["paceMs"], hello["paceOffsetMs"]) for path, hello in page.hellos} == {
            ("/live/monitor", 1000, 0),
            ("/other/monitor", 1000, 500),
        }
        page.hellos.clear()
        await card.get_by_role("link").click()
        await expect(page.tab.page.get_by_role("heading", level=1)).to_contain_text("live")
        await expect(page.rows.locator(".badge")).to_have_text(["cancelled"])
        assert [(path, hello["paceMs"]) for path, hello in page.hellos] == [("/live/monitor", 500)]
        await page.tab.page.context.close()
        assert page.complaints == []


async def test_a_card_has_room_for_figures_of_every_kind(page: Dashboard, server: TestServer) -> None:
    async with httpx.AsyncClient(base_url=f"{server.base_url}/room") as http:
        ids = [(await http.post("/items", json={"item": number})).json()["id"] for number in range(4)]
        await http.post("/claim", json={})
        await http.post("/result", json={"id": ids[1], "value": 1})
        await http.post(f"/items/{ids[2]}/cancel")
    await page.tab.page.set_viewport_size({"width": 390, "height": 800})
    await page.go()
    card = page.tab.page.locator(".cards li").filter(has_text="room")
    await expect(card.locator(".badge")).to_have_text(["1 pending", "1 processing", "1 finished", "1 cancelled"])
    edge = await card.evaluate("card => card.getBoundingClientRect().right")
    ends = await card.locator(".badge").evaluate_all("all => all.map((badge) => badge.getBoundingClientRect().right)")
    assert max(ends) < edge


async def test_who_looks_fetches_nothing_and_lists_no_results(page: Dashboard, server: TestServer) -> None:
    async with httpx.AsyncClient(base_url=f"{server.base_url}/looked") as http:  # Watches nothing, as a client would.
        ids = [str((await http.post("/items", json={"item": number})).json()["id"]) for number in range(2)]
        await http.post("/result", json={"id": ids[0], "value": "of use"})
        await page.open(f"looked/{ids[0]}")
        await expect(page.part("result")).to_contain_text("of use")
        await page.close_item()
        await page.rows.filter(has_text="pending").get_by_role("link").click()
        await expect(page.badge).to_have_text("pending")
        await http.post(f"/items/{ids[1]}/cancel")
        await expect(page.badge).to_have_text("cancelled")
        await http.post("/items", json={"item": "a turn that is synced: stamps go with it"})
    found = await server.engine("looked").ask(Read(tuple(ids)))
    assert isinstance(found, Found)
    assert [found.items[item_id].fetched_at for item_id in ids] == [0, 0]
    assert all(hello["stamp"] is False for _, hello in page.hellos)
    assert all("results=false" in url for url in page.asked if "/items?" in url)
    assert all(
        "stamp=false" in url for url in page.asked if re.search("/items/[0-9a-f]{16}$|/items/[0-9a-f]{16}[?]", url)
    )


async def test_an_item_is_shown_in_full_from_its_post_to_its_end(page: Dashboard, server: TestServer) -> None:
    go_on = asyncio.Event()
    worker = Worker(f"{server.ws_url}/full", name="box", concurrency=1)

    @worker.handler
    async def work(item: Any, attempt: Attempt) -> Any:
        if attempt.attempts == 1:
            raise ValueError("no luck yet")
        await attempt.progress({"percent": 40, "stage": "half"})
        await go_on.wait()
        return {"colours": ["#ff0000"], "of": item}

    await page.open("full")
    await page.post_json('{"hello": "world"}')
    await expect(page.badge).to_have_text("pending")
    await expect(page.part("why")).to_contain_text("no worker")
    await expect(page.part("item")).to_contain_text("world")
    async with worker:
        await expect(page.badge).to_have_text("processing")
        await expect(page.sheet.locator("progress")).to_have_js_property("value", 40)
        await expect(page.part("progress")).to_contain_text("half")
        await expect(page.part("error")).to_contain_text("no luck yet")
        failed = page.part("attempts").locator("tr[data-ending=failed]")
        await expect(failed).to_contain_text("its worker said that it failed")
        await expect(page.part("why")).to_contain_text("box-")
        await expect(page.workers).to_contain_text("box-")
        await expect(page.figure("workers")).to_have_text("1")
        go_on.set()
        await expect(page.badge).to_have_text("finished")
    await expect(page.part("result").locator(".colour")).to_have_text("#ff0000")
    await expect(page.part("times").locator("li")).to_contain_text(["posted", "last begun", "finished"])
    await expect(page.rows.locator(".badge")).to_have_text(["finished"])
    chart = page.tab.page.get_by_role("region", name="The last hour")
    await expect(chart).to_contain_text("1 posted, 1 finished, 0 failed or dead.")
    await page.tab.page.reload()
    await expect(page.badge).to_have_text("finished")


async def test_items_are_listed_by_page_and_filter(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/many") as queue:
        await queue.post_many([{"number": number} for number in range(59)])
        keyed = await queue.post("by name", key="the one", delay=3600)
    await page.open("many")
    await expect(page.rows).to_have_count(25)
    await expect(page.rows.first).to_have_attribute("data-id", keyed.id)
    seen = await page.listed()
    for number, count in ((2, 25), (3, 10)):
        await page.button("Older").click()
        await expect(page.tab.page.get_by_text(f"Page {number}")).to_be_visible()
        await expect(page.rows).to_have_count(count)
        seen |= await page.listed()
    assert len(seen) == 60
    await expect(page.button("Older")).to_be_disabled()
    await page.button("Newer").click()
    await expect(page.rows).to_have_count(25)

    for name, value, count in (
        ("key", "the one", 1),
        ("key", "another", 0),
        ("key", "", 25),
        ("postedBy", "nobody who is there", 0),
        ("postedBy", "", 25),
    ):
        await page.filter(name).fill(value)
        await page.button("List").click()
        await expect(page.rows).to_have_count(count)
    await page.filter("label").select_option("scheduled")
    await expect(page.rows).to_have_count(1)
    await page.filter("status").select_option("finished")
    await expect(page.tab.page.get_by_text("There is no such item.")).to_be_visible()


async def test_an_item_is_cancelled_retried_and_deleted(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/live") as queue:
        job = await queue.post("by hand")
    await page.open(f"live/{job.id}")
    await page.act("Cancel", "No")
    await expect(page.badge).to_have_text("pending")
    await page.act("Cancel", "Cancel it")
    await expect(page.badge).to_have_text("cancelled")
    await page.act("Retry")
    await expect(page.badge).to_have_text("pending")
    async with Client(f"{server.ws_url}/live") as queue:  # Still live, though it had ended.
        await (await queue.get(job.id)).cancel()
    await expect(page.badge).to_have_text("cancelled")
    await page.act("Delete", "Delete it")
    await expect(page.sheet).to_contain_text("It is deleted.")
    await page.tab.page.reload()
    await expect(page.sheet).to_contain_text("There is no such item")


async def test_a_question_goes_with_what_it_is_about(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/turned") as queue:
        job = await queue.post("asked about")
    question = page.tab.page.locator(".question")
    await page.open("turned")
    await page.rows.get_by_role("link", name=job.id).click()
    await page.act("Cancel")
    await expect(question).to_have_count(1)
    await page.tab.page.go_back()
    await expect(page.sheet).to_have_count(0)
    await expect(question).to_have_count(0)
    await page.button("Cancel all …").click()
    await expect(question).to_have_count(1)
    await page.tab.page.evaluate("location.hash = 'live'")
    await expect(question).to_have_count(0)
    await page.open(f"turned/{job.id}")
    await expect(page.badge).to_have_text("pending")
    await page.act("Cancel", "Cancel it")
    await expect(page.badge).to_have_text("cancelled")


async def test_all_of_a_list_are_handled_at_once_by_the_count_that_was_confirmed(
    page: Dashboard, server: TestServer
) -> None:
    async with Client(f"{server.ws_url}/bulk") as queue:
        await queue.post_many(list(range(40)))
    await page.open("bulk")
    told = page.tab.page.locator(".bulk p[role=status]")
    await page.filter("status").select_option("pending")
    await page.button("Cancel all …").click()
    await expect(page.tab.page.locator(".question")).to_contain_text("Cancel 40 items? (status \u2068pending\u2069)")
    await page.button("No").click()
    await expect(told).to_have_text("Nothing was changed.")
    await expect(page.figure("pending")).to_have_text("40")
    await page.button("Cancel all …").click()
    await page.button("Cancel 40 items").click()
    await expect(told).to_have_text("40 of 40 were changed.")
    await expect(page.figure("cancelled")).to_have_text("40")
    await page.button("cancelled").click()
    await expect(page.rows).to_have_count(25)
    await page.button("Retry all …").click()
    await page.button("Retry 40 items").click()
    await expect(page.figure("pending")).to_have_text("40")
    await page.button("Delete all …").click()
    await expect(told).to_have_text("There is nothing in the list to delete.")
    await page.button("pending").click()
    await page.button("Cancel all …").click()
    await expect(page.button("Cancel 40 items")).to_be_visible()
    async with Client(f"{server.ws_url}/bulk") as queue:
        await queue.post_many([40, 41])
    await page.button("Cancel 40 items").click()
    await expect(told).to_have_text("42 of 42 were changed. When they were counted there were 40.")


async def test_neither_a_long_name_nor_one_that_turns_its_direction_pushes_others_aside(
    page: Dashboard, server: TestServer
) -> None:
    tab = page.tab.page
    await tab.set_viewport_size({"width": 390, "height": 800})
    await page.go()
    await expect(tab.locator(".cards li")).to_have_count(len(QUEUES))
    too_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not await tab.evaluate(too_wide)
    async with Client(f"{server.ws_url}/{LONG}") as queue, AsyncExitStack() as sockets:
        for name in ("w" * 140, "\u202eturned", *(f"idle-{number}" for number in range(50)), "busy"):
            socket = await sockets.enter_async_context(connect(f"{server.ws_url}/{LONG}/work"))
            await socket.send(json.dumps({"hello": {"worker": name}}))
            await socket.recv()
        await page.open(LONG)
        await expect(page.workers).to_have_count(50)
        assert not await tab.evaluate(too_wide)
        assert await page.workers.first.locator("th").evaluate("name => name.clientWidth") < 300
        await expect(page.workers.nth(1).locator("th > bdi")).to_have_text("\u202eturned")
        await socket.send(json.dumps({"claim": {"waitMs": 60_000}}))
        job = await queue.post(1)
        await expect(page.workers.first).to_contain_text(f"busy{job.id}")


async def test_what_is_being_typed_is_not_yet_what_is_listed_or_handled(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/typed") as queue:
        await queue.post_many([1, 2])
        await page.open("typed")
        await expect(page.rows).to_have_count(2)
        await page.filter("key").press_sequentially("a k")
        await queue.post(3)
        await expect(page.rows).to_have_count(3)
    await page.filter("key").press("Enter")
    await expect(page.rows).to_have_count(0)


async def test_a_queue_that_is_not_there_is_told(page: Dashboard) -> None:
    for name in ("nothing", "Nothing", "%zz", "__proto__", "q" * 64):
        await page.go(name)
        await expect(page.tab.page.get_by_role("alert").first).to_contain_text(f"{name}: ")
    await page.button("Show what there is").click()
    await expect(page.tab.page.locator(".cards")).to_be_visible()


async def test_a_queue_is_paused_and_goes_on(page: Dashboard, server: TestServer) -> None:
    await page.open("turned")
    await page.button("Pause").click()
    await expect(page.tab.page.get_by_text("paused", exact=True)).to_be_visible()
    assert server.engine("turned").paused
    await page.button("Unpause").click()
    await expect(page.tab.page.get_by_text("paused", exact=True)).to_be_hidden()
    assert not server.engine("turned").paused


async def test_whatever_a_text_says_it_is_text(page: Dashboard, server: TestServer) -> None:
    token = server.tokens[EVIL]
    worker = Worker(f"{server.ws_url}/evil", name=EVIL, concurrency=1, token=token)

    @worker.handler
    async def echo(item: Any, attempt: Attempt) -> Any:
        if item == EVIL:
            raise Permanent(EVIL, code=EVIL, detail={EVIL: EVIL})
        if attempt.attempts == 1:
            raise ValueError(EVIL)
        await attempt.progress({"percent": EVIL, EVIL: EVIL})
        return {EVIL: item, "__proto__": EVIL}

    async with Client(f"{server.ws_url}/evil", token=token) as queue, worker:
        job = await queue.post({EVIL: EVIL}, key=EVIL, meta={EVIL: EVIL})
        await job.result()
        await page.open(f"evil/{job.id}")
        for part in ("item", "result", "facts", "progress", "attempts"):
            await expect(page.part(part)).to_contain_text(EVIL)
        await expect(page.part("result").locator("dt")).to_have_text([EVIL, "__proto__"])
        for column in ("by", "key", "worker"):
            await expect(page.rows.locator(f"[data-column={column}]")).to_contain_text(EVIL)
        await expect(page.workers.locator("th")).to_have_text(re.compile(f"^{re.escape(EVIL)}.*{re.escape(EVIL)}$"))
        failed = await queue.post(EVIL)
        with pytest.raises(Failed):
            await failed.result()
        await page.open(f"evil/{failed.id}")
        for part in ("item", "error"):
            await expect(page.part(part)).to_contain_text(EVIL)
        await page.close_item()
    for name in ("postedBy", "key"):
        await page.filter(name).fill(EVIL)
    await page.button("List").click()
    await expect(page.rows).to_have_count(1)
    await page.button("Retry all …").click()
    await expect(page.tab.page.locator(".bulk p[role=status]")).to_have_text("There is nothing in the list to retry.")
    await page.button("Delete all …").click()
    question = page.tab.page.locator(".question")
    await expect(question).to_contain_text(f"postedBy \u2068{EVIL}\u2069, key \u2068{EVIL}\u2069")
    await page.expect_no_markup()


async def test_a_large_result_is_shown_in_part_and_then_whole(page: Dashboard, server: TestServer) -> None:
    large = "x" * (800 * 1024)
    worker = Worker(f"{server.ws_url}/large")

    @worker.handler
    async def work(item: Any, attempt: Attempt) -> Any:
        return {"large": large}

    async with Client(f"{server.ws_url}/large") as queue, worker:
        job = await queue.post({"exact": 2**53 - 1, "float": 1e300, "rounded": [-(2**63) + 1]})
        await job.result()
    await page.open(f"large/{job.id}")
    rounded = page.part("item").locator("dd").filter(has_text="Whole numbers of over 53 bits are rounded here.")
    await expect(rounded).to_have_count(1)
    await expect(rounded).to_contain_text("-9223372036854776000")
    text = page.part("result").locator("pre")
    await expect(text).to_have_text("x" * 2_000)
    await page.button("Show all of it (800 KiB)").click()
    assert await text.evaluate("shown => shown.textContent.length") == len(large)


async def test_a_busy_queue_costs_two_pushes_a_second(page: Dashboard, server: TestServer) -> None:
    worker = Worker(f"{server.ws_url}/busy", concurrency=50)

    @worker.handler
    async def work(item: Any, attempt: Attempt) -> Any:
        for percent in range(0, 100, 50 if item else 1):
            await attempt.progress({"percent": percent})
        return item

    async with Client(f"{server.ws_url}/busy") as queue:
        jobs = await queue.post_many(list(range(500)))
        await page.open(f"busy/{jobs[0].id}")
        await expect(page.badge).to_have_text("pending")
        began = asyncio.get_running_loop().time()
        page.pushes.clear()
        async with worker:
            await asyncio.gather(*(job.result() for job in jobs))
    await expect(page.badge).to_have_text("finished")
    await expect(page.figure("finished")).to_have_text("500")
    took = asyncio.get_running_loop().time() - began
    assert 0 < len(page.pushes) <= 2 * took + 2


async def test_it_is_used_by_keyboard(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/keys") as queue:
        job = await queue.post(1)
    await page.open("keys")
    link = page.rows.get_by_role("link")
    await link.focus()
    await page.tab.page.keyboard.press("Enter")
    await expect(page.button("Close")).to_be_focused()
    await expect(page.sheet.get_by_role("button", name="Cancel")).to_be_visible()
    await page.tab.page.keyboard.press("Tab")
    await expect(page.sheet.get_by_role("button", name="Cancel")).to_be_focused()
    await page.tab.page.keyboard.press("Escape")
    await expect(page.sheet).to_have_count(0)
    await expect(link).to_be_focused()
    assert job.id not in page.tab.page.url
    await page.tab.page.get_by_label("Colours").select_option("dark")
    await page.tab.page.reload()
    await expect(page.tab.page.locator("html")).to_have_css("color-scheme", "dark")


@pytest.mark.parametrize("days", [-1, 1])
async def test_a_browser_whose_clock_is_a_day_off_shows_the_server_s_time(
    days: int, page: Dashboard, server: TestServer
) -> None:
    await page.tab.page.add_init_script(DAY_OFF.format(days=days))
    async with Client(f"{server.ws_url}/skewed") as queue:
        job = await queue.post(days)
        await page.open(f"skewed/{job.id}")
        await expect(page.rows.first.locator("time")).to_have_text(JUST_NOW)
        await expect(page.part("why").locator("time").last).to_have_text(JUST_NOW)
        await expect(page.figure("oldest ready")).to_have_text(JUST_NOW)
        assert await job.cancel()
        await expect(page.part("times").locator("li").last).to_have_text(re.compile(r"^cancelled .* m?s later\)$"))


async def test_after_a_laptop_s_sleep_it_shows_what_happened_meanwhile(page: Dashboard, server: TestServer) -> None:
    await page.tab.page.clock.install()
    await page.open("slept")
    asleep = await page.tab.page.evaluate("Date.now() / 1000 + 60")
    await page.tab.page.clock.pause_at(asleep)
    assert server.running.site is not None
    (socket,) = server.running.site.queues["slept"].sockets
    await socket.drain()  # The server gives up who sleeps.
    await expect(page.connection).to_have_attribute("data-state", "lost")
    async with Client(f"{server.ws_url}/slept") as queue:
        await queue.post("meanwhile")
        await page.tab.page.clock.fast_forward(3_600_000)
        await page.tab.page.clock.resume()
        await expect(page.connection).to_have_attribute("data-state", "open")
        await expect(page.rows.locator("time")).to_have_text(JUST_NOW)
        await queue.post("now")
        await expect(page.figure("pending")).to_have_text("2")
