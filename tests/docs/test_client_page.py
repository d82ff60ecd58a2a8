"""docs/client.md: followed in its order, as a person would, it does what it says; its figures are those of the code."""

import inspect
import re
from pathlib import Path
from typing import Final, get_type_hints

import leaseway
from docs.snippets import Snippet, python, serving, snippets
from leaseway import Client, LeasewayError, Options, errors, watch_state
from leaseway_server.core.queue import Limits

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


def test_the_page_begins_with_what_its_programs_need() -> None:
    assert [snippet.marker for snippet in BLOCKS] == ["install", "serve", "worker", *PROGRAMS]
    install, serve, *_ = BLOCKS
    assert (install.commands, serve.commands) == (
        ["pip install leaseway"],
        ["pip install 'leaseway[server]'", "leaseway serve"],
    )


async def test_the_programs_do_what_is_said_of_them_one_after_the_other(tmp_path: Path) -> None:
    _install, serve, worker, *programs = BLOCKS
    async with (
        serving(serve.commands[1], tmp_path) as (url, _server),
        python(worker.at(url), tmp_path),
    ):
        for program in programs:
            output = await printed(program.at(url), tmp_path)
            assert re.fullmatch(PROGRAMS[program.marker], output), (program.marker, output)


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
