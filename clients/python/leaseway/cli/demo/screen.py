"""What people see of the demo: rows that move on a terminal, a line for each change of hands in a pipe.

It shows what it is told, and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leaseway.cli.tables import STYLES
from leaseway.cli.terminal import console, on_live_terminal
from leaseway.protocol import View

if TYPE_CHECKING:
    from rich.table import Table

NARROW: Final = 70
"""Columns below which the ranges are written in the shorter way."""
GAP: Final = 2
ID: Final = 16
BAR: Final = range(6, 21)
"""Columns of a bar. The ids are there where the shortest one has room beside them."""
OTHERS: Final = len("processing") + len("worker-1") + len("16,072 primes") + 3 * GAP
"""Columns of what is always there beside the range, which is never cut."""
ROOM_FOR_TEXT: Final = 6
"""Rows of a terminal that are not the table's."""


@dataclass(slots=True)
class Row:
    """A range, and the newest that was seen of it."""

    numbers: range
    view: View

    @property
    def name(self) -> str:
        """The range in words."""
        return f"{self.numbers.start:,} to {self.numbers.stop:,}"

    @property
    def percent(self) -> int:
        """How far it is."""
        if self.view.status == "finished":
            return 100
        return int((self.view.progress or {}).get("percent", 0))

    @property
    def worker(self) -> str:
        """Who has it, or had it at its end, by the demo's name: the library adds its process's number and more."""
        worker = self.view.worker if self.view.status != "pending" else None
        return worker.rsplit("-", 2)[0] if worker else ""

    @property
    def outcome(self) -> str:
        """What came of it."""
        if self.view.status == "finished":
            return f"{self.view.result['primes']:,} primes"
        return f"{self.percent:3d} %"


class Screen:
    """A terminal or a pipe. Use it with `with`."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False) if on_live_terminal() else None
        self._rows: dict[str, Row] = {}
        self._began = time.monotonic()

    def __enter__(self) -> Screen:
        """Begins the table, where there is one."""
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the terminal as it was, with the table as it stands."""
        if self._live:
            self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """A line of text."""
        self._console.print(text, style=style, soft_wrap=self._live is None)  # A terminal would break words.

    def note(self, text: str) -> None:
        """Something that happened just now."""
        self.say(f"{time.monotonic() - self._began:5.1f} s  {text}", "bold")

    def changed(self, row: Row) -> None:
        """A range was seen in a new state."""
        before = self._rows.get(row.view.id)
        self._rows[row.view.id] = row
        if self._live:
            self._drop_ended()
            self._live.update(table(self._rows, self._console.width), refresh=True)
        elif before is None or (before.view.status, before.worker) != (row.view.status, row.worker):
            self.say(self._line(row))

    def _drop_ended(self) -> None:
        room = max(4, self._console.height - ROOM_FOR_TEXT)
        ended = [item_id for item_id, row in self._rows.items() if row.view.ended]
        for item_id in ended[: max(0, len(self._rows) - room)]:
            del self._rows[item_id]

    def _line(self, row: Row) -> str:
        seconds = time.monotonic() - self._began
        words = f"{row.view.id}  {row.name:<22}  {row.view.status:<10}  {row.worker:<9}  {row.outcome}"
        return f"{seconds:5.1f} s  {words}".rstrip()


def table(rows: Mapping[str, Row], width: int) -> Table:
    """A row a range, whole on a terminal of 60 columns; where there is more room, with bars and ids."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    names = {item_id: row.name if width >= NARROW else row.name.replace(" to ", "–") for item_id, row in rows.items()}
    room = width - OTHERS - max(map(len, names.values()), default=0) - GAP
    with_id = room >= ID + GAP + BAR.start
    bar = min(BAR[-1], room - with_id * (ID + GAP))
    shown = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    for _ in range(4 + with_id + (bar in BAR)):
        shown.add_column(no_wrap=True)
    for item_id, row in rows.items():
        first = [Text(item_id, "dim")] if with_id else []
        bars = [ProgressBar(total=100, completed=row.percent, width=bar)] if bar in BAR else []
        status = Text(row.view.status, STYLES.get(row.view.status, "yellow"))
        shown.add_row(*first, names[item_id], status, row.worker, *bars, row.outcome)
    return shown
