"""The command line as real processes, many of them in little time: forked from one that has imported everything.

Owns the processes and where their output goes. What they print is the tests' concern.

    async with command_line(folder) as run:
        ended = await run(["items", url], output=Output.PIPE, NO_COLOR="1")
"""

import asyncio
import json
import os
import pty
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NoReturn

_LOADED: Final = (
    *("leaseway_server.commands", "leaseway.cli.items", "leaseway.cli.why", "leaseway.cli.steer", "leaseway.transport"),
    *("leaseway.cli.completion", "leaseway.cli.top.command", "http.client", "rich.console", "rich.live", "rich.table"),
)
"""What commands need, so that it is loaded once."""
FAILED: Final = 1
NOT_FLUSHED: Final = 120
"""Python's own status where what was printed could not be written at its end."""


class Output(StrEnum):
    """Where the standard output goes."""

    FILE = "file"
    CLOSED_PIPE = "closed"
    FULL_DISK = "full"
    TERMINAL = "terminal"
    NONE = "none"
    """The three standard descriptors are closed: what is printed nobody sees, errors neither."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `out` is empty where the output went nowhere."""

    status: int
    out: str
    err: str


class CommandLine:
    """Runs commands, one after the other, in a folder."""

    def __init__(self, process: Process, folder: Path) -> None:
        self._process = process
        self._folder = folder

    async def __call__(self, words: list[str], output: Output = Output.FILE, **environment: str) -> Ended:
        """Runs one; `environment` is added to what is there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"words": words, "output": output, "environment": environment, "folder": str(self._folder)}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        status = int(await self._process.stdout.readline())
        return Ended(status, *((self._folder / name).read_text(encoding="utf-8") for name in ("out", "err")))


@asynccontextmanager
async def command_line(folder: Path) -> AsyncIterator[CommandLine]:
    """Commands that find nothing of Leaseway's in their environment but what is given; `folder` is their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEWAY_")}
    kept.pop("NO_COLOR", None)
    environment = kept | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", "COLUMNS": "100"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__), stdin=PIPE, stdout=PIPE, env=environment, cwd=folder
    )
    try:
        yield CommandLine(process, folder)
    finally:
        await process.communicate(b"")  # That ends its input, and so it.


# ── In the process that is forked from ──


def main() -> None:
    """Runs what is asked for, a line each, and answers with the exit status."""
    import rich.live  # noqa: F401  Loaded once, here.

    import leaseway_server.commands  # noqa: F401

    for line in sys.stdin:
        print(_run(json.loads(line)), flush=True)


def _run(asked: dict[str, Any]) -> int:
    folder = Path(asked["folder"])
    master, output = _opened(asked["output"], folder / "out")
    errors = os.open(folder / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    child = os.fork()
    if child == 0:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.environ |= asked["environment"]
        _become(asked["words"], closed=asked["output"] == Output.NONE)
    os.close(output)
    os.close(errors)
    if master:
        (folder / "out").write_bytes(_read(master))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _opened(output: str, file: Path) -> tuple[int, int]:
    """Where it is read, where that is here, and where it is written."""
    file.write_bytes(b"")
    match Output(output):
        case Output.FILE | Output.NONE:
            return 0, os.open(file, os.O_WRONLY)
        case Output.FULL_DISK:
            return 0, os.open("/dev/full", os.O_WRONLY)
        case Output.CLOSED_PIPE:
            reading, writing = os.pipe()
            os.close(reading)
            return 0, writing
        case Output.TERMINAL:
            return pty.openpty()


def _read(master: int) -> bytes:
    """All that is written to a terminal, until nobody has it open any more."""
    data = b""
    with suppress(OSError):
        while chunk := os.read(master, 65_536):
            data += chunk
    os.close(master)
    return data


def _become(words: list[str], *, closed: bool) -> NoReturn:
    """What the command `leaseway` does, as Python runs it: what it raises is told, and what is left is flushed.

    The rest of Python's end is left out. It goes through all of a forked memory, which takes longer than the command.
    """
    from leaseway.cli import main as command

    if closed:
        os.closerange(0, 3)
        sys.stdin = sys.stdout = sys.stderr = None  # As Python has it then.
    else:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1)
    status = FAILED
    try:
        command(words, prog_name="leaseway")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException:  # noqa: BLE001  Whatever it is, a person would see it.
        traceback.print_exc()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        status = NOT_FLUSHED
    os._exit(status)


if __name__ == "__main__":
    main()
