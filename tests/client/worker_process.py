"""A worker's program as a process that a test starts, hears and signals."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

PATIENCE: Final = 20.0
"""Seconds that the process may take for anything; without it a test would hang where one fails."""


class WorkerProcess:
    """One that runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.send_signal = process.send_signal

    @property
    def status(self) -> int | None:
        """How it ended: minus the signal's number where one did; None while it runs."""
        return self._process.returncode

    async def heard(self) -> str:
        """The next line that it writes."""
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).decode().strip()

    async def logged(self, text: str) -> str:
        """The next line of its log that holds this text."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while line := (await self._process.stderr.readline()).decode():
                if text in line:
                    return line
        raise AssertionError(f"it ended without a line that holds {text!r}")

    async def ended(self) -> int:
        """Waits until it has ended, and says how."""
        return await asyncio.wait_for(self._process.wait(), PATIENCE)

    async def close(self) -> None:
        """Kills what is left of it."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


@asynccontextmanager
async def worker_process(program: ModuleType, *arguments: str, token: str = "") -> AsyncIterator[WorkerProcess]:
    """The program at work, its token on standard input; what is left of it at the end is killed."""
    paths = os.pathsep.join(path for path in sys.path if path)
    command = (sys.executable, str(program.__file__), *arguments)
    environment = {**os.environ, "PYTHONPATH": paths}
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(f"{token}\n".encode())
    worker = WorkerProcess(process)
    try:
        yield worker
    finally:
        await worker.close()


def children(pid: int) -> list[int]:
    """The processes that this one started and that live."""
    lists = sorted(Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(child) for each in lists for child in each.read_text().split()]


async def gone(pid: int) -> None:
    """Waits until this process has ended, whoever started it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), PATIENCE)
    finally:
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


def shown(pid: int) -> str:
    """What a list of processes shows of it, its environment included."""
    return Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
