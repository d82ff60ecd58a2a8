"""Whether an array contains a value, at the speed of C: an array may be as large as an item, and `equal` is slow there.

Python's `==` is what `jsontext.equal` says but for one thing: True == 1 and False == 0. So it decides alone where a
value holds neither; where it does, those places are looked at in what is alike, for all of it at once.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final

from leaseway_server.core.jsontext import Json, Path

__all__ = ["container_test"]

_ALIKE: Final = (0, 1)
"""The numbers that Python takes for false and true."""


def container_test(value: Json) -> Callable[[list[Json]], bool]:
    """The test whether an array has a member that is `equal` to the value; for values of at most `DEEPEST` levels."""
    doubtful = [(path, isinstance(leaf, bool)) for path, leaf in _leaves(value, ()) if _is_doubtful(leaf)]
    if not doubtful:
        return lambda values: value in values
    return lambda values: value in values and _contains(values, value, doubtful)


def _contains(values: list[Json], value: Json, doubtful: list[tuple[Path, bool]]) -> bool:
    alike = [each for each in values if each == value]
    for path, is_bool in doubtful:
        leaves: list[Any] = alike
        for step in path:  # What is alike has the same members, so that they are there.
            leaves = list(map(itemgetter(step), leaves))
        alike = [each for each, leaf in zip(alike, leaves, strict=True) if isinstance(leaf, bool) is is_bool]
    return bool(alike)


def _leaves(value: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    """All that is neither array nor object in the value, and where it is."""
    if isinstance(value, dict | list):
        for step, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(member, (*path, step))
    else:
        yield path, value


def _is_doubtful(leaf: Json) -> bool:
    return isinstance(leaf, bool | int | float) and leaf in _ALIKE
