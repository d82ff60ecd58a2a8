"""`make demo`, as a person runs it: real processes from beginning to end."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from support.child import ended_after, read_until
from support.examples import EXAMPLES

PROC = Path("/proc")


@asynccontextmanager
async def demo(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The demo with its output in a pipe, quick and without a terminal."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / "demo.py"),
        "--pace=0.05",
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with ended_after(process, gently=True):
        yield process


def children_of(pid: int) -> set[int]:
    """The processes whose parent is `pid`; the parent's number is the second field after the name's bracket."""
    stats = {int(path.parent.name): path.read_text() for path in PROC.glob("[0-9]*/stat")}
    return {child for child, stat in stats.items() if int(stat.rpartition(")")[2].split()[1]) == pid}


def pictures_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def width(path: Path) -> int:
    with Image.open(path) as image:
        return image.width


@pytest.mark.timeout(120)
async def test_once_it_shows_everything_and_ends_with_0(tmp_path: Path) -> None:
    async with demo("--once", f"--pictures={tmp_path}") as process:
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    figures = dict(re.findall(r"^  ✓ (.*)\n      (.*)$", output, re.MULTILINE))
    assert figures["Pictures posted over HTTP, resized by workers over WebSocket"].startswith("6 posted, 6 finished")
    assert re.match(
        r"3 of 3 watchers saw it within \d+ ms",
        figures["A killed worker's item is requeued at once, seen by everybody"],
    )
    assert "attempts 2, losses 1" in figures["The other worker finishes it"]
    assert "0 attempts spent" in figures["Workers resume their leases; the restart costs no attempt"]
    assert "FAILED" not in output
    assert "\x1b" not in output
    assert {width(path) for path in pictures_in(tmp_path)} == {240, 320, 480, 600}


async def test_interrupted_it_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    async with demo(f"--pictures={tmp_path}") as process:
        await read_until(process, "processing")
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        output = (await process.communicate())[0].decode()
    assert process.returncode == 130, output
    assert len(children) == 3
    assert not [pid for pid in children if (PROC / str(pid)).exists()]
