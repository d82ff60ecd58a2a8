"""Every command, by a table: what it prints where, and with which status it ends where the output cannot be written.

A command that is not in the table, or in `ELSEWHERE` with the test that has it, fails.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import click
import httpx
import pytest
from click.testing import CliRunner

from leaseway.cli import main
from support.command_line import CommandLine, Output, command_line
from support.process import server_process
from support.server import open_queue

# In this order: what is retried is what is cancelled behind it.
TABLE: Final = {
    "items": ["items", "URL"],
    "why": ["why", "URL", "WAITING"],
    "retry": ["retry", "URL", "CANCELLED"],
    "cancel": ["cancel", "URL", "CANCELLED"],
    "delete": ["delete", "URL", "--key", "nobody's", "--yes"],
    "pause": ["pause", "URL"],
    "unpause": ["unpause", "URL"],
    "top": ["top", "URL", "--once"],
    "post": ["post", "URL", "1"],
    "watch": ["watch", "URL", "FINISHED"],
    "check": ["check"],
    "token new": ["token", "new", "alice"],
    "token list": ["token", "list"],
    "backup": ["backup", "FRESH"],
    "completion": ["completion", "bash"],
    "--help": ["--help"],
    "--version": ["--version"],
}
ELSEWHERE: Final = {
    "serve": "tests/server/test_commands.py: it prints nothing",
    "token revoke": "tests/server/test_commands.py: its token is gone after the first time",
    "bench": "tests/end_to_end/test_bench.py: it takes seconds",
    "demo": "tests/end_to_end/test_cli_demo.py: it takes seconds",
    "move": "tests/moving/test_command.py: it needs two stores",
    "work": "tests/client/test_cli_work.py: it prints a document an attempt",
}
NO_JSON: Final = {"completion", "--help", "--version", "serve", "demo"}
"""What prints nothing that a program would read otherwise."""
ESCAPE: Final = "\x1b"


def commands() -> dict[str, click.Command]:
    """All that there are, subcommands with their group's name."""
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": each for below, each in command.commands.items()}
        else:
            found[name] = command
    return found


COMMANDS: Final = commands()


class Scene:
    """A server with an item that waits, one that was cancelled and one that finished, and the command line."""

    def __init__(self, run: CommandLine, places: dict[str, str], folder: Path) -> None:
        self._run = run
        self._places = places
        self._folder = folder
        self._number = 0

    async def run(self, name: str, output: Output, *more: str, **environment: str) -> tuple[int, str, str]:
        """The command of that name of the table."""
        self._number += 1
        places = self._places | {"FRESH": str(self._folder / f"fresh-{self._number}")}
        words = [places.get(word, word) for word in TABLE[name]]
        ended = await self._run([*words, *more], output, LEASEWAY_STORE=f"sqlite:{self._folder}/data", **environment)
        assert "Traceback" not in ended.err, ended.err
        return ended.status, ended.out, ended.err


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    (folder / "run").mkdir()
    async with (
        server_process(folder, open_queue()) as server,
        httpx.AsyncClient(base_url=server.base_url) as http,
        command_line(folder / "run") as run,
    ):
        posted = await http.post("/demo/items", json=[{"item": 1}, {"item": 2}, {"item": 3, "priority": 1}])
        waiting, cancelled, finished = (each["id"] for each in posted.json()["items"])
        await http.post(f"/demo/items/{cancelled}/cancel")
        claimed = (await http.post("/demo/claim", json={})).json()
        await http.post("/demo/result", json={"id": claimed["id"], "attempts": 1, "value": None})
        places = {
            "URL": f"{server.base_url}/demo",
            "WAITING": waiting,
            "CANCELLED": cancelled,
            "FINISHED": finished,
        }
        yield Scene(run, places, folder)


def test_each_command_is_in_a_table() -> None:
    assert sorted(COMMANDS) == sorted({*TABLE, *ELSEWHERE} - {"--help", "--version"})


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_a_help_that_can_be_read(name: str) -> None:
    command = COMMANDS[name]
    with click.Context(command, info_name=f"leaseway {name}", terminal_width=100) as context:
        told = command.get_help(context)
    assert re.search(rf"^  Examples?:\n    leaseway {name}\b", told, re.MULTILINE), told
    first = told.splitlines()[2].strip()
    assert first.endswith("."), first
    assert len(first) < 80, "it is cut in the list of commands"
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert all(option.help for option in options), [option.name for option in options if not option.help]
    assert ("--json" in told) == (name not in NO_JSON)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_wrong_usage_ends_with_2_and_prints_nothing(name: str) -> None:
    told = CliRunner().invoke(main, [*name.split(), "--nonsense"])
    assert (told.exit_code, told.stdout) == (2, "")
    assert "--nonsense" in told.stderr


@pytest.mark.parametrize("name", [name for name, words in TABLE.items() if "URL" in words])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_server_that_cannot_be_reached_ends_with_3(name: str, more: list[str]) -> None:
    places = {"URL": "http://127.0.0.1:1/demo", **dict.fromkeys(("WAITING", "CANCELLED", "FINISHED"), "0" * 16)}
    told = CliRunner().invoke(main, [*(places.get(word, word) for word in TABLE[name]), *more])
    assert (told.exit_code, told.stderr) == (3, "Error: cannot reach http://127.0.0.1:1: nobody listens there\n")
    assert told.stdout in ("", "[]\n"), "or what was done before"


@pytest.mark.timeout(120)
async def test_each_command_of_the_table(tmp_path: Path) -> None:
    async with scene(tmp_path) as there:
        await plain_in_a_file_and_json_in_one_document(there)
        await no_colour_on_a_terminal_where_none_is_wanted(there)
        await what_cannot_be_written_is_told_and_ends_with_1(there)
        await without_standard_descriptors_it_works_all_the_same(there)


async def plain_in_a_file_and_json_in_one_document(there: Scene) -> None:
    for name in TABLE:
        status, out, _ = await there.run(name, Output.FILE)
        assert (status, ESCAPE in out, bool(out.strip())) == (0, False, True), name
    for name in [name for name in TABLE if name not in NO_JSON]:
        status, out, _ = await there.run(name, Output.FILE, "--json")
        assert (status, out.count("\n")) == (0, 1), name
        json.loads(out)


async def no_colour_on_a_terminal_where_none_is_wanted(there: Scene) -> None:
    for name in TABLE:
        status, out, _ = await there.run(name, Output.TERMINAL, NO_COLOR="1")
        assert (status, ESCAPE in out, bool(out.strip())) == (0, False, True), name
    for name in ("items", "top"):
        assert ESCAPE in (await there.run(name, Output.TERMINAL))[1], "or this test could not fail"


async def what_cannot_be_written_is_told_and_ends_with_1(there: Scene) -> None:
    full = "Error: cannot write the output: No space left on device"
    for name in TABLE:
        status, _, err = await there.run(name, Output.FULL_DISK)
        assert (status, err.splitlines()[-1:]) == (1, [full]), name
        status, _, err = await there.run(name, Output.CLOSED_PIPE)
        assert (status, "pipe" in err) == (1, False), (name, err)


async def without_standard_descriptors_it_works_all_the_same(there: Scene) -> None:
    for name in TABLE:
        assert (await there.run(name, Output.NONE))[0] == 0, name
