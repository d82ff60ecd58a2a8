"""`leaseway watch` on a real server: what it shows in a pipe and on a terminal, and how it ends."""

import asyncio
import json
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client.cli_scene import COMMAND, PATIENCE, Commands, ask, watched
from leaseway import watch_state
from leaseway.cli.watch import _follow as follow_open
from leaseway.cli.watch_screen import Screen, TerminalScreen, note
from leaseway.protocol import View
from support.server import open_queue, running_server

NOBODY = "0" * 16


@asynccontextmanager
async def demo(folder: Path, **keys: str) -> AsyncIterator[Commands]:
    async with running_server(folder, open_queue(**keys)) as server:
        yield Commands(f"{server.base_url}/demo")


async def post(there: Commands, item: Any) -> str:
    return str((await ask(there.url, "POST", "items", {"item": item}))["id"])


async def claim(there: Commands) -> dict[str, Any]:
    got = await ask(there.url, "POST", "claim", {"worker": "box-1"})
    return {"id": got["id"], "attempts": got["attempts"]}


async def finish(there: Commands, value: Any = None) -> None:
    await ask(there.url, "POST", "result", await claim(there) | {"value": value})


async def fail(there: Commands, message: str) -> None:
    report = {"error": {"message": message}, "retryable": False}
    await ask(there.url, "POST", "fail", await claim(there) | report)


async def test_it_ends_when_all_have_ended_and_says_how(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        first, second, third = [await post(there, number) for number in range(3)]
        await finish(there, {"a": 1})
        assert (await there.run("watch", first, first)).out == f'{first}  finished    {{"a": 1}}\n'
        async with there.start("watch", first, NOBODY, second, third) as running:
            await running.prints(third)
            assert await running.says(NOBODY) == f"{NOBODY}: there is no such item\n"
            await ask(there.url, "POST", "progress", await claim(there) | {"value": {"step": "read"}})
            assert await running.prints("read") == f'{second}  processing  {{"step": "read"}}; box-1\n'
            await ask(there.url, "POST", f"items/{second}/cancel")
            await fail(there, "no \x1bluck")
            told = await running.ended()
        assert told.status == 1
        assert {f"{second}  cancelled", f"{third}  failed      no \\x1bluck"} <= set(told.out.splitlines())
        assert (await there.run("watch", first, NOBODY)).status == 1
        assert (await there.run("watch", first, second)).status == 1
        states = (await there.run("watch", first, third, "--json")).out.splitlines()
        assert [json.loads(state)["status"] for state in states] == ["finished", "failed"]


class Noticing(Screen):
    """Notices when an item is not there."""

    def __init__(self, ids: Iterable[str]) -> None:
        super().__init__(ids)
        self.missed = asyncio.Event()

    def miss(self, item_id: str, why: str) -> None:
        super().miss(item_id, why)
        self.missed.set()


async def test_what_was_deleted_meanwhile_is_told_and_the_others_are_watched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch_state, "ANSWER_WITHIN", 0.1)
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        screen = Noticing([NOBODY, item_id])
        following = asyncio.create_task(follow_open(there.url, None, screen))
        await asyncio.wait_for(screen.missed.wait(), PATIENCE)
        await finish(there)
        await asyncio.wait_for(following, PATIENCE)
    told = capsys.readouterr()
    assert told.err == f"{NOBODY}: there is no such item any more\n"
    assert told.out.splitlines()[-1].startswith(f"{item_id}  finished")
    assert not screen.open
    assert not screen.all_finished


async def test_ctrl_c_says_what_has_not_ended(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        item_id = await post(there, 1)
        async with there.start("watch", item_id) as running:
            await asyncio.wait_for(watched(there.url), PATIENCE)
            running.signal(signal.SIGINT)
            told = await running.ended()
        assert told.status == 130
        assert told.err.startswith(f"Not ended yet: {item_id}. It goes on without you")


async def test_who_may_not_look_is_told_so(tmp_path: Path) -> None:
    toml = open_queue().replace('fetch = "open"', 'fetch = ["root"]').replace('admin = "open"', "admin = []")
    async with running_server(tmp_path, toml, users={"bob": []}) as server:
        url = f"{server.base_url}/demo"
        told = await Commands(url, server.tokens["bob"]).run("watch", NOBODY)
        assert (told.status, told.out) == (3, "")
        told = await Commands(url, server.tokens["bob"]).run("post", "1", "--watch")
        assert told.status == 3
        assert "right to fetch" in told.err
    told = await Commands(url).run("watch", NOBODY)
    assert (told.status, "nobody listens there" in told.err) == (3, True)


# ── On a terminal ──


async def on_terminal(there: Commands, *words: str, given: str = "", **environment: str) -> str:
    """What a command writes on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
    told = {"LEASEWAY_URL": there.url, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24"}
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    env: Mapping[str, str] = {**kept, **told, **paths, **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, *words, stdin=asyncio.subprocess.PIPE, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    reading = asyncio.create_task(asyncio.to_thread(drained, ours))
    await asyncio.wait_for(process.communicate(given.encode()), PATIENCE)
    return await reading


def drained(end: int) -> str:
    """All that comes until the other end is closed."""
    found = b""
    try:
        while chunk := os.read(end, 65_536):
            found += chunk
    except OSError:  # Linux' word for the end of a terminal.
        pass
    finally:
        os.close(end)
    return found.decode()


@pytest.mark.parametrize("no_colour", ["", "1"])
async def test_a_terminal_shows_rows_that_move_and_what_ended_stays(tmp_path: Path, no_colour: str) -> None:
    async with demo(tmp_path) as there:
        ids = [await post(there, number) for number in range(30)]
        watching = asyncio.create_task(on_terminal(there, "watch", *ids, NO_COLOR=no_colour))
        for number in range(29):
            await finish(there, [number])
        await ask(there.url, "POST", "fail", await claim(there) | {"error": {"message": "[no]"}, "retryable": False})
        shown = await watching
        assert ("\x1b[32mfinished" in shown) == (no_colour == "")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        for number, item_id in enumerate(ids[:-1]):
            assert re.search(rf"{item_id}  finished    after \d+s  \[{number}\]", text)
        assert re.search(rf"{ids[-1]}  failed      after \d+s  \[no\]", text)


async def test_a_terminal_shows_a_bar_while_many_are_posted(tmp_path: Path) -> None:
    async with demo(tmp_path) as there:
        (tmp_path / "items").write_text("1\n2\nx\n")
        shown = await on_terminal(there, "post", "--bulk", str(tmp_path / "items"), "--keep-going", NO_COLOR="1")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        assert "━" * 30 in text
        assert "line 3: it is not JSON" in text
        assert text.splitlines()[-1] == "3 lines: 2 new, 1 refused."


def view(item_id: str, status: str, **members: Any) -> View:
    known = {"postedBy": None, "postedAt": 0, "updatedAt": 0, "finishedAt": None, "attempts": 1}
    wire = {"id": item_id, "status": status, **known, "progress": None, "result": None, "error": None, **members}
    return View.of(wire)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"status": "processing", "progress": {"percent": 40.5}, "worker": "box"}, "40.5 %; box"),
        ({"status": "processing", "progress": [1, "é"]}, '[1, "é"]'),
        ({"status": "pending", "progress": 5, "worker": "gone", "error": {"message": "no"}}, "5; no"),
        ({"status": "finished", "result": "x" * 500}, '"' + "x" * 198 + "…"),
        ({"status": "dead", "error": {"message": "no luck"}}, "no luck"),
        ({"status": "expired"}, ""),
    ],
)
def test_what_is_noted_of_an_item(members: dict[str, Any], said: str) -> None:
    assert note(view("a", **members)) == said


def test_what_was_shown_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(["a"])
    for rev in (1, 1, 2):
        screen.show(view("a", "pending", rev=rev))
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_terminal_has_room_for_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    ids = [f"{number:016x}" for number in range(20)]
    screen = TerminalScreen(ids)
    for item_id in ids:
        screen.show(view(item_id, "pending"))
    shown = [task.description for task in screen._progress.tasks if task.visible]
    assert shown == ["and 13 more", *ids[:7]]
    screen.show(view(ids[0], "finished"))
    shown = [task.description for task in screen._progress.tasks if task.visible]
    assert shown == ["and 12 more", *ids[1:8]]
