"""JSON as text and as values: read and written faithfully, and compared as criteria and keys compare.

PROTOCOL.md's head says what faithful means: the value that was sent is the value that arrives, or it is refused here.
Nothing in this file knows what a value is for: no schema, no message, no item.
"""

import re
from typing import Final, TypeAlias

import orjson

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Path: TypeAlias = tuple[str | int, ...]
"""The way to a value within a value: names of members and indexes."""

LOWEST_INTEGER: Final = -(2**63)
HIGHEST_INTEGER: Final = 2**64 - 1
DEEPEST: Final = 64
"""Levels of arrays and objects in an item, record or result."""
LONGEST_POINTER: Final = 1_000

# An integer out of bounds has at least 19 digits. One pass at the speed of memory finds whether there is such a run.
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_LONG_RUN: Final = b"0" * 19
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}+(?![.eE])")

_REASONS: Final = (
    ("is infinity", "a number too large to keep: beyond 1.8e308, or an integer outside −2^63 … 2^64−1"),
    ("surrogate", "half of a surrogate pair in a string, which UTF-8 cannot carry"),
    ("byte order mark", "a byte order mark before the JSON"),
    ("depth limit", "more than 1,024 levels of arrays and objects"),
    ("zero-length", "an empty text is no JSON"),
)


class JsonRefused(ValueError):
    """A text that is no JSON, or a value that could not be kept as it is. The message says which, and where."""


def parse(text: str | bytes, first_line: int = 1) -> Json:
    """The value of a JSON text; of two equal member names the last one counts.

    Raises `JsonRefused`, in which the text's first line has the number `first_line`. The time is linear in the text's
    length, whatever it holds. Up to 1,024 levels are read here; `check_depth` bounds what is kept.
    """
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise JsonRefused(_told(fault, first_line)) from None
    raw = text.encode() if isinstance(text, str) else text
    if _LONG_RUN in raw.translate(_DIGITS):
        _refuse_long_integers(raw)
    return value


def write(value: Json) -> str:
    """The compact text of a value as `parse` gives them.

    Raises `JsonRefused` for what orjson cannot write (over 254 levels, an integer of more than 64 bits, half of a
    surrogate pair). A float that is not finite cannot come from `parse`, and is not looked for.
    """
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as fault:
        raise JsonRefused(f"cannot be written as JSON: {fault}") from None


def check_depth(value: Json) -> None:
    """Raises `JsonRefused` where a value has more levels than an item, record or result may have."""
    if too_deep(value):
        raise JsonRefused(f"more than {DEEPEST} levels of arrays and objects")


def too_deep(value: Json, limit: int = DEEPEST) -> bool:
    """Whether arrays and objects lie in more than `limit` levels (1 or more). An empty array is one, a number none.

    It calls itself once a level, and no deeper than `limit`.
    """
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        # This runs for every member of every message: exact types take half the time of isinstance.
        if (type(member) is dict or type(member) is list) and (limit <= 1 or too_deep(member, limit - 1)):
            return True
    return False


def equal(one: Json, other: Json) -> bool:
    """Equality as criteria and keys compare (PROTOCOL.md §4, §5): 1 = 1.0, not true; null is only null.

    Numbers compare exactly, objects whatever the order of their members, arrays member by member. For values of at most
    `DEEPEST` levels: it calls itself once a level.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(name in other and equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    # Python compares int and float exactly; only its True == 1 must not count.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def pointer(path: Path) -> str:
    """A path as a JSON Pointer (RFC 6901). One that would be too long to tell ends at the last step that fits."""
    text = ""
    for step in path:
        longer = f"{text}/{str(step).replace('~', '~0').replace('/', '~1')}"
        if len(longer) > LONGEST_POINTER:
            break
        text = longer
    return text


def _told(fault: orjson.JSONDecodeError, first_line: int) -> str:
    where = f"line {first_line + fault.lineno - 1}, column {fault.colno}"
    for sign, reason in _REASONS:
        if sign in fault.msg:
            return f"{reason} ({where})"
    return f"not JSON: {fault.msg} ({where})"


def _refuse_long_integers(raw: bytes) -> None:
    """orjson turns 2^64 into a float without a word. Strings and fractions may hold as many digits as they like."""
    for found in _LONG_INTEGER.finditer(_STRING.sub(b"", raw)):
        digits = found[0].decode()
        if len(digits) > 20 or not LOWEST_INTEGER <= int(digits) <= HIGHEST_INTEGER:
            shown = digits if len(digits) <= 40 else f"{digits[:30]}… ({len(digits.lstrip('-'))} digits)"
            raise JsonRefused(f"an integer outside −2^63 … 2^64−1 cannot be kept exactly: {shown}")
