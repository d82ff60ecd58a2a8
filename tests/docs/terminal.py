"""A terminal of the kind that rich draws on, from the bytes that were written to it to a picture.

It knows the few codes that rich's live displays use: lines that are erased and drawn anew. Owns no process.
"""

import re
from io import StringIO
from typing import Final

from rich.console import Console
from rich.text import Text

_CODE: Final = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_PICTURE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace; line-height: {line_height}px }}
.{unique_id}-title {{ font: bold 18px sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Terminal:
    """What was written, line by line, styles included."""

    def __init__(self) -> None:
        self._lines = [""]
        self._at = 0

    def write(self, text: str) -> None:
        """Draws. Raises `ValueError` for a code that it does not know."""
        position = 0
        while position < len(text):
            found = _CODE.match(text, position)
            if found is None:
                raise ValueError(f"an unknown code: {text[position : position + 20]!r}")
            self._take(found)
            position = found.end()

    def _take(self, found: re.Match[str]) -> None:
        match found[2], found[3]:
            case ("m", _):
                self._lines[self._at] += found[0]
            case ("A", _):
                self._at = max(0, self._at - int(found[1] or 1))
            case ("K", _) | (_, "\r"):
                if found[1] == "2":
                    self._lines[self._at] = ""
            case (_, "\n"):
                self._at += 1
                self._lines += [""] * (self._at == len(self._lines))
            case ("h" | "l", _):
                pass  # The cursor is shown, or not.
            case (None, None):
                self._lines[self._at] += found[4]
            case (code, _):
                raise ValueError(f"an unknown code: {code}")

    @property
    def text(self) -> str:
        """What is on it, without styles."""
        return "\n".join(Text.from_ansi(line).plain for line in self._lines)

    def picture(self, name: str, title: str, columns: int) -> str:
        """It as SVG that loads nothing from elsewhere."""
        console = Console(
            record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor", highlight=False
        )
        for line in self._lines[: self._used()]:
            console.print(Text.from_ansi(line), no_wrap=True, crop=True)
        return console.export_svg(title=title, code_format=_PICTURE, unique_id=name)

    def _used(self) -> int:
        return max((at for at, line in enumerate(self._lines, 1) if Text.from_ansi(line).plain.strip()), default=0)
