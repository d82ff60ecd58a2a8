"""A second signal ends a worker on the spot, whatever its handler does, and its item goes back at once."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from client import stubborn_worker
from client.real_scene import demo
from support.child import ended_after

PATIENCE: Final = 20.0
"""Seconds that the process may take for anything; without it a test would hang where one fails."""


@asynccontextmanager
async def stubborn(url: str, kind: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker at work on its first item; what is left of it at the end is killed."""
    paths = os.pathsep.join(path for path in sys.path if path)
    command = (sys.executable, stubborn_worker.__file__, url, kind)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env={**os.environ, "PYTHONPATH": paths})
    async with ended_after(process):
        yield process


async def heard(process: asyncio.subprocess.Process) -> str:
    """The next line that the process writes."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()


@pytest.mark.parametrize("kind", stubborn_worker.HANDLERS)
@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)],
    ids=["terminated", "interrupted", "both"],
)
async def test_a_second_signal_ends_it_at_once(
    kind: str, first: signal.Signals, second: signal.Signals, tmp_path: Path
) -> None:
    async with demo(tmp_path) as (url, queue):
        job = await queue.post("work")
        async with stubborn(url, kind) as process:
            assert await heard(process) == "begun"
            process.send_signal(first)
            assert await heard(process) == "told"
            assert process.returncode is None
            process.send_signal(second)
            assert await asyncio.wait_for(process.wait(), PATIENCE) == -second
        async for view in job.watch(timeout=PATIENCE):
            if (view.status, view.attempts) == ("pending", 1):
                return
    raise AssertionError("its item was never requeued")
