"""Rows for people: coloured and cut to the width of a terminal, or whole lines where the output goes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from leaseway.cli.remote import printable
from leaseway.cli.terminal import console, on_terminal

STYLES: Final = {
    "processing": "cyan",
    "retrying": "yellow",
    "finished": "green",
    "failed": "red",
    "dead": "bold red",
    "cancelled": "dim",
    "expired": "dim",
}
"""How a cell that is a status or a label looks on a terminal."""
_GAP: Final = "  "
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns that are empty in all rows are left out, but for the first."""
    used = [at for at in range(len(head)) if at == 0 or any(row[at] for row in rows)]
    names = [head[at] for at in used]
    cells = [[printable(row[at]) for at in used] for row in rows]
    (_print_rich if on_terminal() else _print_plain)(names, cells)


def span(ms: int) -> str:
    """A time in one unit, such as `5m`; less than a second is `0s`."""
    seconds = max(0, ms) // 1000
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def percent(progress: Any) -> float | None:
    """A progress record is whatever the queue's schema says. Where it has a number `percent`, it means that."""
    found = progress.get("percent") if isinstance(progress, dict) else None
    return found if isinstance(found, int | float) else None


def _print_plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo(_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A line a row, cut at the terminal's width."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    terminal = console()
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    for line in (head, *rows):
        text = Text(style="bold" if line is head else "")
        for cell, width in zip(line, widths, strict=True):
            text.append(set_cell_size(cell, width), STYLES.get(cell)).append(_GAP)
        text.rstrip()
        terminal.print(text, no_wrap=True, overflow="ellipsis")
