"""How items are shown that are watched: rows that move on a terminal, a line a change in a pipe, or JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from leaseway.cli.options import print_json
from leaseway.cli.remote import printable
from leaseway.cli.tables import STYLES, percent, span
from leaseway.cli.terminal import console, on_live_terminal
from leaseway.protocol import View

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LONGEST: Final = 200
"""Characters of a result or a record on a line."""


def watch_screen(ids: Iterable[str], *, as_json: bool) -> Screen:
    """The one that fits where it is read."""
    if as_json:
        return JsonScreen(ids)
    return TerminalScreen(ids) if on_live_terminal() else Screen(ids)


class Screen:
    """A line a change. `open` are the items that have not ended, the watched ones first of all."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.open = dict.fromkeys(ids)
        self.all_finished = True
        self._shown: dict[str, int | None] = {}

    def __enter__(self) -> Screen:
        """Begins."""
        return self

    def __exit__(self, *raised: Any) -> None:
        """Ends; what was told stays."""

    def show(self, view: View) -> None:
        """An item is so now. What was shown already is not shown again."""
        if view.rev is not None and self._shown.get(view.id) == view.rev:
            return
        self._shown[view.id] = view.rev
        if view.ended:
            self.open.pop(view.id, None)
            self.all_finished &= view.status == "finished"
        self._draw(view)

    def miss(self, item_id: str, why: str) -> None:
        """An item is not there."""
        self.open.pop(item_id, None)
        self.all_finished = False
        self.say(f"{item_id}: {why}")

    def say(self, text: str) -> None:
        """Something else."""
        click.echo(printable(text), err=True)

    def _draw(self, view: View) -> None:
        click.echo("  ".join([view.id, state(view).ljust(10), printable(note(view))]).rstrip())


class JsonScreen(Screen):
    """A document a change, with the names of the wire."""

    def _draw(self, view: View) -> None:
        print_json(
            {
                "id": view.id,
                "status": view.status,
                "label": view.label,
                "attempts": view.attempts,
                "worker": view.worker,
                "progress": view.progress,
                "result": view.result,
                "error": view.error,
                "postedAt": view.posted_at,
                "updatedAt": view.updated_at,
                "finishedAt": view.finished_at,
            }
        )


class TerminalScreen(Screen):
    """A row for each open item, as many as there is room for; those that ended stand above.

    It is drawn over from the first row on: of what has ended already there are lines and no more.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        super().__init__(ids)
        self._progress = _progress()
        self._rows: dict[str, TaskID] = {}
        self._newest: dict[str, View] = {}
        self._room = max(1, self._progress.console.height - 3)
        self._hidden = self._progress.add_task("", total=None, visible=False, state="", note="")

    def __exit__(self, *raised: Any) -> None:
        """Ends; what was told stays."""
        self._progress.stop()

    def say(self, text: str) -> None:
        """Something else, above the rows."""
        self._progress.console.print(printable(text), style="dim")

    def _draw(self, view: View) -> None:
        if view.ended:
            self._newest.pop(view.id, None)
            self._end(view)
        else:
            self._newest[view.id] = view
        for item_id in list(self._newest)[: self._room]:
            if item_id not in self._rows or item_id == view.id:
                self._row(self._newest[item_id])
        more = len(self._newest) - len(self._rows)
        self._progress.update(self._hidden, description=f"and {more:,} more", visible=more > 0)

    def _row(self, view: View) -> None:
        self._progress.start()
        if view.id not in self._rows:
            self._rows[view.id] = self._progress.add_task(view.id, total=100, state="", note="")
        self._progress.update(
            self._rows[view.id], completed=percent(view.progress) or 0, state=_styled(state(view)), note=note(view)
        )

    def _end(self, view: View) -> None:
        from rich.text import Text

        if view.id in self._rows:
            self._progress.remove_task(self._rows.pop(view.id))
        line = Text.assemble(view.id, "  ", (state(view).ljust(10), STYLES.get(state(view), "")), "  ", _after(view))
        line.append(printable(note(view)))
        self._progress.console.print(line, no_wrap=True, overflow="ellipsis")


def state(view: View) -> str:
    """Its label, where the server tells one."""
    return view.label or view.status


def note(view: View) -> str:
    """What one most wants to know besides: how far it is and who has it, or what came of it."""
    if view.status == "finished":
        return _short(view.result)
    if view.ended:
        return str((view.error or {}).get("message", ""))
    notes = [_far(view.progress)] if view.progress is not None else []
    notes += [view.worker] if view.status == "processing" and view.worker else []
    notes += [str(view.error.get("message", ""))] if view.error else []
    return "; ".join(notes)


def _far(progress: Any) -> str:
    found = percent(progress)
    return _short(progress) if found is None else f"{found:g} %"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _after(view: View) -> str:
    ended = view.finished_at or int(time.time() * 1000)
    return f"after {span(ended - view.posted_at)}  "


def _styled(label: str) -> str:
    style = STYLES.get(label)
    return f"[{style}]{label:<10}[/]" if style else f"{label:<10}"


def _progress() -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    terminal = console()
    return Progress(
        SpinnerColumn("line" if terminal.options.ascii_only else "dots"),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[state]}"),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=terminal,
        transient=True,
    )
