"""The page at the server's address, in a real browser, with a real server and a real worker."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.async_api import FilePayload, Locator, expect

from leaseway import Attempt, Worker
from support.browser import Tab, open_tab
from support.examples import load_example
from support.server import TestServer, open_queue, resize_queue, running_server


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with open_tab() as opened:
        expect.set_options(timeout=20_000)
        yield opened


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TestServer]:
    """Serves the queue `resize` alone, so that the page has to find out which queue there is."""
    async with running_server(tmp_path, resize_queue()) as running:
        yield running


@pytest.fixture
def resize_worker(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The worker of the examples."""
    worker = load_example("resize_worker", monkeypatch).make_worker(f"{server.ws_url}/resize", name="box")
    assert isinstance(worker, Worker)
    return worker


def red_picture() -> FilePayload:
    buffer = io.BytesIO()
    Image.new("RGB", (120, 60), (255, 0, 0)).save(buffer, "PNG")
    return {"name": "red.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


async def open_page(tab: Tab, server: TestServer, query: str = "") -> None:
    await tab.page.goto(f"{server.base_url}/{query}")
    await expect(connection(tab)).to_have_attribute("data-state", "open")


async def post_picture(tab: Tab, picture: FilePayload) -> None:
    await tab.page.get_by_label("Picture to resize").set_input_files(picture)
    await tab.page.get_by_label("New width").fill("48")
    await tab.page.get_by_role("button", name="Post the picture").click()


async def post_json(tab: Tab, text: str) -> None:
    await tab.page.get_by_role("textbox", name="Item").fill(text)
    await tab.page.get_by_role("button", name="Post the item").click()


def connection(tab: Tab) -> Locator:
    return tab.page.locator("#connection")


def cards(tab: Tab) -> Locator:
    return tab.page.locator(".card")


async def test_a_picture_is_posted_and_its_result_is_seen(tab: Tab, server: TestServer, resize_worker: Worker) -> None:
    await open_page(tab, server)
    async with resize_worker:
        await post_picture(tab, red_picture())
        await expect(cards(tab)).to_have_attribute("data-status", "finished")
    picture = cards(tab).locator("dd img")
    assert await picture.evaluate("image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])") == [
        48,
        24,
    ]
    await expect(cards(tab)).to_contain_text("worker box-")
    await expect(cards(tab)).to_contain_text("0.2126")
    await expect(tab.page.locator("#news")).to_have_text("red.png → 48 px, jpg: finished")
    assert tab.complaints == []


async def test_a_sample_is_drawn_for_who_has_no_picture(tab: Tab, server: TestServer, resize_worker: Worker) -> None:
    await open_page(tab, server)
    async with resize_worker:
        await tab.page.get_by_role("button", name="Post a sample").click()
        await expect(cards(tab)).to_have_attribute("data-status", "finished")
    assert tab.complaints == []


async def test_a_picture_that_is_larger_than_an_item_is_made_smaller_first(tab: Tab, server: TestServer) -> None:
    noise = Image.effect_noise((1500, 1500), 100)
    buffer = io.BytesIO()
    noise.save(buffer, "PNG")
    await open_page(tab, server)
    await post_picture(tab, {"name": "noise.png", "mimeType": "image/png", "buffer": buffer.getvalue()})
    await expect(cards(tab)).to_have_attribute("data-status", "pending")
    await expect(tab.page.locator("#message")).to_contain_text("noise.png is larger than an item may be")


async def test_a_worker_s_fault_is_told(tab: Tab, server: TestServer, resize_worker: Worker) -> None:
    await open_page(tab, server)
    async with resize_worker:
        await post_picture(tab, {"name": "not.png", "mimeType": "image/png", "buffer": b"no picture"})
        await expect(cards(tab)).to_have_attribute("data-status", "failed")
    await expect(cards(tab)).to_contain_text("this is no readable PNG, JPEG or WebP picture")


async def test_what_the_schema_refuses_is_told_and_posts_nothing(tab: Tab, server: TestServer) -> None:
    await open_page(tab, server)
    await tab.page.get_by_text("Post JSON").click()
    await post_json(tab, '{"image": "no data URL"}')
    await expect(tab.page.locator("#message")).to_contain_text("/item/image")
    await post_json(tab, "{")
    await expect(tab.page.locator("#message")).to_contain_text("This is not JSON")
    await expect(cards(tab)).to_have_count(0)


async def test_text_of_an_item_or_a_result_never_becomes_html(tab: Tab, tmp_path: Path) -> None:
    evil = '<img src=x onerror="document.title = 1">'
    async with running_server(tmp_path, open_queue()) as server:
        worker = Worker(f"{server.ws_url}/demo", name=evil)

        @worker.handler
        async def echo(item: Any, attempt: Attempt) -> Any:
            await attempt.progress({"percent": 50, "stage": evil})
            return {evil: item, "error": {"message": evil}}

        await open_page(tab, server)
        async with worker:
            await post_json(tab, json.dumps(evil))
            await expect(cards(tab)).to_have_attribute("data-status", "finished")
        await expect(cards(tab).locator("dt").first).to_have_text(evil)
        await expect(cards(tab).locator("img[src=x]")).to_have_count(0)
        await expect(tab.page).to_have_title("Leaseway")
        assert tab.complaints == []


async def test_a_lost_connection_comes_back_and_misses_nothing(
    tab: Tab, server: TestServer, resize_worker: Worker
) -> None:
    await open_page(tab, server)
    await post_picture(tab, red_picture())
    await expect(cards(tab)).to_have_attribute("data-status", "pending")
    assert server.running.site is not None
    for socket in list(server.running.site.queues["resize"].sockets):
        await socket.drain()
    await expect(connection(tab)).to_have_attribute("data-state", "lost")
    async with resize_worker:
        await expect(cards(tab)).to_have_attribute("data-status", "finished")
    await expect(connection(tab)).to_have_attribute("data-state", "open")


async def test_a_queue_that_is_not_there_is_told(tab: Tab, server: TestServer) -> None:
    await tab.page.goto(f"{server.base_url}/?queue=nothing")
    await expect(connection(tab)).to_have_text("There is no queue of this name here.")


async def test_a_token_is_asked_for_used_and_kept_nowhere(tab: Tab, tmp_path: Path) -> None:
    toml = '[queues.private]\naccess = { post = "users", fetch = "users", work = "users" }\n'
    async with running_server(tmp_path, toml, users={"alice": ["post", "fetch"]}) as server:
        await tab.page.goto(f"{server.base_url}/?queue=private")
        await expect(connection(tab)).to_contain_text("asks for a token")
        await tab.page.get_by_label("Token").fill(server.tokens["alice"])
        await tab.page.get_by_role("button", name="Connect").click()
        await expect(connection(tab)).to_have_attribute("data-state", "open")
        await post_json(tab, "1")
        await expect(cards(tab)).to_have_attribute("data-status", "pending")
        kept = await tab.page.evaluate(
            "[location.href, document.documentElement.outerHTML, document.cookie,"
            " JSON.stringify({...localStorage, ...sessionStorage})].join()"
        )
    assert server.tokens["alice"] not in kept
