"""What a person sees of the demo: a table that lives on a terminal, plain lines in a pipe.

It shows what it is told, and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from demo_journal import Entry
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

COLOURS = {"pending": "yellow", "processing": "cyan", "finished": "green"}
#: Rows of a terminal that are not the table's.
ROOM_FOR_TEXT = 8
#: Columns of a terminal that has room for long bars.
WIDE = 96


@dataclass(frozen=True, slots=True)
class Proof:
    """What was shown, and the figure that proves it."""

    what: str
    figure: str
    holds: bool


class Screen:
    """A terminal or a pipe. Use it with `with`."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._entries: dict[Entry, tuple[str, str]] = {}
        self._began = time.monotonic()

    def __enter__(self) -> Screen:
        """Begins the table, where there is one."""
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the terminal as it was."""
        if self._live:
            self._live.stop()

    def say(self, text: str = "", style: str = "") -> None:
        """A line of text."""
        self._console.print(Text(text, style))

    def note(self, text: str) -> None:
        """Something that happened just now."""
        self.say(f"{self._time()} {text}", "bold" if self._live else "")

    def stage(self, text: str) -> None:
        """A new stage begins, with a table of its own."""
        self._keep_table()
        self.say()
        self.say(text, "bold magenta")

    def changed(self, entry: Entry) -> None:
        """An item was seen in a new state."""
        now = entry.status, entry.worker
        is_new = self._entries.get(entry) != now
        self._entries[entry] = now
        if self._live:
            self._drop_ended()
            self._live.update(self._table(), refresh=True)
        elif is_new:
            self._console.print(self._line(entry))

    def summary(self, proofs: Iterable[Proof]) -> None:
        """What was shown, each with the figure that proves it."""
        self._keep_table()
        self.say()
        self.say("What was shown", "bold magenta")
        for proof in proofs:
            mark, colour = ("✓", "green") if proof.holds else ("✗ FAILED:", "red")
            self._console.print(Text.assemble((f"  {mark} ", colour), (proof.what, "bold")))
            self.say(f"      {proof.figure}")

    def _keep_table(self) -> None:
        """What the table shows becomes a part of the text above."""
        if self._live and self._entries:
            table = self._table()
            self._live.update(Text(), refresh=True)
            self._console.print(table)
        self._entries.clear()

    def _drop_ended(self) -> None:
        room = max(4, self._console.height - ROOM_FOR_TEXT)
        for entry in [entry for entry in self._entries if entry.ended][: max(0, len(self._entries) - room)]:
            del self._entries[entry]

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("item", "picture", "status", "worker", "", "progress", "attempts"):
            table.add_column(heading, no_wrap=True)
        for entry in self._entries:
            table.add_row(*self._cells(entry))
        return table

    def _cells(self, entry: Entry) -> Iterable[str | Text | ProgressBar]:
        step = "" if entry.ended or not entry.steps else entry.steps[-1].get("stage", "")
        return (
            entry.id[:8],
            entry.name,
            Text(entry.status, COLOURS.get(entry.status, "red")),
            entry.worker,
            ProgressBar(total=100, completed=entry.percent, width=20 if self._console.width >= WIDE else 8),
            f"{entry.percent:3.0f} % {step}",
            str(entry.view.attempts if entry.view else 0),
        )

    def _line(self, entry: Entry) -> str:
        attempts = entry.view.attempts if entry.view else 0
        words = [self._time(), entry.id[:8], f"{entry.name:<12}", f"{entry.status:<10}", f"{entry.worker:<9}"]
        steps = ", ".join(str(step["percent"]) for step in entry.steps)
        return " ".join(
            [*words, f"attempt {attempts}", f"(seen at {steps} %)" if entry.ended and steps else ""]
        ).rstrip()

    def _time(self) -> str:
        return f"{time.monotonic() - self._began:6.2f} s"
