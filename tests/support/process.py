"""A real server process, as an operator runs it: started, killed, stopped and started again on the same files and port.

Owns the process, its configuration file and its output. What is said to the server is not its concern.

    async with server_process(folder, open_queue()) as server:
        server.base_url; await server.kill(); await server.start(); assert (await server.stop()).status == 0
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from leaseway_server.core.access import Right
from support.tokens import TokenFile

PATIENCE: Final = 20.0
"""Seconds that a start or an end may take before a test fails."""
_SERVING: Final = re.compile(rb" serving (http://\S+)/ ")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit status (minus a signal's number where that ended it), and how long it took."""

    status: int
    seconds: float


class ServerProcess:
    """One server, over its restarts. `output` is all that it ever wrote, to standard output and standard error.

    `prefix` is a command to run it under, such as `strace`; `store` may be the URL of a database.
    """

    def __init__(self, folder: Path, toml: str, prefix: Sequence[str] = (), store: str = "") -> None:
        self.output = b""
        self.base_url = ""
        self._folder = folder
        self._toml = toml
        self._prefix = prefix
        self._store = store or f"sqlite:{self.data}"
        self._said = asyncio.Event()
        self._spawned_at = 0
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def ws_url(self) -> str:
        """Where its sockets are."""
        return self.base_url.replace("http://", "ws://")

    @property
    def data(self) -> Path:
        """The folder of its store."""
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """The number of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    def memory(self) -> int:
        """The bytes that are in memory of it."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def running(self) -> bool:
        """Whether there is one that has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> float:
        """Starts it, and returns the seconds until it serves. Where it ends instead, an `AssertionError` shows why."""
        began = time.monotonic()
        await self.spawn()
        assert await self.serves(), self.output[self._spawned_at :].decode(errors="replace")
        return time.monotonic() - began

    async def serves(self) -> bool:
        """After `spawn`: waits until it serves, or has ended instead."""
        assert self._reading is not None
        async with asyncio.timeout(PATIENCE):
            while not (serving := _SERVING.search(self.output, self._spawned_at)):
                if self._reading.done():
                    return False
                await self._said.wait()
                self._said.clear()
        self.base_url = serving[1].decode()
        return True

    async def spawn(self) -> None:
        """Starts it, and waits for nothing."""
        assert not self.running
        self._spawned_at = len(self.output)
        file = self._folder / "leaseway.toml"
        listen = self.base_url.removeprefix("http://") or "127.0.0.1:0"
        file.write_text(_with_server(self._toml, f'listen = "{listen}"', f'store = "{self._store}"'))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
        command = [*self._prefix, sys.executable, "-m", "leaseway_server", "--config", str(file), "--log", "terminal"]
        self._process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT, env=environment)
        self._reading = asyncio.create_task(self._read(self._process))
        self._reading.add_done_callback(lambda _task: self._said.set())

    async def stop(self) -> Ended:
        """SIGTERM: a planned stop."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> Ended:
        """SIGKILL: no goodbye."""
        self.kill_now()
        return await self.ended()

    def kill_now(self) -> None:
        """SIGKILL, at this instant; `ended` waits for the rest."""
        assert self._process is not None
        if self.running:
            self._process.kill()

    async def ended(self) -> Ended:
        """Waits for the end; all output is there then."""
        assert self._process is not None
        assert self._reading is not None
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            status = await self._process.wait()
            await self._reading
        return Ended(status, time.monotonic() - began)

    async def restart(self) -> float:
        """Kills it and starts it again, on the same port and files. Gives the seconds that the start took."""
        await self.kill()
        return await self.start()

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        while chunk := await process.stdout.read(65_536):
            self.output += chunk
            self._said.set()

    def add_tokens(self, users: Mapping[str, Sequence[Right]]) -> dict[str, str]:
        """A token for each user, narrowed to these rights (none: not narrowed); by user."""
        with TokenFile(self.data) as store:
            return {user: store.add(user, None, frozenset(rights) or None, 0, 0)[1] for user, rights in users.items()}


def _with_server(toml: str, *lines: str) -> str:
    """The configuration, with these lines in its `[server]` table."""
    head, found, rest = toml.partition("[server]\n")
    own = "[server]\n" + "".join(f"{line}\n" for line in lines)
    return head + own + rest if found else own + toml


@asynccontextmanager
async def server_process(
    folder: Path, toml: str, prefix: Sequence[str] = (), store: str = ""
) -> AsyncIterator[ServerProcess]:
    """A server that serves; whatever is left of it at the end is killed."""
    server = ServerProcess(folder, toml, prefix, store)
    try:
        await server.start()
        yield server
    finally:
        if server.running:
            await server.kill()


def strace(*options: str) -> list[str]:
    """The command under which a server's system calls are watched or made to fail. Skips the test where none may."""
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed")
    if subprocess.run([path, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    return [path, "-D", "-f", "-o", "/dev/null", *options]
