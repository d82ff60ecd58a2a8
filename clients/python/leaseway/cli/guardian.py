"""Ends the programs of a worker that was killed: a small process beside it, which lives as long as a pipe is open.

A worker that gets SIGKILL, or a second Ctrl-C, can end nothing any more. Its programs would go on with items that
others have by then. The guardian is told of each process group that begins and ends; when the worker is gone, whatever
made it go, the pipe is closed, and what is left gets SIGTERM, then SIGKILL: all but a program that was being started at
that very moment, and what left its group by itself. This file is that process's program too, so it imports nothing of
ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import IO, Final

GRACE: Final = 3.0
"""Seconds between the two signals."""


class Guardian:
    """The worker's side of it. Use it as a context."""

    def __enter__(self) -> Guardian:
        """Starts it, out of reach of the terminal's signals."""
        command = [sys.executable, "-I", "-S", __file__]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(  # noqa: S603  Our own file.
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True, bufsize=0
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets it go; it ends what is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def began(self, group: int) -> None:
        """This process group is to end with us."""
        self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        """It has ended."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # Somebody killed it: nothing that the programs could not do without.
            self._process.stdin.write(line.encode())


def guard(lines: Iterable[str]) -> set[int]:
    """Reads what it is told until the pipe is closed. Gives the groups that have not ended."""
    groups: set[int] = set()
    for line in lines:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    return groups


def end(groups: set[int], grace: float = GRACE) -> None:
    """Ends them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, number)
        if groups and number == signal.SIGTERM:
            time.sleep(grace)


def main(said: IO[str]) -> None:
    """The process."""
    end(guard(said))


if __name__ == "__main__":
    main(sys.stdin)
