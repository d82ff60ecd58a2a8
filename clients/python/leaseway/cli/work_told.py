"""What `leaseway work` says of its attempts: lines on standard error, and with `--json` documents on the output."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import click

from leaseway.attempt import Attempt
from leaseway.cli.options import print_json
from leaseway.cli.program import NotStarted, Program
from leaseway.cli.remote import printable
from leaseway.cli.terminal import console, on_terminal
from leaseway.errors import Permanent, Retry

_ENDS: Final = {
    "result": ("results", "green"),
    "failed": ("failed for good", "red"),
    "retry": ("to be tried again", "yellow"),
    "released": ("given back", "yellow"),
    "stopped": ("stopped", "yellow"),
}
"""How attempts end, how they are counted, and how that looks on a terminal."""
_END_OF: Final[dict[type[Exception], str]] = {Permanent: "failed", Retry: "retry", NotStarted: "released"}


class Told:
    """Says when attempts begin and end, and what programs say.

    What cannot be written ends no attempt. Lines for people are dropped then; a document that cannot be written is
    kept as `unwritten`, and `on_unwritten` is called.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.unwritten: OSError | None = None
        self.on_unwritten: Callable[[], None] = lambda: None
        self._as_json = as_json
        self._console = console(errors=True) if on_terminal(errors=True) else None
        self._ends: Counter[str] = Counter()

    def telling(self, program: Program) -> Any:
        """The handler: the program, and a line when it begins and when it ends."""

        async def handle(item: Any, job: Attempt) -> Any:
            self._began(job)
            began = time.monotonic()
            end, why = "stopped", ""
            try:
                result = await program.run(item, job)
            except (Permanent, Retry, NotStarted) as fault:
                end, why = _END_OF[type(fault)], str(fault)
                raise
            else:
                end = "result"
                return result
            finally:
                self._ended(job, end, why, time.monotonic() - began)

        return handle

    def say(self, item_id: str, text: str) -> None:
        """What a program says, or something of what it says."""
        self.line(f"{item_id}  {text}", "dim")

    def sum_up(self) -> None:
        """How often which end."""
        counts = [f"{words}: {self._ends[end]:,}" for end, (words, _) in _ENDS.items() if self._ends[end]]
        self.line(", ".join(counts) or "there was nothing to do")

    def line(self, text: str, style: str = "") -> None:
        """A line with the time."""
        shown = f"{time.strftime('%H:%M:%S')}  {printable(text)}"
        with suppress(OSError):
            if self._console is None:
                click.echo(shown, err=True)
            else:
                self._console.print(shown, style=style, soft_wrap=True)

    def _began(self, job: Attempt) -> None:
        self.line(f"{job.id}  begins" + (f", attempt {job.attempts}" if job.attempts > 1 else ""))

    def _ended(self, job: Attempt, end: str, why: str, seconds: float) -> None:
        self._ends[end] += 1
        if self._as_json:
            told = {"id": job.id, "attempts": job.attempts, "end": end, "error": why or None}
            self._print(told | {"seconds": round(seconds, 3)})
        self.line(f"{job.id}  {end} after {seconds:.1f} s" + (f": {why}" if why else ""), _ENDS[end][1])

    def _print(self, document: dict[str, Any]) -> None:
        try:
            print_json(document)
        except OSError as error:
            self.unwritten = error
            self.on_unwritten()
