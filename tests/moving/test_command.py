"""`leaseway move`: what it says and how it ends, also where it is killed."""

import asyncio
import io
import json
import random
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leaseway_server.core.errors import StoreRefused
from leaseway_server.moving.command import Line, move
from leaseway_server.store.place import PostgresUrl, SqliteFolder
from support.postgres import Postgres, fresh_database
from support.rehoused import House, content, fill

KILLED = """
import os, signal
from leaseway_server.moving import command, tables
tables.SLICE_ROWS = 5
left = int(os.environ["LEFT"])
def tell(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
command.Line.tell = tell
command.move()
"""


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    """A database of one's own."""
    async with fresh_database(postgres) as url:
        yield url


@pytest.fixture
async def filled(tmp_path: Path) -> House:
    """A folder with a queue."""
    house = House(SqliteFolder(tmp_path / "store"))
    await fill(house, random.Random(1), ("demo",))  # noqa: S311
    return house


async def call(*words: object) -> Result:
    """The command, where no loop runs."""
    result = await asyncio.to_thread(CliRunner().invoke, move, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


async def test_it_tells_what_was_moved(filled: House, url: str) -> None:
    told = await call(filled.place, url)
    assert (told.exit_code, told.stderr) == (0, "")
    first, second = told.stdout.splitlines()
    assert first.startswith("demo: 40 items, 6 results, ")
    assert " attempts. Both sides agree (digest " in first
    assert second.startswith("2 tokens moved. It took ")
    assert second.endswith(f" s. Let the server use {PostgresUrl(url)} now.")
    again = await call(filled.place, url)
    assert (again.exit_code, again.stdout) == (0, "demo: all of it was moved there before.\n")


async def test_it_tells_programs_what_was_moved_and_taken_back(filled: House, url: str) -> None:
    told = await call(filled.place, url, "--json", "--queues", "demo")
    assert (told.exit_code, told.stderr) == (0, "")
    said = json.loads(told.stdout)
    [queue] = said.pop("queues")
    assert said.pop("seconds") > 0
    assert said == {"from": str(filled.place), "to": str(PostgresUrl(url)), "already": [], "tokens": 2}
    assert (queue["name"], queue["items"], queue["results"], len(queue["digest"])) == ("demo", 40, 6, 32)
    told = await call(filled.place, url, "--json")
    assert (json.loads(told.stdout)["queues"], json.loads(told.stdout)["already"]) == ([], ["demo"])
    told = await call(filled.place, url, "--undo", "--json")
    assert json.loads(told.stdout) == {"from": str(filled.place), "to": str(PostgresUrl(url)), "undone": ["demo"]}


async def test_it_tells_people_what_was_taken_back(filled: House, url: str) -> None:
    await call(filled.place, url)
    told = await call("--undo", filled.place, url)
    assert told.stdout == f"Taken back: demo. Servers may use {filled.place} again.\n"
    assert (await call("--undo", filled.place, url)).stdout == "There was nothing to take back.\n"
    await call(filled.place, url)
    gone = url.replace("127.0.0.1", "127.0.0.9")
    assert (await call("--undo", filled.place, gone)).exit_code == 1
    told = await call("--undo", "--force", filled.place, gone)
    assert told.stdout == f"Taken back: demo. Servers may use {filled.place} again.\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["sqlite:a", "sqlite:b"], 2, "FROM and TO are of one kind."),
        (["postgresql://a", "postgresql://b"], 2, "FROM and TO are of one kind."),
        (["sqlite:a", "mysql://ann:s3cr3t@h"], 2, 'expected "sqlite:" and a folder'),
        (["sqlite:a", "postgresql://ann:s3cr3t@x@h"], 2, "expected the URL of a database"),
        (["sqlite:a", "postgresql://h", "--force"], 2, "--force goes with --undo."),
        (["sqlite:a", "postgresql://h", "--tokens", "none"], 2, "'none' is not one of 'same', 'add', 'leave'"),
        (["sqlite:a", "postgresql://h", "--queues", ","], 2, "expected the names of queues, such as a,b"),
        (["sqlite:a"], 2, "Missing argument 'TO'"),
        (["sqlite:a", "postgresql://ann:s3cr3t@127.0.0.1:1/x"], 1, "the database ann@127.0.0.1:1/x cannot be reached"),
        (["postgresql://ann:s3cr3t@127.0.0.1:1/x", "sqlite:a"], 1, "the database ann@127.0.0.1:1/x cannot be reached"),
    ],
)
async def test_what_hinders_it(tmp_path: Path, words: list[str], status: int, said: str) -> None:
    told = await call(*(word.replace("sqlite:", f"sqlite:{tmp_path}/") for word in words))
    assert (told.exit_code, told.stdout) == (status, "")
    assert said in told.stderr
    assert "s3cr3t" not in told.stderr
    assert files_in(tmp_path) == []


async def test_a_way_that_broke_off_is_told_with_what_to_do(filled: House, url: str) -> None:
    file = filled.place.folder / "demo.db"  # type: ignore[union-attr]
    with_bad_key = "UPDATE item SET key = 'a' || char(0) WHERE seq = (SELECT max(seq) FROM item)"
    await asyncio.to_thread(_run, file, with_bad_key)
    told = await call(filled.place, url)
    assert told.exit_code == 1
    error, advice = told.stderr.splitlines()
    where = str(PostgresUrl(url)).partition("//")[2]
    assert error.startswith(f"Error: the database {where} does not take what it was given: ")
    assert advice.startswith("What was copied is kept, and no server uses either store now: run the same command again")


def files_in(folder: Path) -> list[Path]:
    """All that is there."""
    return list(folder.iterdir())


def _run(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = Line()
    line.tell("demo", "copying", 1_000, 2_000)
    line.tell("demo", "copying", 1_001, 2_000)
    line.tell("demo", "comparing", 2_000, 2_000)
    first, last, empty = terminal.getvalue().split("\r\033[K")[1:]
    assert first == "demo: copying, 1,000 of 2,000 rows"
    assert last == "demo: comparing, 2,000 of 2,000 rows"
    assert empty == ""
    monkeypatch.setattr(sys, "stderr", plain := io.StringIO())
    Line().tell("demo", "copying", 1_000, 2_000)
    assert plain.getvalue() == ""


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
async def test_a_move_that_is_killed_goes_on(filled: House, url: str, tmp_path: Path, back: bool) -> None:
    before = await content(filled, "demo")
    source, target = filled, House(PostgresUrl(url))
    if back:
        await call(filled.place, url)
        source, target = target, House(SqliteFolder(tmp_path / "back"))
    words = [each.url if isinstance(each, PostgresUrl) else str(each) for each in (source.place, target.place)]
    for left in (3, 9):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, *words, env={"LEFT": str(left), "PYTHONPATH": ":".join(sys.path)}
        )
        assert await process.wait() == -signal.SIGKILL
        for house in (source, target):
            with pytest.raises(StoreRefused, match="that did not end"):
                async with house.opened("demo"):
                    pass
    assert (await call(*words)).exit_code == 0
    assert await content(target, "demo") == before
