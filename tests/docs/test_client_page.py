"""docs/client.md: its programs are run against a real server with a worker, and its figures are those of the code."""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, get_type_hints

import pytest

import leaseway
from docs.snippets import Snippet, python, snippets
from leaseway import Attempt, Client, LeasewayError, Options, Worker, errors, watch_state
from leaseway_server.core.queue import Limits
from support.server import TestServer, running_server

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/client.md").read_text(encoding="utf-8")
BLOCKS: Final = list(snippets(PAGE))
PROGRAMS: Final = {
    "post": r"(pending None\n)?(processing .*\n)*finished \{'percent': 50\}\n\{'echo': \{'hello': 'world'\}\}\n",
    "key": r"True True\n",
    "many": r"2500 posted\n\{'echo': \{'order': 2500\}\}\n\{'echo': \{'order': 2501\}\}\n",
    "typed": r"tea\n",
    "look": r"it is due in .*\nTrue\n(?P<id>\w+) cancelled\n(.* cancelled\n)*cancelled\n",
}
"""What each program prints."""


@asynccontextmanager
async def worked_on(folder: Path) -> AsyncIterator[TestServer]:
    """The open queue `demo`, and a worker that gives back what it gets."""
    async with running_server(folder) as server:
        worker = Worker(f"{server.ws_url}/demo", concurrency=8)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            await job.progress({"percent": 50})
            return {"echo": item}

        async with worker:
            yield server


@pytest.fixture(scope="module")
def programs() -> dict[str, Snippet]:
    return {snippet.marker: snippet for snippet in BLOCKS if snippet.language == "python"}


def test_each_program_is_run(programs: dict[str, Snippet]) -> None:
    assert programs.keys() == PROGRAMS.keys()
    assert [snippet.text for snippet in BLOCKS if snippet.language != "python"] == ["pip install leaseway\n"]


async def test_the_programs_do_what_is_said_of_them(programs: dict[str, Snippet], tmp_path: Path) -> None:
    async with worked_on(tmp_path) as server:
        running = [printed(programs[marker].at(server.base_url), tmp_path) for marker in PROGRAMS]
        for (marker, prints), output in zip(PROGRAMS.items(), await asyncio.gather(*running), strict=True):
            assert re.fullmatch(prints, output), (marker, output)


async def printed(program: Snippet, folder: Path) -> str:
    """What a program prints; it ends well."""
    async with python(program, folder) as process:
        output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return output.decode()


def rows(heading: str) -> str:
    """The table below a heading."""
    return re.search(rf"^## {heading}\n.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[0]  # type: ignore[index]


def test_the_page_has_every_option() -> None:
    named = re.findall(r"^\| `(\w+)` \|", rows("What a post can say"), re.MULTILINE)
    assert named == ["key", *get_type_hints(Options)]


def test_the_page_has_every_error_of_a_producer() -> None:
    tree = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, LeasewayError)}
    assert {name for name in tree if f"`{name}`" not in PAGE} == {"LeaseLost", "HandlerDied"}  # A worker's.
    assert tree <= set(leaseway.__all__)


def test_the_page_has_the_figures_of_the_code() -> None:
    defaults = {name: each.default for name, each in inspect.signature(Client).parameters.items()}
    assert f"`open_timeout` ({defaults['open_timeout']:.0f} s)" in PAGE
    assert f"`offline_timeout` ({defaults['offline_timeout']:.0f} s unless" in PAGE
    assert f"`timeout` ({inspect.signature(Client.post).parameters['timeout'].default:.0f} s)" in PAGE
    assert f"`UnknownItem`, within {watch_state.ANSWER_WITHIN:.0f} s" in PAGE
    assert f"at most {Limits().subscriptions:,} items at a time" in PAGE
    assert f"only up to {watch_state.WATCH_POSTS_UP_TO:,}" in PAGE
