"""docs/notify.md: its ten minutes are gone through as they stand there, to a bell that rings; its settings are ours."""

import asyncio
import re
import tomllib
from contextlib import AsyncExitStack
from email.message import EmailMessage
from pathlib import Path
from typing import Final, get_args

import orjson
import pytest
from websockets.asyncio.client import connect

from docs.snippets import Snippet, python, shell, snippets, started
from leaseway_notify.delivery import Reason
from leaseway_notify.notify_toml import VARIABLES, settings_of
from leaseway_notify.policy import BUILT_IN
from leaseway_notify.profile import Preferences
from leaseway_notify.service.app import create_app
from leaseway_notify.settings import Settings
from support.execution_scene import execution_scene
from support.http_client import http_client
from support.ports import free_port

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "notify.md").read_text(encoding="utf-8")
BLOCKS: Final = {each.marker: each for each in snippets(PAGE) if each.marker}
PATIENCE: Final = 90.0


@pytest.mark.timeout(2 * PATIENCE)  # Ten seconds on two quiet cores.
async def test_ten_minutes_from_an_event_to_a_bell(tmp_path: Path) -> None:
    ports = {"127.0.0.1:8787": f"127.0.0.1:{free_port()}", "127.0.0.1:8790": f"127.0.0.1:{free_port()}"}

    def block(marker: str) -> Snippet:
        """As it stands on the page, with ports that are free."""
        found = BLOCKS[marker]
        for mine, free in ports.items():
            found = found.replacing(mine, free) if mine in found.text else found
        return found

    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        await shell(block("configure").text, tmp_path)
        await shell(block("origins").text, tmp_path)
        for line in block("start").lines:
            words = line.removesuffix(" &").split()
            process = await stack.enter_async_context(
                started(*words, folder=tmp_path, LEASEWAY_LISTEN=ports["127.0.0.1:8787"])
            )
            assert process.stderr is not None
            async for printed in process.stderr:
                if b"serving http" in printed or b"working on" in printed:
                    break
        assert "in_app   pending" in await shell(block("event").text, tmp_path)
        address, _, token = (await shell(block("open").text, tmp_path)).strip().partition("#token=")
        async with connect(f"{address.replace('http', 'ws')}inbox/live", proxy=None) as bell:
            await bell.send(orjson.dumps({"token": token, "after": 0}).decode())
            assert await rung(bell) == "Bob mentioned you"
            await shell(block("again").text, tmp_path)
            assert await rung(bell) == "Bob mentioned you again"
            async with python(block("notifier"), tmp_path) as process:
                output, errors = await process.communicate()
            assert (errors, b"('in_app', 'pending', '')" in output) == (b"", True)
            assert await rung(bell) == "The report is ready"
        async with python(block("make-token"), tmp_path) as process:
            output, _ = await process.communicate()
        made = orjson.loads(output.replace(b"'", b'"'))["token"]
        async with http_client(address) as client:
            inbox = await client.get("/inbox", headers={"Authorization": f"Bearer {made}"})
            assert len(inbox.json()["entries"]) == 3
            for script in re.findall(r'src="([^"]+)"', block("page").text):
                answer = await client.get(script, headers={"Origin": "http://127.0.0.1:8000"})
                assert answer.status_code == 200
                assert answer.headers["Access-Control-Allow-Origin"] == "http://127.0.0.1:8000"


async def rung(bell: object) -> str:
    """The title of what came."""
    while True:
        said = orjson.loads(await bell.recv())  # type: ignore[attr-defined]
        if said["type"] == "entries":
            return str(said["entries"][-1]["title"])


def test_its_settings_are_all_there_are_with_their_defaults() -> None:
    said = tomllib.loads(BLOCKS["settings"].text)
    assert settings_of(said) == Settings()


async def test_its_template_makes_a_mail(tmp_path: Path) -> None:
    (tmp_path / "system.html.j2").write_text(BLOCKS["template"].text)
    async with execution_scene(tmp_path, email={"templates": str(tmp_path)}) as scene:
        delivery = await scene.plan(type="system", title="The report", payload={"url": "https://app.example/1"})
        await scene.attempt(delivery)
        assert await scene.told(delivery) == ("sent", "")
        html = scene.mails[0].get_body(("html",))
    assert isinstance(html, EmailMessage)
    assert '<a href="https://app.example/1">The report</a>' in html.get_content()


def test_its_preferences_are_some() -> None:
    said = orjson.loads(BLOCKS["preferences"].text)
    assert Preferences.of(said).as_json() == said


def test_it_names_each_variable_each_reason_each_type_and_each_path() -> None:
    for reason in filter(None, get_args(Reason)):
        assert f"`{reason}`" in PAGE, reason
    for variable in VARIABLES:
        assert f"`{variable}`" in PAGE
    for name in BUILT_IN:
        assert f"| `{name}` |" in PAGE
    listed = PAGE.partition("## What the service answers")[2].partition("\n## ")[0]
    for route in create_app.__globals__["_PROGRAMS"] + create_app.__globals__["_RECIPIENTS"]:
        path = re.sub(r"\{(recipient|delivery)\}", "ID", route.path_format).removesuffix("{verb}").rstrip("/")
        assert path in listed or path == "/announce", path
