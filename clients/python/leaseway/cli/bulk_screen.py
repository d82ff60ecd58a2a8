"""How it goes with many posts: a bar on a terminal, a line now and then in a pipe. All of it on standard error.

With `--json` refused lines are documents on standard output instead.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any, Final

import click

from leaseway.cli.bulk import Tally
from leaseway.cli.options import print_json
from leaseway.cli.remote import printable
from leaseway.cli.terminal import console, on_live_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY: Final = 10.0
"""Seconds between two lines in a pipe."""


def bulk_screen(stream: IO[bytes], *, as_json: bool) -> PlainScreen:
    """The one that fits where it is read."""
    return (BarScreen if on_live_terminal(errors=True) else PlainScreen)(stream, as_json=as_json)


class PlainScreen:
    """Lines. Use it as a context, in which the lines are posted."""

    def __init__(self, stream: IO[bytes], *, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json
        self._told_at = time.monotonic()

    def __enter__(self) -> PlainScreen:
        """Begins."""
        self._shown().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Ends; what was told stays."""
        self._shown().__exit__(*raised)

    def refused(self, line: int, why: str) -> None:
        """This line was not posted."""
        if self._as_json:
            print_json({"line": line, "error": why})
        else:
            self._say(f"line {line:,}: {why}")

    def waits(self, why: str, seconds: float) -> None:
        """It goes on after so many seconds."""
        self._say(f"{why}; again in {seconds:.1f} s")

    def went_on(self, tally: Tally) -> None:
        """Some more were posted."""
        if time.monotonic() - self._told_at >= EVERY:
            self._told_at = time.monotonic()
            self._say(counted(tally))

    def _shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _say(self, text: str) -> None:
        click.echo(printable(text), err=True)


class BarScreen(PlainScreen):
    """A bar, and lines above it."""

    def __init__(self, stream: IO[bytes], *, as_json: bool) -> None:
        super().__init__(stream, as_json=as_json)
        self._bar = _bar()
        self._task = self._bar.add_task("posted", total=_size(stream), told="")

    def went_on(self, tally: Tally) -> None:
        """Some more were posted."""
        at = self._stream.tell() if self._stream.seekable() else tally.lines
        self._bar.update(self._task, completed=at, told=counted(tally))

    def _shown(self) -> AbstractContextManager[Any]:
        return self._bar

    def _say(self, text: str) -> None:
        self._bar.console.print(printable(text))


def counted(tally: Tally) -> str:
    """The counts of lines in words; those that are 0 are left out, but for the new ones."""
    parts = [f"{tally.new:,} new"]
    parts += [f"{tally.known:,} known already"] if tally.known else []
    parts += [f"{tally.refused:,} refused"] if tally.refused else []
    return f"{tally.lines:,} line{'' if tally.lines == 1 else 's'}: {', '.join(parts)}"


def _size(stream: IO[bytes]) -> int | None:
    """The bytes of a file; None of what has no end that is known."""
    if not stream.seekable():
        return None
    here = stream.tell()
    size = stream.seek(0, 2)
    stream.seek(here)
    return size


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        BarColumn(30),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console(errors=True),
        transient=True,
    )
