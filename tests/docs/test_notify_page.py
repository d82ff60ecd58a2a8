"""docs/notify.md: its ten minutes are gone through as they stand there, to a bell that rings; its settings are ours."""

import asyncio
import re
import tomllib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import orjson
from websockets.asyncio.client import connect

from docs.snippets import Snippet, python, shell, snippets, started
from leaseway_notify.notify_toml import VARIABLES, settings_of
from leaseway_notify.policy import BUILT_IN
from leaseway_notify.service.app import create_app
from leaseway_notify.settings import Settings
from support.http_client import http_client
from support.ports import free_port

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "notify.md").read_text(encoding="utf-8")
BLOCKS: Final = {each.marker: each for each in snippets(PAGE) if each.marker}
PATIENCE: Final = 90.0


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
            async with python(block("notifier"), tmp_path) as process:
                output, errors = await process.communicate()
            assert (errors, b"('in_app', 'pending', '')" in output) == (b"", True)
            assert await rung(bell) == "The report is ready"
        async with python(block("make-token"), tmp_path) as process:
            output, _ = await process.communicate()
        made = orjson.loads(output.replace(b"'", b'"'))["token"]
        async with http_client(address) as client:
            inbox = await client.get("/inbox", headers={"Authorization": f"Bearer {made}"})
            assert len(inbox.json()["entries"]) == 2
            for script in re.findall(r'src="([^"]+)"', block("page").text):
                assert (await client.get(script)).status_code == 200


async def rung(bell: object) -> str:
    """The title of what came."""
    while True:
        said = orjson.loads(await bell.recv())  # type: ignore[attr-defined]
        if said["type"] == "entries":
            return str(said["entries"][-1]["title"])


def test_its_settings_are_all_there_are_with_their_defaults() -> None:
    said = tomllib.loads(BLOCKS["settings"].text)
    assert settings_of(said) == Settings()


def test_it_names_each_variable_each_type_and_each_path() -> None:
    for variable in VARIABLES:
        assert f"`{variable}`" in PAGE
    for name in BUILT_IN:
        assert f"| `{name}` |" in PAGE
    listed = PAGE.partition("## What the service answers")[2].partition("\n## ")[0]
    for route in create_app.__globals__["_PROGRAMS"] + create_app.__globals__["_RECIPIENTS"]:
        path = re.sub(r"\{(recipient|delivery):plain\}", "ID", route.path).removesuffix("{verb:plain}").rstrip("/")
        assert path in listed or path in ("/_health", "/announce"), path
