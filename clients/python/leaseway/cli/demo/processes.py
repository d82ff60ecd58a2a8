"""The processes of the demo: the server and the workers. What they do with items is not their concern."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from pathlib import Path
from typing import Final

STOP_WITHIN: Final = 15.0
LAST_WORDS: Final = 8


class DemoFailed(Exception):
    """Something ended that should not; the text has its last words."""


class Child:
    """A process that has begun to do what it is for."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self._process = process
        self._expected = False

    @classmethod
    async def start(cls, name: str, folder: Path, *module: str, ready: str) -> tuple[Child, re.Match[str]]:
        """Runs a module of Python until a line of its output matches `ready`. Raises `DemoFailed` where none does.

        It has a session of its own: Ctrl-C is the demo's, which then ends its processes in order.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *module),
            cwd=folder,
            env=kept | {"PYTHONUNBUFFERED": "1"},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        child = cls(name, process)
        try:
            return child, await child.said(ready)
        except BaseException:
            await child.end()
            raise

    async def said(self, pattern: str) -> re.Match[str]:
        """Reads until a line of its output matches. Raises `DemoFailed` where none does."""
        while line := await self.line():
            if found := re.search(pattern, line):
                return found
        raise await self.failure()

    async def watch(self) -> None:
        """Reads on until it ends. Raises `DemoFailed` where nobody ended it."""
        while await self.line():
            pass
        if not self._expected:
            raise await self.failure()
        await self._process.wait()

    def kill(self) -> float:
        """SIGKILL, without a chance to say anything; gives the moment, on the monotonic clock."""
        self._signal(signal.SIGKILL)
        return time.monotonic()

    async def stop(self) -> None:
        """The planned stop; SIGKILL where that takes too long."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_WITHIN):
                await self._process.wait()
        except TimeoutError:
            await self.end()

    async def end(self) -> None:
        """SIGKILL, and waits until it is gone."""
        self.kill()
        await self._process.wait()

    async def line(self) -> str:
        """The next line of its output, with its end; empty after the last."""
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode(errors="replace")
        self._last_words.append(line.rstrip())
        return line

    async def failure(self) -> DemoFailed:
        """That it has ended, with its last words."""
        status = await self._process.wait()
        return DemoFailed("\n".join([f"{self.name} ended by itself with status {status}:", *self._last_words]))

    def _signal(self, number: signal.Signals) -> None:
        self._expected = True
        if self._process.returncode is None:
            self._process.send_signal(number)
