"""What `leaseway work` says of its attempts: lines on standard error, and with `--json` documents on the output.

How an attempt ended is what the server made of it, so that nothing is told as done that was refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import click

from leaseway.attempt import Attempt
from leaseway.cli.options import print_json
from leaseway.cli.program import NotStarted, Program
from leaseway.cli.remote import printable
from leaseway.cli.terminal import console, on_terminal
from leaseway.errors import Permanent, Retry
from leaseway.leases import Ending, Lease

_ENDS: Final = {
    "result": ("results", "green"),
    "failed": ("failed for good", "red"),
    "dead": ("dead", "bold red"),
    "retry": ("to be tried again", "yellow"),
    "released": ("given back", "yellow"),
    "stopped": ("stopped", "yellow"),
    "discarded": ("too late to count", "red"),
    "unanswered": ("without an answer", "red"),
}
"""How attempts end (docs/programs.md), how they are counted, and how that looks on a terminal."""
_UNANSWERED: Final = "the server did not say whether it counts"


@dataclass(slots=True)
class _Run:
    """A run of the program. `why` is what is told of its fault."""

    began: float
    seconds: float = 0.0
    stopped: bool = False
    why: str = ""

    def end(self, ending: Ending | None) -> tuple[str, str]:
        """One of `_ENDS`, and why. Without an ending the item had been taken away before."""
        if self.stopped:
            return "stopped", ""
        if ending is None or ending.reason:
            return "discarded", ending.reason if ending else "the item was taken away"
        match ending.verb:
            case "result":
                return "result", ""
            case "release":
                return "released", self.why
        return {"failed": "failed", "dead": "dead"}.get(ending.status or "", "retry"), self.why or ending.error


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
        self._runs: dict[tuple[str, int], _Run] = {}

    def telling(self, program: Program) -> Any:
        """The handler: the program, and a line when it begins."""

        async def handle(item: Any, job: Attempt) -> Any:
            self._say_begin(job)
            run = self._runs[job.id, job.attempts] = _Run(time.monotonic(), stopped=True)
            try:
                result = await program.run(item, job)
            except (Permanent, Retry, NotStarted) as fault:
                run.stopped, run.why = False, str(fault)
                raise
            else:
                run.stopped = False
                return result
            finally:
                run.seconds = time.monotonic() - run.began

        return handle

    def settled(self, lease: Lease, ending: Ending | None) -> None:
        """A line, and a document, once it is known what became of a run."""
        run = self._runs.pop((lease.id, lease.attempts), None)
        if run is not None:  # One that was taken away before its program began is nobody's news.
            self._say_end(lease.id, lease.attempts, run, *run.end(ending))

    def say(self, item_id: str, text: str) -> None:
        """What a program says, or something of what it says."""
        self.line(f"{item_id}  {text}", "dim")

    def sum_up(self) -> None:
        """How often which end; what is open now has no answer."""
        for (item_id, attempts), run in self._runs.items():
            told = ("stopped", "") if run.stopped else ("unanswered", _UNANSWERED)
            self._say_end(item_id, attempts, run, *told)
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

    def _say_begin(self, job: Attempt) -> None:
        self.line(f"{job.id}  begins" + (f", attempt {job.attempts}" if job.attempts > 1 else ""))

    def _say_end(self, item_id: str, attempts: int, run: _Run, end: str, why: str) -> None:
        self._ends[end] += 1
        if self._as_json:
            told = {"id": item_id, "attempts": attempts, "end": end, "error": why or None}
            self._print(told | {"seconds": round(run.seconds, 3)})
        self.line(f"{item_id}  {end} after {run.seconds:.1f} s" + (f": {why}" if why else ""), _ENDS[end][1])

    def _print(self, document: dict[str, Any]) -> None:
        try:
            print_json(document)
        except OSError as error:
            self.unwritten = error
            self.on_unwritten()
