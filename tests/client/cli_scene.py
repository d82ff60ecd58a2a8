"""Commands against a server in this event loop, also as processes: heard line by line, fed, signalled, ended."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx
from click.testing import CliRunner

from leaseway.cli import main

COMMAND: Final = "from leaseway.cli import main; main()"
PATIENCE: Final = 20.0
"""Seconds that a process may take for anything; without it a test would hang where one fails."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


class Running:
    """A command at work."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.err = ""
        self.out = ""

    async def says(self, text: str) -> str:
        """Waits for a line with this text on standard error, and gives it."""
        return await self._heard("err", text)

    async def prints(self, text: str) -> str:
        """Waits for a line with this text on standard output, and gives it."""
        return await self._heard("out", text)

    async def feed(self, text: str, *, last: bool = False) -> None:
        """Writes to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        await self.process.stdin.drain()
        if last:
            self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    async def ended(self) -> Ended:
        """Waits for its end."""
        out, err = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        assert self.process.returncode is not None
        told = Ended(self.process.returncode, self.out + out.decode(), self.err + err.decode())
        assert "Traceback" not in told.err, told.err
        return told

    async def _heard(self, name: str, text: str) -> str:
        stream = self.process.stderr if name == "err" else self.process.stdout
        assert stream is not None
        while True:
            line = (await asyncio.wait_for(stream.readline(), PATIENCE)).decode()
            assert line, f"it ended without saying {text!r}:\n{self.err}"
            setattr(self, name, getattr(self, name) + line)
            if text in line:
                return line


class Commands:
    """The commands of one user on the queue `url`."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.token = token

    @asynccontextmanager
    async def start(self, *words: str, through: tuple[str, ...] = (), **environment: str) -> AsyncIterator[Running]:
        """A command, by way of another one where that is said; what is left of it at the end is killed."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
        given = {"LEASEWAY_URL": self.url, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        given |= {"LEASEWAY_TOKEN": self.token} if self.token else {}
        process = await asyncio.create_subprocess_exec(
            *(*through, sys.executable, "-c", COMMAND, *words),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=kept | given | environment,
            limit=1 << 24,
        )
        try:
            yield Running(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def run(self, *words: str, given: str = "") -> Ended:
        """A command from its start to its end, with this at its standard input; in a thread, which is quicker."""
        environment = {"LEASEWAY_URL": self.url, "LEASEWAY_TOKEN": self.token or None}
        invoke = partial(CliRunner().invoke, main, words, input=given, env=environment)
        told = await asyncio.wait_for(asyncio.to_thread(invoke), PATIENCE)
        if told.exception is not None and not isinstance(told.exception, SystemExit):
            raise told.exception
        return Ended(told.exit_code, told.stdout, told.stderr)


async def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """A request of the queue, answered as JSON."""
    async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  Nothing to verify, and to load its lists is slow.
        answer = await http.request(method, f"{url}/{path}".rstrip("/"), json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()


async def waiting(url: str) -> int:
    """How many items wait in the queue."""
    return int((await ask(url, "GET", ""))["counts"].get("pending", 0))


async def watched(url: str) -> None:
    """Waits until a monitor socket is open there."""
    async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  As above.
        while True:
            told = (await http.get(f"{url.rpartition('/')[0]}/_metrics")).text
            if re.search(r'^leaseway_sockets\{.*kind="monitor".*\} [1-9]', told, re.MULTILINE):
                return
