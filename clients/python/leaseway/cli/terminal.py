"""Where a command writes: whether people read there, and in colour.

Nothing is printed here. `NO_COLOR` is obeyed as https://no-color.org says; no style at all is written then.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def on_terminal(*, errors: bool = False) -> bool:
    """Whether people read the standard output, or the standard error."""
    return (sys.stderr if errors else sys.stdout).isatty()


def on_live_terminal(*, errors: bool = False) -> bool:
    """Whether it can be drawn over, too."""
    return on_terminal(errors=errors) and os.environ.get("TERM", "dumb") != "dumb"


def console(*, errors: bool = False) -> Console:
    """The standard output, or the standard error, for rich, which is loaded here: other commands start without it.

    Where nobody reads, or nobody wants colours, it writes no style. What is printed is text, never markup.
    """
    from rich.console import Console

    read = on_terminal(errors=errors)
    plain = not read or bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=errors,
        color_system=None if plain else "auto",
        force_terminal=read,
        highlight=False,
        markup=False,
        emoji=False,
    )
