"""How figures are shown: tables that are drawn over on a terminal, a line a queue in a pipe, or JSON.

What is shown is decided in `tables.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from leaseway.cli.options import print_json
from leaseway.cli.terminal import console, on_live_terminal, on_terminal
from leaseway.cli.top.figures import Figures
from leaseway.cli.top.tables import line, tables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


class Screen:
    """A line a queue. Use it with `with`; `period` is how often it wants to be shown something, seconds."""

    period: float = 2.0

    def __enter__(self) -> Screen:
        """Begins."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; what was shown last stays."""

    def show(self, figures: Sequence[Figures], now: int) -> None:
        """This is how it stands."""
        clock = time.strftime("%H:%M:%S", time.localtime(now / 1000))
        for each in figures:
            click.echo(f"{clock} {line(each, now)}")


class JsonScreen(Screen):
    """A document a refresh."""

    def show(self, figures: Sequence[Figures], now: int) -> None:
        """This is how it stands."""
        print_json({"at": now, "queues": [each.document() for each in figures]})


class TerminalScreen(Screen):
    """Tables."""

    def __init__(self) -> None:
        self._console: Console = console()

    def show(self, figures: Sequence[Figures], now: int) -> None:
        """This is how it stands."""
        self._console.print(tables(figures, now, self._console.width, self._console.height))


class LiveScreen(TerminalScreen):
    """Tables that are drawn over."""

    period = 0.5  # As often as the server pushes.

    def __init__(self) -> None:
        from rich.live import Live

        super().__init__()
        self._live: Live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Screen:
        """Begins."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; what was shown last stays."""
        self._live.stop()

    def show(self, figures: Sequence[Figures], now: int) -> None:
        """This is how it stands."""
        shown = tables(figures, now, self._console.width, self._console.height)
        self._live.update(shown, refresh=True)


def screen_for(*, as_json: bool, once: bool) -> Screen:
    """The one that fits where it is read."""
    if as_json:
        return JsonScreen()
    if not on_terminal():
        return Screen()
    return LiveScreen() if on_live_terminal() and not once else TerminalScreen()
