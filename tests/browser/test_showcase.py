"""The showcase in a real browser: pictures on both threads, Web Workers that break, and the queue between two tabs."""

import io
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import FilePayload, Locator, expect

from leaseway import Attempt, Worker
from support.browser import Tab, open_tab
from support.caddy import BLOCKS_SOCKETS, caddy
from support.examples import load_example
from support.node import SCRIPTS, find_node
from support.server import TestServer, open_queue, resize_queue, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "<img src=x onerror='document.title = 1'>"
PRIVATE = '[queues.resize]\naccess = { post = "users", fetch = "users", work = "users" }\n'
"""Has no schemas: any result is good."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Tab]:
    async with open_tab() as opened:
        expect.set_options(timeout=20_000)
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path_factory.mktemp("showcase"), resize_queue()) as running:
        yield running


@asynccontextmanager
async def showcase(browser: Tab, server: TestServer) -> AsyncIterator[Tab]:
    """A tab with the page; nothing of it may be against the server's policy."""
    tab = await browser.another()
    await tab.page.goto(f"{server.base_url}/_showcase")
    yield tab
    assert not [complaint for complaint in tab.complaints if "Failed to load resource" not in complaint]
    await tab.page.close()


def colourful() -> Image.Image:
    """Not one pixel is like its neighbours, and some colours are more than others."""
    bands = [Image.effect_noise((300, 200), spread) for spread in (40, 90, 20)]
    picture = Image.merge("RGB", bands)
    picture.paste((200, 30, 60), (0, 0, 130, 120))
    picture.paste((20, 60, 200), (200, 50, 300, 200))
    return picture


def as_png(picture: Image.Image, name: str = "picture.png") -> FilePayload:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": buffer.getvalue()}


DRAWING = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="6"><rect width="9" height="6"/></svg>'


def no_picture(name: str = "not.png") -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": b"no picture"}


def seen_in_node(picture: Image.Image) -> Any:
    pixels = picture.convert("RGBA").tobytes()
    told = subprocess.run([find_node(), str(SCRIPTS / "analyse.js")], input=pixels, capture_output=True, check=True)
    return json.loads(told.stdout)


async def pick(tab: Tab, *files: FilePayload) -> None:
    await tab.page.get_by_label("Pick pictures").set_input_files(list(files))


async def click(tab: Tab, button: str) -> None:
    await tab.page.get_by_role("button", name=button).click()


def picked(tab: Tab) -> Locator:
    return tab.page.locator("#pictures > li")


def posted(tab: Tab) -> Locator:
    return tab.page.locator("#posted > li")


async def left(tab: Tab, side: str) -> str:
    """How many of the bytes that were read the page still has."""
    return await tab.page.locator(f"#{side} [data-figure=left]").inner_text()


async def run(tab: Tab, button: str, last: str) -> None:
    await click(tab, button)
    await expect(tab.page.locator("#verdict")).to_contain_text(last)


async def test_both_threads_see_what_node_sees_and_a_run_can_be_made_again(
    browser: Tab, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resizing = load_example("resizing", monkeypatch)
    picture = colourful()
    file = as_png(picture)
    size = f"{len(file['buffer']):,}"
    async with showcase(browser, server) as tab:
        await pick(tab, file)
        await run(tab, "Run both", "in a Web Worker")
        await expect(picked(tab)).to_contain_text("both threads saw the same")
        await expect(picked(tab)).to_contain_text("300 × 200 pixels")
        expected = seen_in_node(picture)
        colours = await picked(tab).locator(".names li").all_inner_texts()
        assert colours == [found["colour"] for found in expected["colours"]]
        await expect(picked(tab)).to_contain_text(f"luminance {expected['luminance']:.4f}")
        assert expected["luminance"] == pytest.approx(resizing.luminance(picture), abs=1e-4)
        assert await left(tab, "here") == f"{size} of {size} bytes"
        assert await left(tab, "there") == f"0 of {size} bytes"

        await run(tab, "Only in the Web Worker", "in a Web Worker")
        await expect(picked(tab)).to_contain_text("both threads saw the same")
        assert await left(tab, "there") == f"0 of {size} bytes"


async def test_what_is_no_picture_is_told_and_the_others_are_looked_at(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab:
        whole = as_png(colourful())
        damaged = whole | {"name": "damaged.png", "buffer": whole["buffer"][:60]}
        empty: FilePayload = {"name": "empty.png", "mimeType": "image/png", "buffer": b""}
        drawing: FilePayload = {"name": "drawing.svg", "mimeType": "image/svg+xml", "buffer": DRAWING}
        large = as_png(Image.new("1", (8_000, 5_000)), "large.png")
        await pick(tab, no_picture(EVIL), damaged, empty, drawing, large, whole)
        await run(tab, "Run both", "in a Web Worker")
        await expect(picked(tab).nth(0)).to_contain_text(EVIL)
        for number in range(4):
            await expect(picked(tab).nth(number)).to_contain_text(
                "it has no pixels that can be read: it is damaged, empty"
            )
        await expect(picked(tab).nth(4)).to_contain_text("8000 × 5000 pixels are too many: 32 million are allowed")
        await expect(picked(tab).nth(5)).to_contain_text("both threads saw the same")
        await expect(tab.page).to_have_title(re.compile("Leaseway"))
        await click(tab, "Clear")
        await expect(picked(tab)).to_have_count(0)
        await expect(tab.page.get_by_role("button", name="Run both")).to_be_disabled()


async def test_pictures_can_be_dropped_and_drawn_and_looked_at_on_a_phone(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab:
        await tab.page.set_viewport_size({"width": 360, "height": 700})
        await tab.page.evaluate(
            """() => {
                const dataTransfer = new DataTransfer();
                dataTransfer.items.add(new File(["x"], "dropped.png"));
                const drop = new DragEvent("drop", { dataTransfer, cancelable: true });
                document.querySelector("#drop").dispatchEvent(drop);
            }"""
        )
        await expect(picked(tab)).to_contain_text("dropped.png")
        await pick(tab, as_png(colourful()))
        await run(tab, "Only in the Web Worker", "in a Web Worker")
        await expect(picked(tab).last).to_contain_text("seen in a Web Worker")
        await click(tab, "Draw three samples")
        await expect(picked(tab)).to_have_count(5)
        assert await tab.page.evaluate("document.documentElement.scrollWidth") == 360


async def test_the_frames_of_the_page_tell_whether_it_was_blocked(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab:
        told = await tab.page.evaluate(
            """async () => {
                const { measured } = await import("/_pages/showcase/frames.js");
                const act = async () => {
                    for (const until = performance.now() + 200; performance.now() < until; );
                    return "done";
                };
                let shown = 0;
                const { value, smoothness } = await measured(act, () => (shown += 1));
                const fail = () => Promise.reject(new Error("no"));
                const thrown = await measured(fail, () => {}).catch(({ message }) => message);
                return { value, ...smoothness, shown, thrown };
            }"""
        )
    assert (told["value"], told["thrown"]) == ("done", "no")
    assert told["worstMs"] >= 200
    assert told["ms"] >= 200
    assert told["frames"] == told["shown"] >= 1


async def test_frames_that_a_person_notices_are_red_in_light_and_dark(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab:
        for colours in ("light", "dark"):
            await tab.page.emulate_media(color_scheme=colours)
            painted, short, long = await tab.page.evaluate(
                """async () => {
                    const { Strip } = await import("/_pages/showcase/strip.js");
                    const canvas = document.querySelector("canvas");
                    const strip = new Strip(canvas);
                    const seen = [40, 400].map((frameMs) => {
                        strip.clear();
                        strip.add(frameMs);
                        const { width, height } = canvas;
                        const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
                        copy.drawImage(canvas, 0, 0);
                        const { data } = copy.getImageData(0, 0, width, height);
                        const last = data.findLastIndex((byte, at) => at % 4 === 3 && byte === 255);
                        return `rgb(${data.slice(last - 3, last).join(", ")})`;
                    });
                    const shown = ["accent", "bad"].map((name) => {
                        canvas.style.color = `var(--${name})`;
                        return getComputedStyle(canvas).color;
                    });
                    return [seen, ...shown];
                }"""
            )
            assert painted == [short, long]
            assert short != long


async def test_a_web_worker_that_breaks_ends_its_attempt_and_not_the_page(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab:
        await tab.page.get_by_text("And when a Web Worker breaks?").click()
        await click(tab, "Let one crash")
        await expect(tab.page.locator("#broken")).to_contain_text("HandlerCrashed")
        await click(tab, "Let one hang")
        await pick(tab, as_png(colourful()))  # The page goes on meanwhile.
        await run(tab, "Run both", "in a Web Worker")
        await expect(tab.page.locator("#broken")).to_contain_text("HandlerHung")
        await click(tab, "Let one crash")
        await expect(tab.page.locator("#broken")).to_contain_text("HandlerCrashed")


async def test_one_tab_posts_and_another_one_works(browser: Tab, server: TestServer) -> None:
    large = Image.merge("RGB", [Image.effect_noise((900, 700), 100)] * 3)
    async with showcase(browser, server) as producer, showcase(browser, server) as worker:
        await pick(producer, as_png(colourful()), no_picture(), as_png(large, "large.png"))
        await producer.page.get_by_label("New width").fill("60")
        await click(producer, "Post the pictures")
        figures = producer.page.locator("#figures")
        await expect(figures).to_contain_text("3 waiting, 0 at work, workers: 0. Work in this tab")
        await click(worker, "Work in this tab")
        await expect(producer.page.locator("#posted [data-status=finished]")).to_have_count(2)
        failed = producer.page.locator("#posted [data-status=failed]")
        await expect(failed).to_contain_text("not.png")
        await expect(failed).to_contain_text("it has no pixels that can be read")
        finished = posted(producer).filter(has_text="picture.png")
        await expect(finished).to_contain_text("worker showcase-")
        await expect(finished.locator(".names li").first).to_have_text(re.compile(r"^#[0-9a-f]{6}$"))
        image = finished.locator("img.result")
        sizes = await image.evaluate("image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])")
        assert sizes == [60, 40]
        await expect(worker.page.locator("#worked")).to_have_text("This tab is a worker: 2 done, 0 at work.")
        await click(worker, "Stop working")
        await expect(worker.page.locator("#worked")).to_have_text("This tab has stopped working.")
        await expect(figures).to_contain_text("workers: 0")


async def test_after_a_reload_what_was_posted_is_there_again_and_goes_on(browser: Tab, server: TestServer) -> None:
    async with showcase(browser, server) as tab, showcase(browser, server) as worker:
        await pick(tab, as_png(colourful(), f"{EVIL}.png"), as_png(colourful(), "other.png"))
        await tab.page.get_by_label("New width").fill("60")
        await click(tab, "Post the pictures")
        await expect(tab.page.locator("#posted [data-status=pending]")).to_have_count(2)
        await tab.page.reload()
        await expect(posted(tab).locator(".name")).to_have_text(["other.png", f"{EVIL}.png"])
        await expect(posted(tab).locator("img.thumbnail")).to_have_count(2)
        await click(worker, "Work in this tab")
        await expect(posted(tab).locator("img.result")).to_have_count(2)
        await tab.page.reload()
        await expect(posted(tab).locator("img.result")).to_have_count(2)
        one, *_ = await kept(tab)
        assert (await tab.page.request.delete(f"{server.base_url}/resize/items/{one}")).ok
        await tab.page.reload()
        await expect(posted(tab).locator("img.result")).to_have_count(1)
        assert one not in await kept(tab)
        await tab.page.evaluate("sessionStorage.clear()")
        await tab.page.reload()
        await expect(tab.page.locator("#connection")).to_have_attribute("data-state", "open")
        await expect(posted(tab)).to_have_count(0)


async def kept(tab: Tab) -> list[str]:
    """The ids of what the tab posted, as it keeps them."""
    found = await tab.page.evaluate("JSON.parse(sessionStorage.getItem('leaseway-showcase')).map(({ id }) => id)")
    return [str(each) for each in found]


async def test_where_a_proxy_blocks_sockets_it_says_so(browser: Tab, server: TestServer, tmp_path: Path) -> None:
    async with caddy(tmp_path, server.base_url, BLOCKS_SOCKETS) as proxy:
        tab = await browser.another()
        await tab.page.clock.install()
        await tab.page.goto(f"{proxy.base_url}/_showcase")
        await expect(tab.page.locator("#connection")).to_have_attribute("data-state", "lost")
        await tab.page.clock.fast_forward(11_000)
        await expect(tab.page.locator("#connection")).to_contain_text("A proxy in between seems to block WebSockets")
        async with tab.page.expect_event("websocket"):
            await tab.page.clock.fast_forward(31_000)  # It is tried again, and fails again.
        await tab.page.clock.fast_forward(31_000)
        await expect(tab.page.locator("#connection")).to_contain_text("A proxy in between seems to block WebSockets")
        await tab.page.context.close()


async def test_without_the_queue_the_page_says_how_to_get_it_and_the_rest_works(browser: Tab, tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as other, showcase(browser, other) as tab:
        await expect(tab.page.locator("#absent")).to_contain_text("[queues.resize]")
        await expect(tab.page.get_by_role("button", name="Post the pictures")).to_be_disabled()
        await pick(tab, as_png(colourful()))
        await run(tab, "Run both", "in a Web Worker")
        await expect(picked(tab)).to_contain_text("both threads saw the same")


async def test_a_token_is_asked_for_and_what_a_result_says_is_text(browser: Tab, tmp_path: Path) -> None:
    async with running_server(tmp_path, PRIVATE, users={"alice": []}) as private, showcase(browser, private) as tab:
        await expect(tab.page.locator("#connection")).to_have_attribute("data-state", "refused")
        await tab.page.get_by_label("Token").fill("no token of theirs")
        await click(tab, "Try again")
        await expect(tab.page.locator("#connection")).to_contain_text("printable ASCII")
        await tab.page.get_by_label("Token").fill(private.tokens["alice"])
        await click(tab, "Try again")
        await expect(tab.page.locator("#connection")).to_have_attribute("data-state", "open")
        await pick(tab, as_png(colourful()))
        worker = Worker(f"{private.ws_url}/resize", token=private.tokens["alice"], name=EVIL)

        @worker.handler
        async def answer(item: dict[str, Any], _attempt: Attempt) -> Any:
            evil = {"image": EVIL, "palette": [EVIL]}
            return evil if item["width"] == 1 else {**evil, "image": item["image"], "luminance": EVIL, "width": EVIL}

        async with worker:
            for width in ("1", "2"):
                await tab.page.get_by_label("New width").fill(width)
                await click(tab, "Post the pictures")
            await expect(tab.page.locator("#posted [data-status=finished]")).to_have_count(2)
        await expect(posted(tab).filter(has=tab.page.locator("img.result"))).to_contain_text("luminance NaN")
        await expect(posted(tab).last).to_contain_text("a result of another kind")
        await expect(posted(tab).last).to_contain_text(f"worker {EVIL}")
        await expect(tab.page).to_have_title(re.compile("Leaseway"))
        assert "ticket" not in tab.page.url
        assert private.tokens["alice"] not in tab.page.url
