"""axe-core finds nothing on any page: in light, in dark, on a phone, under the policy that the server sends."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import FilePayload, expect

from leaseway import Attempt, Client, Permanent, Worker
from support.axe import faults_in, faults_in_all_looks
from support.dashboard import Dashboard
from support.server import OPEN_ACCESS, TestServer, open_queue, resize_queue, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "of whom it is for"},
        "many": {"type": "integer"},
        "mode": {"enum": ["slow", "fast"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "picture": {"type": "string", "pattern": "^data:image/"},
        "inner": {"type": "object", "properties": {"depth": {"type": "integer"}}},
    },
}

NO_PICTURE: FilePayload = {"name": "not.png", "mimeType": "image/png", "buffer": b"no picture"}
NO_SOCKETS = """
window.WebSocket = class {
    close() {}
    constructor() {
        queueMicrotask(() => this.onclose({ code: 1006, reason: "" }));
    }
};
"""
"""In the page: each socket ends before it stands, as where a proxy blocks them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    """A queue that is at work, one with a schema, and the showcase's."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "formed").mkdir()
    (folder / "formed" / "item.json").write_text(json.dumps(SCHEMA))
    formed = f'[queues.formed]\nschemas = "{folder / "formed"}"\naccess = {OPEN_ACCESS}\n'
    toml = open_queue("work", retry='{ delays = ["1ms"] }') + formed + resize_queue()
    async with running_server(folder, toml) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def held(server: TestServer) -> AsyncIterator[str]:
    """The id of an item that is under way and failed before; others are in each other state."""
    over = asyncio.Event()
    worker = Worker(f"{server.ws_url}/work", name="box", concurrency=1)

    @worker.handler
    async def work(item: Any, attempt: Attempt) -> Any:
        if item == "bad":
            raise Permanent("it can never succeed")
        if item == "good":
            return {"colours": ["#ff0000"], "done": True}
        if attempt.attempts == 1:
            raise ValueError("no luck yet")
        await attempt.progress({"percent": 40, "stage": "half"})
        await over.wait()
        return None

    async with Client(f"{server.ws_url}/work") as queue, worker:
        ends = [await queue.post(item) for item in ("good", "bad")]
        await asyncio.gather(*(job.result() for job in ends), return_exceptions=True)
        assert await (await queue.post("withdrawn", delay=3600)).cancel()
        job = await queue.post("held", key="a key", meta={"by": "hand"})
        async for view in job.watch():
            if view.progress:
                break
        await queue.post_many(["waits", "waits too"])
        yield job.id
        over.set()


# ── What is looked at: each brings the page there ──


async def sign_in(page: Dashboard, _held: str) -> None:
    await page.go()
    await page.button("Sign in").click()
    await page.sign_in("lw_nobody")
    await expect(page.tab.page.get_by_role("alert")).to_contain_text("not valid")


async def overview(page: Dashboard, _held: str) -> None:
    await page.go()
    await expect(page.tab.page.locator(".cards")).to_contain_text("1 processing")


async def queue(page: Dashboard, _held: str) -> None:
    await page.tab.page.request.post(f"{page.base_url}/work/pause")
    await page.open("work")
    await expect(page.rows).to_have_count(6)
    await expect(page.tab.page.get_by_text("paused", exact=True)).to_be_visible()


async def item(page: Dashboard, held: str) -> None:
    await page.open(f"work/{held}")
    await expect(page.part("attempts").locator("tbody tr")).to_have_count(1)
    await expect(page.part("progress")).to_contain_text("half")


async def item_that_is_finished(page: Dashboard, _held: str) -> None:
    await page.open("work")
    await page.filter("status").select_option("finished")
    await page.rows.get_by_role("link").first.click()
    await expect(page.part("result").locator(".colour")).to_have_text("#ff0000")


async def bulk_confirm(page: Dashboard, _held: str) -> None:
    await page.open("work")
    await page.button("Cancel all …").click()
    await expect(page.button("Cancel 3 items")).to_be_visible()


async def post_form(page: Dashboard, _held: str) -> None:
    await page.open("formed")
    await page.posting.get_by_label("name").fill("some")
    await page.posting.get_by_label("tags").fill("[1]")
    await page.posting.get_by_role("button", name="Draw a sample").click()
    await page.button("Post the item").click()
    await expect(page.posting).to_contain_text("It was not posted: see what is marked.")


async def no_such_queue(page: Dashboard, _held: str) -> None:
    await page.go("nothing")
    await expect(page.button("Show what there is")).to_be_visible()


async def no_such_item(page: Dashboard, _held: str) -> None:
    await page.open("work/0123456789abcdef")
    await expect(page.sheet).to_contain_text("There is no such item")


async def no_connection(page: Dashboard, _held: str) -> None:
    await page.tab.page.add_init_script(NO_SOCKETS)
    await page.go("work")
    await expect(page.connection).to_have_attribute("data-state", "lost")
    await expect(page.rows).to_have_count(6)


async def showcase(page: Dashboard, _held: str) -> None:
    shown = page.tab.page
    await shown.goto(f"{page.base_url}/_showcase")
    await shown.get_by_label("Pick pictures").set_input_files([picture(), NO_PICTURE])
    await shown.get_by_role("button", name="Only in the Web Worker").click()
    await expect(shown.locator("#pictures .names")).to_have_count(1)
    await shown.get_by_text("And when a Web Worker breaks?").click()
    await shown.get_by_label("New width").fill("60")
    await shown.get_by_role("button", name="Work in this tab").click()
    await shown.get_by_role("button", name="Post the pictures").click()
    await expect(shown.locator("#posted [data-status=finished]")).to_have_count(1)
    await expect(shown.locator("#posted [data-status=failed]")).to_have_count(1)


def picture() -> FilePayload:
    """A small one, as a file that a person picks."""
    buffer = io.BytesIO()
    Image.new("RGB", (120, 80), (200, 30, 60)).save(buffer, "PNG")
    return {**NO_PICTURE, "name": "one.png", "buffer": buffer.getvalue()}


Screen = Callable[[Dashboard, str], Awaitable[None]]
SCREENS: list[Screen] = [sign_in, overview, queue, item, item_that_is_finished, bulk_confirm, post_form]
SCREENS += [no_such_queue, no_such_item, no_connection, showcase]


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.__name__)
async def test_nothing_is_found_on(screen: Screen, page: Dashboard, held: str) -> None:
    await screen(page, held)
    assert await faults_in_all_looks(page.tab.page) == []


async def test_what_becomes_of_an_open_item_is_said_where_it_is_heard(page: Dashboard, server: TestServer) -> None:
    """While a dialog is open, all outside of it is kept from who listens."""
    async with Client(f"{server.ws_url}/formed") as queue:
        job = await queue.post({"name": "said"}, delay=3600)
        await page.open(f"formed/{job.id}")
        await expect(page.badge).to_have_text("scheduled")
        assert await job.cancel()
    await expect(page.badge).to_have_text("cancelled")
    devtools = await page.tab.page.context.new_cdp_session(page.tab.page)
    tree = (await devtools.send("Accessibility.getFullAXTree"))["nodes"]
    assert f"{job.id}: cancelled" in {node["name"]["value"] for node in tree if not node["ignored"] and "name" in node}


async def test_who_goes_elsewhere_is_at_its_heading(page: Dashboard, held: str) -> None:
    shown = page.tab.page
    await overview(page, held)
    heading = shown.get_by_role("heading", level=1)
    await expect(heading).not_to_be_focused()
    await shown.get_by_role("main").get_by_role("link", name="formed").press("Enter")
    await expect(heading).to_have_accessible_name("formed")
    await expect(heading).to_be_focused()
    await page.button("Sign in").click()
    await expect(shown).to_have_title("Sign in · Leaseway")
    await expect(shown.get_by_label("Token")).to_be_focused()


async def test_what_is_wrong_is_found(page: Dashboard, held: str) -> None:
    await queue(page, held)
    await page.tab.page.evaluate(
        """() => {
            const pale = document.createElement("p");
            pale.textContent = "hardly to be read";
            pale.style.color = "light-dark(#ccc, #444)";
            document.querySelector("main").append(pale, document.createElement("input"));
        }"""
    )
    found = await faults_in(page.tab.page)
    assert sorted(fault.partition(":")[0] for fault in found) == ["color-contrast (serious)", "label (critical)"]
