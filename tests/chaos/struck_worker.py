"""The workers of one kind in the worker campaign, one process after the other, and their way to the server.

Owns the process and the reading of its log. What befalls it is `worker_faults.py`'s.
"""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

from chaos import gated_worker
from chaos.handler_journal import PATIENCE, HandlerJournal
from support.swallowing import Way


class StruckWorker:
    """The one of this kind that lives now. Items of its kind are taken by it, and by nobody else but a rival."""

    def __init__(self, kind: str, way: Way, journal: HandlerJournal, dice: random.Random) -> None:
        self.kind = kind
        self.way = way
        self.journal = journal
        self.dice = dice
        self.connections = 0
        """How often it has told of one."""
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    async def begin(self) -> None:
        """Starts one, in the place of the one before."""
        paths = os.pathsep.join(path for path in sys.path if path)
        command = (sys.executable, str(gated_worker.__file__), f"{self.way.url}/demo", self.kind)
        environment = {**os.environ, "PYTHONPATH": paths}
        self._process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE, env=environment)
        self._reading = asyncio.create_task(self._read(self._process))

    async def kill(self) -> None:
        """SIGKILL; returns when all that it started has ended as well."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._ended()

    async def end(self) -> int:
        """SIGTERM: what it holds is finished or given back. Gives its status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self._ended()

    async def _ended(self) -> int:
        assert self._process is not None
        assert self._reading is not None
        async with asyncio.timeout(PATIENCE):
            status = await self._process.wait()
            await self._reading
        return status

    async def _read(self, process: Process) -> None:
        """Its log, and that of all that it started, to its end."""
        assert process.stderr is not None
        while line := await process.stderr.readline():
            self.connections += b"connected to " in line
            self.journal.logged(line.decode())
