"""Posting by hand on the dashboard: the form that is made from a queue's schema, and JSON where none can be."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import FilePayload, expect

from leaseway import Worker
from support.dashboard import EVIL, Dashboard
from support.examples import load_example
from support.server import OPEN_ACCESS, TestServer, open_queue, resize_queue, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHAPES = {
    "type": "object",
    "required": ["name", "count", "mode"],
    "$defs": {
        "percent": {"type": "number", "minimum": 0, "maximum": 100},
        "tree": {"type": "object", "properties": {"leaf": {"type": "integer"}, "tree": {"$ref": "#/$defs/tree"}}},
    },
    "properties": {
        "name": {"type": "string", "title": "A name", "minLength": 1},
        "count": {"type": "integer", "default": 3},
        "mode": {"enum": ["slow", "fast", 7]},
        "share": {"$ref": "#/$defs/percent", "description": "in per cent"},
        "sure": {"type": "boolean"},
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "__proto__": {"type": "string"},
        "inner": {"type": "object", "properties": {"depth": {"type": "integer"}, "left out": {"type": "string"}}},
        "tree": {"$ref": "#/$defs/tree"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
}
FILLED = {"name": "some", "count": 3, "mode": "slow"}
EVIL_SCHEMA = {
    "title": EVIL,
    "type": "object",
    "required": [EVIL],
    "properties": {
        EVIL: {"type": "string", "const": EVIL, "description": EVIL, "default": EVIL},
        "named": {"type": "string", "title": EVIL, "pattern": "^<", "description": EVIL},
        "chosen": {"enum": [EVIL, {EVIL: EVIL}]},
        "inner": {"title": EVIL, "type": "object", "properties": {"deep": {"type": "integer", "title": EVIL}}},
    },
}
FORMLESS: list[Any] = [
    True,
    {"type": "array", "items": {"type": "integer"}},
    {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "integer"}]},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "if": {"required": ["a"]}, "then": False},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    """A queue for each kind of schema."""
    folder = tmp_path_factory.mktemp("server")
    schemas = {
        "shapes": SHAPES,
        "evil": EVIL_SCHEMA,
        **{f"formless-{number}": schema for number, schema in enumerate(FORMLESS)},
    }
    tables = []
    for name, schema in schemas.items():
        (folder / name).mkdir()
        (folder / name / "item.json").write_text(json.dumps(schema))
        tables.append(f'[queues.{name}]\nschemas = "{folder / name}"\naccess = {OPEN_ACCESS}\n')
    async with running_server(folder, resize_queue() + open_queue("free") + "".join(tables)) as running:
        yield running


@pytest.fixture
def resize_worker(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The worker of the examples."""
    worker = load_example("resize_worker", monkeypatch).make_worker(f"{server.ws_url}/resize", name="box")
    assert isinstance(worker, Worker)
    return worker


def picture(image: Image.Image) -> FilePayload:
    """As a file that a person chooses."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"name": "some.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


async def posted(page: Dashboard) -> Any:
    """The item that the page posted last."""
    await expect(page.badge).to_be_visible()
    _, _, place = page.tab.page.url.partition("#")
    queue, _, item_id = place.partition("/")
    response = await page.tab.page.request.get(f"{page.base_url}/{queue}/items/{item_id}/item")
    return json.loads(await response.text())


async def test_a_picture_is_posted_and_its_result_is_seen(page: Dashboard, resize_worker: Worker) -> None:
    await page.open("resize")
    async with resize_worker:
        await page.posting.get_by_label("image").set_input_files(picture(Image.new("RGB", (120, 60), (255, 0, 0))))
        await page.posting.get_by_label("format").select_option("png")
        await page.posting.get_by_label("width").fill("48")
        await page.button("Post the item").click()
        await expect(page.badge).to_have_text("finished")
    shown = page.part("result").locator("img")
    measured = await shown.evaluate("image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])")
    assert measured == [48, 24]


async def test_a_sample_is_drawn_and_what_is_too_large_is_made_smaller(page: Dashboard) -> None:
    await page.open("resize")
    await page.open_posting()
    await page.posting.get_by_label("width").fill("320")
    await page.posting.get_by_role("button", name="Draw a sample").click()
    await page.button("Post the item").click()
    assert (await posted(page))["image"].startswith("data:image/jpeg;base64,")
    await page.close_item()
    await page.posting.get_by_label("image").set_input_files(picture(Image.effect_noise((1500, 1500), 100)))
    await page.button("Post the item").click()
    await expect(page.badge).to_be_visible()
    assert 100_000 < len((await posted(page))["image"]) < 917_504


async def test_a_form_has_a_field_for_each_kind_of_value(page: Dashboard) -> None:
    await page.open("shapes")
    field = page.posting.get_by_label
    await expect(field("count")).to_have_value("3")
    await page.button("Post the item").click()
    await expect(field("A name")).to_be_focused()  # The browser itself asks for what is needed.
    await field("A name").fill("some")
    await field("count").fill("12345678901234567890")
    await field("mode").select_option("7")
    await field("share").fill("12.5")
    await field("sure").select_option("false")
    await field("tags").fill('["a"]')
    await field("__proto__").fill("a name like another")
    await field("depth").fill("2")
    await field("leaf").last.fill("4")
    await page.button("Post the item").click()
    assert await posted(page) == {
        "name": "some",
        "count": 12345678901234567890,
        "mode": 7,
        "share": 12.5,
        "sure": False,
        "tags": ["a"],
        "__proto__": "a name like another",
        "inner": {"depth": 2},
        "tree": {"tree": {"tree": {"leaf": 4}}},
    }


async def test_what_is_refused_is_told_where_it_is_and_posts_nothing(page: Dashboard, server: TestServer) -> None:
    before = sum(server.engine("shapes").tally.counts.values())
    await page.open("shapes")
    await page.open_posting()
    field, alert = page.posting.get_by_label, page.posting.locator(".fault")
    await field("A name").fill("some")
    await field("tags").fill("[1]")
    await page.button("Post the item").click()
    await expect(field("tags")).to_have_attribute("aria-invalid", "true")
    await expect(page.posting).to_contain_text("It was not posted: see what is marked.")
    await field("tags").fill("[")
    await page.button("Post the item").click()
    await expect(alert.filter(has_text="This is not JSON")).to_be_visible()
    await field("tags").fill("")
    await page.posting.get_by_label("Write it as JSON").check()
    await expect(page.posting.locator("textarea")).to_have_value(json.dumps(FILLED, indent=2))
    await page.post_json('{"name": 1}')
    await expect(alert.filter(has_text="/item/name")).to_be_visible()
    assert sum(server.engine("shapes").tally.counts.values()) == before


async def test_whatever_a_schema_says_it_is_text(page: Dashboard) -> None:
    await page.open("evil")
    await expect(page.posting.locator("legend")).to_have_text(EVIL)
    for text in ("label", "small", "option"):
        await expect(page.posting.locator(text).filter(has_text=EVIL).first).to_be_attached()
    await page.posting.get_by_role("textbox").first.fill(EVIL.upper().removeprefix("<"))
    await page.button("Post the item").click()
    await expect(page.posting).to_contain_text("It was not posted: see what is marked.")
    await page.expect_no_markup()
    await page.posting.get_by_label("Write it as JSON").check()
    await page.post_json(json.dumps({EVIL: EVIL, "chosen": EVIL[:-1]}))
    await expect(page.posting.locator(".fault").filter(has_text="/item")).to_be_visible()
    await page.post_json(EVIL)
    await expect(page.posting.locator(".fault").filter(has_text="This is not JSON")).to_contain_text("<script>")
    await page.expect_no_markup()


async def test_where_no_form_can_be_made_the_item_is_written_as_json(page: Dashboard) -> None:
    for number in range(len(FORMLESS)):
        await page.open(f"formless-{number}")
        await expect(page.posting.get_by_role("textbox", name="Item as JSON")).to_be_visible()
        await expect(page.posting.get_by_label("Write it as JSON")).to_have_count(0)


async def test_json_goes_out_as_it_was_written_with_what_else_was_said(page: Dashboard, server: TestServer) -> None:
    await page.open("free")
    await page.posting.get_by_label("Key").fill("a key")
    await page.posting.get_by_label("Priority").fill("7")
    await page.posting.get_by_label("Delay").fill("3600")
    await page.post_json('{"n": 9007199254740993, "__proto__": [1.0, 1e-7]}')
    await expect(page.badge).to_have_text("scheduled")
    assert await posted(page) == {"n": 9007199254740993, "__proto__": [1.0, 1e-7]}
    await expect(page.part("facts")).to_contain_text("a key")
    await expect(page.part("facts").locator("dd").nth(1)).to_have_text("7")
    await page.close_item()
    await page.post_json("another")
    await expect(page.posting.locator(".fault").filter(has_text="This is not JSON")).to_be_visible()
    await page.post_json('"another"')
    await expect(page.posting.locator(".fault").filter(has_text="key")).to_be_visible()
    assert sum(server.engine("free").tally.counts.values()) == 1
