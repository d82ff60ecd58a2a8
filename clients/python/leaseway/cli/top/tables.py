"""What is shown of figures: which columns there is room for, and what stands in them. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from leaseway.cli.remote import printable
from leaseway.cli.tables import STYLES, span
from leaseway.cli.top.figures import Figures

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

WIDE: Final = 90
"""Columns of a terminal that has room for whole numbers and rates; `WIDEST` for the last hour too."""
WIDEST: Final = 116
HOUR: Final = 20
"""Columns of the last hour."""
GAP: Final = 2
LONGEST: Final = 24
"""Columns of a cell that is not the first of its row."""
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the queues. `style` is that of its cells which are not zero; it is there from `width` on."""

    head: str
    cell: Callable[[Figures, int], str]
    width: int = 0
    style: str = ""
    until: int = 10**9


def _count(status: str) -> Callable[[Figures, int], str]:
    return lambda figures, _now: f"{figures.counts[status]:,}"


def _short_count(*statuses: str) -> Callable[[Figures, int], str]:
    return lambda figures, _now: short(sum(figures.counts[status] for status in statuses))


def _rate(what: str) -> Callable[[Figures, int], str]:
    return lambda figures, _now: "" if (rate := figures.per_minute(what)) is None else short(rate)


def _workers(figures: Figures, _now: int) -> str:
    return "" if figures.workers is None else short(figures.workers)


def _oldest(figures: Figures, now: int) -> str:
    return "" if (oldest := figures.oldest(now)) is None else span(oldest)


def _hour(figures: Figures, _now: int) -> str:
    return bars([minute["finished"] for minute in figures.minutes or ()], HOUR)


_COLUMNS: Final = (
    Column("PENDING", _count("pending"), WIDE),
    Column("PROCESSING", _count("processing"), WIDE, STYLES["processing"]),
    Column("FINISHED", _count("finished"), WIDE, STYLES["finished"]),
    Column("FAILED", _count("failed"), WIDE, STYLES["failed"]),
    Column("DEAD", _count("dead"), WIDE, STYLES["dead"]),
    Column("IN/MIN", _rate("posted"), WIDE),
    Column("OUT/MIN", _rate("finished"), WIDE),
    Column("WORKERS", _workers, WIDE),
    Column("OLDEST", _oldest, WIDE),
    Column("PEND", _short_count("pending"), until=WIDE),
    Column("WORK", _short_count("processing"), 0, STYLES["processing"], WIDE),
    Column("DONE", _short_count("finished"), 0, STYLES["finished"], WIDE),
    Column("BAD", _short_count("failed", "dead"), 0, STYLES["failed"], WIDE),
    Column("IN/M", _rate("posted"), until=WIDE),
    Column("OUT/M", _rate("finished"), until=WIDE),
    Column("WRK", _workers, until=WIDE),
    Column("OLD", _oldest, until=WIDE),
)
"""All but the first, which is the queue's name; the last hour and a note come behind them."""

_WORKING: Final = ("WORKER", "QUEUE", "HOLDS", "FOR", "USER")


def line(figures: Figures, now: int) -> str:
    """A queue on a line, each figure by its name."""
    told = {
        **figures.counts,
        "posted/min": figures.per_minute("posted"),
        "finished/min": figures.per_minute("finished"),
        "workers": figures.workers,
        "oldest": None if (oldest := figures.oldest(now)) is None else span(oldest),
    }
    words = [f"{name}={value}" for name, value in told.items() if value is not None]
    return " ".join([figures.queue, *words, *filter(None, [note(figures)])])


def note(figures: Figures) -> str:
    """What else there is to say."""
    notes = ["paused"] if figures.paused else []
    notes += [f"reconnecting: {figures.trouble}"] if figures.trouble else []
    return "; ".join(notes)


def tables(figures: Sequence[Figures], now: int, width: int, height: int) -> RenderableType:
    """The queues, and below them who works, as far as there is room."""
    from rich.console import Group

    queues = _queues(figures, now, width)
    room = height - len(figures) - sum(bool(note(each)) for each in figures) - 5
    rows = _holders(figures, now)
    parts: list[RenderableType] = [queues, *_notes(figures)]
    if rows and room > 0:
        parts += ["", _working(rows[:room], width, several=len(figures) > 1)]
        parts += [f"and {len(rows) - room:,} more"] if len(rows) > room else []
    return Group(*parts)


def _queues(figures: Sequence[Figures], now: int, width: int) -> Table:
    from rich.text import Text

    columns = _columns(width)
    cells = {column.head: [_number(column, each, now) for each in figures] for column in columns}
    if width >= WIDEST:
        cells["LAST HOUR"] = [Text(_hour(each, now)) for each in figures]
    return _table({"QUEUE": [Text(each.queue, "bold") for each in figures], **cells}, width, justify="right")


def _columns(width: int) -> list[Column]:
    return [column for column in _COLUMNS if column.width <= width < column.until]


def queue_heads(width: int) -> list[str]:
    """The heads of the queues' columns, behind their names, where the terminal is so wide."""
    return [column.head for column in _columns(width)]


def _number(column: Column, figures: Figures, now: int) -> Text:
    from rich.text import Text

    text = column.cell(figures, now)
    return Text(text, "dim" if text == "0" else column.style)


def _notes(figures: Sequence[Figures]) -> list[RenderableType]:
    from rich.text import Text

    found = [(each.queue, note(each), "red" if each.trouble else "yellow") for each in figures]
    return [Text(f"{queue}: {text}", style, no_wrap=True, overflow="ellipsis") for queue, text, style in found if text]


def _table(columns: Mapping[str, Sequence[Text]], width: int, *, justify: Literal["left", "right"] = "left") -> Table:
    """Where there is too little room, the first column is cut: names are, and never numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    name, *others = columns
    rooms = [min(LONGEST, max(len(head), *map(len, columns[head]))) for head in others]
    table.add_column(name, no_wrap=True, max_width=max(len(name), width - sum(rooms) - GAP * len(rooms)))
    for head, room in zip(others, rooms, strict=True):
        table.add_column(head, justify=justify, no_wrap=True, min_width=room, max_width=room)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _working(rows: Sequence[Sequence[str]], width: int, *, several: bool) -> Table:
    from rich.text import Text

    heads = [head for head in _WORKING if several or head != "QUEUE"]
    return _table({head: [Text(row[_WORKING.index(head)]) for row in rows] for head in heads}, width)


def _holders(figures: Sequence[Figures], now: int) -> list[tuple[str, str, str, str, str]]:
    """A row a worker, as `_WORKING` says; those that hold something longest first."""
    found = [(each.queue, worker) for each in figures for worker in each.connections or ()]
    found.sort(key=lambda row: min((held["since"] for held in row[1]["holds"]), default=now))
    return [_holder(queue, worker, now) for queue, worker in found]


def _holder(queue: str, worker: dict[str, Any], now: int) -> tuple[str, str, str, str, str]:
    holds = sorted(worker["holds"], key=lambda held: held["since"])
    more = f" +{len(holds) - 1:,}" if len(holds) > 1 else ""
    waits = sum(claim["count"] for claim in worker["waiting"])
    what = f"{holds[0]['id']}{more}" if holds else f"waits for {waits:,}" if waits else "nothing"
    since = span(now - holds[0]["since"]) if holds else ""
    return printable(worker["worker"] or "(no name)"), queue, what, since, printable(worker["user"] or "")


def short(number: int) -> str:
    """A number in at most five characters, such as 12.3k."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number // size}{unit}"
    return str(number)


def bars(values: Sequence[int], width: int) -> str:
    """So many bars, each the sum of as many values as come to it; the tallest is the largest of them."""
    if not values:
        return ""
    each = len(values) / width
    sums = [sum(values[round(at * each) : round((at + 1) * each)]) for at in range(width)]
    most = max(sums) or 1
    return "".join(" " if not value else _BARS[(len(_BARS) - 1) * value // most] for value in sums)
