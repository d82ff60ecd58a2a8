"""A process that is measured: started on a core of its own where there are two, and its CPU read from `/proc`.

What is said to it is not its concern.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CORES: Final = sorted(os.sched_getaffinity(0))
LAST_WORDS: Final = 5


class NotStarted(Exception):
    """It ended without serving; the text has its last words."""


class Measured:
    """A server that serves at `ws_url`, `ws://127.0.0.1:PORT`."""

    def __init__(self, pid: int, ws_url: str) -> None:
        self.ws_url = ws_url
        self._stat = Path(f"/proc/{pid}/stat")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.ws_url.rpartition(":")[2])

    def cpu(self) -> float:
        """The seconds that it computed so far, user and system."""
        fields = self._stat.read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@asynccontextmanager
async def serving(*module: str) -> AsyncIterator[Measured]:
    """Runs a module of Python that logs `serving http://…`, until the block ends. Raises `NotStarted`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, stdin=DEVNULL, stderr=PIPE, preexec_fn=lambda: pin(_CORES[0])
    )
    assert process.stderr is not None
    try:
        address = await _address(process.stderr)
        draining = asyncio.create_task(process.stderr.read())  # A full pipe would hold it up.
        yield Measured(process.pid, address.rstrip("/").replace("http", "ws", 1))
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await draining


async def _address(log: asyncio.StreamReader) -> str:
    lines: deque[str] = deque(maxlen=LAST_WORDS)
    async for line in log:
        lines.append(line.decode(errors="replace").rstrip())
        if "serving http://" in lines[-1]:
            return lines[-1].partition("serving ")[2].split()[0]
    raise NotStarted("the server did not start:\n" + "\n".join(lines))


def pin(core: int) -> None:
    """Keeps this process on one core."""
    os.sched_setaffinity(0, {core})


def make_way() -> None:
    """Leaves the first core to the server, where there are two."""
    pin(_CORES[-1])
