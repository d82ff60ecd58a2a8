"""Regular expressions in schemas: an engine without backtracking, and how long a string each may be tried on.

The engine's time is the string's length times the number of places in the expression that can be alive at one
character. As long as the sets of them are few it goes by table, a nanosecond or two a character; an expression written
for it makes it walk through all of them, up to four nanoseconds each (150 ms for 800,000 characters and
`a[ab]{15}c`). So only plain expressions, where few can be alive at once, are tried on strings of any length.
"""

import re
from typing import Any, Final

from jsonschema_rs import RegexOptions

PATTERNS: Final = RegexOptions(size_limit=64 * 1024)
"""`size_limit` is the compiled program's, in bytes: it refuses expressions such as `(\\w{1,99}){1,99}`."""
PLAIN: Final = 12
"""So many places may be alive in an expression that is tried on strings of any length."""
LONGEST: Final = 4_096
"""Characters of a string on which other expressions, and formats, are tried. A longer string does not match them."""

_TOKEN: Final = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]"  # a class
    r"|\\(?:[pPxu]\{[^}]*\}|.)"
    r"|\((?:\?(?:[:=!]|<[=!]|P?<[^>]*>|[imsux-]*[:)]))?"
    r"|[*+?]\??|\{\d+(?:,\d*)?\}\??"
    r"|.",
    re.DOTALL,
)


def alive(pattern: str) -> int:
    """How many places of an expression can be alive at one character, at most.

    Before its first repetition without end, an expression that begins with `^` has gone no further than its own length:
    only what follows counts, from the group on that holds the repetition.
    """
    groups, last, before_loop = [0], 0, None
    branches = False
    for part in _TOKEN.findall(pattern):
        if part.startswith("(") and not part.endswith(")"):
            groups.append(0)
            continue
        if part == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
            continue
        most = _times(part)
        if most is None:
            last = 1
            groups[-1] += last
            branches = branches or (part == "|" and len(groups) == 1)
            continue
        if _endless(part) and before_loop is None:
            before_loop = groups[0] - (last if len(groups) == 1 else 0)
        groups[-1] += last * (most - 1)
    total = sum(groups)
    if branches or not pattern.startswith("^"):
        return total
    return total - (total if before_loop is None else before_loop)


def guarded(pattern: str) -> dict[str, Any]:
    """The schema of a string that matches, or of anything else but a string; nothing slow."""
    return {"pattern": pattern} if alive(pattern) <= PLAIN else on_short_texts({"pattern": pattern})


def on_short_texts(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of strings that no string of more than `LONGEST` characters meets; it is not tried on them."""
    return {"if": {"maxLength": LONGEST}, "then": schema, "else": False}


def _times(part: str) -> int | None:
    """How often a repetition repeats what stands before it, if it is one; one without end counts as its least."""
    if part[0] in "*+?":
        return 1
    if part[0] == "{" and len(part) > 1:
        return max(1, *(int(number) for number in re.findall(r"\d+", part)))
    return None


def _endless(part: str) -> bool:
    return part[0] in "*+" or ",}" in part
