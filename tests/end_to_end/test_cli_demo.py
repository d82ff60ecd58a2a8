"""`leaseway demo`, as a person runs it: real processes, a real kill, and everything ended at the end."""

import asyncio
import importlib.util
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from leaseway import Client, Failed
from leaseway.cli.demo.command import demo as command
from leaseway.cli.demo.primes import count, is_prime, wanted
from leaseway.cli.demo.worker import make_worker
from support.child import ended_after, read_until
from support.server import running_server

COMMAND = "from leaseway.cli import main; main()"


@asynccontextmanager
async def demo(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The demo with its output in a pipe; PYTHONUNBUFFERED and the like are the environment's."""
    words = [sys.executable, "-c", COMMAND, "demo", *options]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    async with ended_after(process, gently=True):
        yield process


def children_of(pid: int) -> dict[int, str]:
    """The processes that it started, and their commands."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            child, parent = int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found[child] = (path.parent / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended meanwhile.
    return found


def gone(pids: dict[int, str]) -> bool:
    return not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def test_once_it_counts_kills_and_goes_on_and_ends_with_0() -> None:
    async with demo("--once", "--pace", "0.02") as process:
        begun = await read_until(process, "processing")
        children = children_of(process.pid)
        output = begun + (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert "148,933 primes below 2,000,000, as it should be" in output
    assert len(re.findall(r"  finished  ", output)) == 8
    assert re.search(r"The page: http://127\.0\.0\.1:\d+/\n", output)
    (killed,) = re.findall(r"worker-1 is killed \(SIGKILL\) while it counts (.*), at (\d+) %", output)
    assert re.search(rf"\d+ ms later {killed[0]} is back in its old place", output)
    taken = re.search(rf"(worker-[23]) goes on with {killed[0]} at (\d+) %, where worker-1 had come to", output)
    assert taken
    assert int(taken[2]) >= int(killed[1])
    assert "\x1b" not in output
    assert len(children) == 3
    assert gone(children)


async def test_interrupted_it_ends_with_everything_that_it_started() -> None:
    async with demo("--pace", "0.02") as process:
        await read_until(process, "processing")
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        output = (await process.communicate())[0].decode()
    assert process.returncode == 130, output
    assert output.endswith("Ended, with everything that was started.\n")
    assert "Traceback" not in output
    assert gone(children)


async def test_where_the_server_dies_the_demo_says_so() -> None:
    async with demo("--pace", "0.02") as process:
        await read_until(process, "processing")
        children = children_of(process.pid)
        (server,) = (pid for pid, command in children.items() if "leaseway_server" in command)
        os.kill(server, signal.SIGKILL)
        output = (await process.communicate())[0].decode()
    assert process.returncode == 1, output
    assert "The demo failed: the server ended by itself with status -9:" in output
    assert "Traceback" not in output
    assert gone(children)


def test_without_the_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    told = CliRunner().invoke(command, ["--once"])
    assert (told.exit_code, told.stdout) == (2, "")
    assert "pip install 'leaseway[server]'" in told.stderr


def test_counts_and_checkpoints() -> None:
    whole = list(count(range(1_000, 3_001)))
    assert [each["percent"] for each in whole] == sorted({each["percent"] for each in whole})
    assert whole[-1] == {"percent": 100, "next": 3_001, "found": 430 - 168}
    for record in whole:
        assert [record, *count(range(1_000, 3_001), record)][-1] == whole[-1], "whatever it goes on from"
    assert [number for number in range(-1, 30) if is_prime(number)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


@pytest.mark.parametrize(
    "item",
    [
        *(None, 5, [], {}, {"from": 1}, {"from": "0", "to": 5}, {"from": 0.5, "to": 5}),
        *({"from": 5, "to": 5}, {"from": -1, "to": 5}, {"from": 0, "to": 10**6 + 1}, {"from": 10**9, "to": 10**9 + 1}),
    ],
)
def test_what_is_no_range_is_refused(item: object) -> None:
    assert wanted(item) is None


def test_a_range_is_what_was_asked_for() -> None:
    assert wanted({"from": 0, "to": 10**6, "more": 1}) == range(10**6)


async def test_the_worker_counts_and_refuses_what_is_no_range(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        url = f"{server.ws_url}/demo"
        async with make_worker(url, "box", 0.0), Client(url) as queue:
            assert await (await queue.post({"from": 0, "to": 100})).result(timeout=20) == {"primes": 25}
            with pytest.raises(Failed, match=re.escape('post {"from": 0, "to": 100000}')):
                await (await queue.post("hello")).result(timeout=20)
