"""Where a command writes: whether people read there, and in colour.

Nothing is printed here. `NO_COLOR` is obeyed as https://no-color.org says; no style at all is written then.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def on_terminal() -> bool:
    """Whether people read the standard output."""
    return sys.stdout.isatty()


def on_live_terminal() -> bool:
    """Whether it can be drawn over, too."""
    return on_terminal() and os.environ.get("TERM", "dumb") != "dumb"


def console() -> Console:
    """The standard output for rich, which is loaded here: other commands start without it.

    Where nobody reads, or nobody wants colours, it writes no style. What is printed is text, never markup.
    """
    from rich.console import Console

    plain = not on_terminal() or bool(os.environ.get("NO_COLOR"))
    return Console(
        color_system=None if plain else "auto", force_terminal=on_terminal(), highlight=False, markup=False, emoji=False
    )
