"""What a queue's `match` names, as texts that an index can hold: those of items, and those that criteria pin it to.

Two values have the same text exactly where criteria call them equal (`jsontext.equal`). A text only narrows down where
to look: whether an item meets criteria is decided by the criteria themselves.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.jsontext import Json

Match: TypeAlias = tuple[str, ...]
"""Members of the items of a queue, as dotted paths, in the order of the configuration."""

MOST_MATCHES: Final = 8
"""So many members are indexed at most: each post writes each of them."""
LONGEST_TEXT: Final = 64
"""A longer string is told by its hash, so that an index holds no large texts."""
MOST_TEXTS: Final = 32
"""Criteria that take more values of a member than this do not use its index: each value is a search of its own."""


class Narrowing(NamedTuple):
    """Only items whose member number `column` (1 is the first that `match` names) has one of the `texts` can match."""

    column: int
    texts: tuple[str, ...]


def texts_of(item: Json, match: Match) -> Match:
    """The text of each member that `match` names; "" for one that is missing, and for an array or object."""
    return tuple(_text(_member(item, steps)) for steps in _steps(match))


def column_texts(item: Json, match: Match) -> Match:
    """The same for all `MOST_MATCHES` columns that a store has; "" where `match` names no member."""
    texts = texts_of(item, match)
    return (*texts, *[""] * (MOST_MATCHES - len(texts)))


def narrow(criteria: Criteria, match: Match) -> Narrowing | None:
    """The member that the criteria pin to the fewest values, of equal ones the first; None where they pin none."""
    pinned = (_pinned(criteria.asked, steps) for steps in _steps(match))
    found = [Narrowing(column, texts) for column, texts in enumerate(pinned, 1) if texts is not None]
    return min(found, key=lambda each: len(each.texts), default=None)


@lru_cache(256)
def _steps(match: Match) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(path.split(".")) for path in match)


def _member(item: Json, steps: tuple[str, ...]) -> Json:
    """The member at this path; an empty object where there is none, which has no text either."""
    for step in steps:
        if not isinstance(item, dict) or step not in item:
            return {}
        item = item[step]
    return item


def _text(value: Json) -> str:
    """Kinds differ by how their texts begin: a string by `"` or `#`, a number by a digit or `-`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}' if len(value) <= LONGEST_TEXT else f"#{_hash(value)}"
        case float() if not value.is_integer():
            return repr(value)
        case int() | float():
            return str(int(value))  # Exact for floats too: 1e300 is an integer, and equal to the one of that value.
    return ""


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _pinned(criterion: Json, steps: tuple[str, ...]) -> Match | None:
    """The texts of the values that the member at this path must have one of; None where it may have others."""
    for step in steps:
        if not isinstance(criterion, dict) or step not in criterion:
            return None
        criterion = criterion[step]  # Operators are no steps: no path has a name that begins with $.
    values = criterion.get("$in") if isinstance(criterion, dict) else criterion
    if isinstance(criterion, dict) and values is None:
        return None
    texts = {_text(value) for value in (values if isinstance(values, list) else [values])}
    return tuple(sorted(texts)) if "" not in texts and len(texts) <= MOST_TEXTS else None
