"""Criteria: what a claim asks of an item (PROTOCOL.md §4). Parsed once, in bounds, then matched any number of times.

    {"format": ["jpg", "png"], "vramGb": {"$lte": 24}, "owner": {"team": "maps"}}

An object asks for the same members, a scalar for an equal value, an array for one of its values (each compared whole,
as `equal` compares), an object of operators for all of its comparisons. Nothing here knows of stores or of items' rows.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Final, TypeAlias

from leaseway_server.core.contains import container_test
from leaseway_server.core.jsontext import Json, Path, equal, pointer, too_deep

__all__ = ["Criteria", "CriteriaRefused", "Json", "Shape"]

Shape: TypeAlias = Hashable
"""Criteria that ask for the same thing in another order have equal shapes."""
Test: TypeAlias = Callable[[Json], bool]
Need: TypeAlias = tuple[Shape, Test]

MOST_VALUES: Final = 1_000
MOST_CHARACTERS: Final = 16_384
"""In all names and texts: criteria stand in memory as long as their claim waits, and are told to administrators."""
MOST_LEVELS: Final = 16
VALUES: Final = 10
SCANNED_CHARACTERS: Final = 256
"""So many values of criteria, or characters of an item's arrays, take about as long as one small comparison."""
_ABSENT: Final[Shape] = ("meets", frozenset({("$exists", (True, False))}))
"""The shape of `{"$exists": false}`, the only criterion that a missing member matches."""


class CriteriaRefused(ValueError):
    """Criteria that cannot be understood or are too large. `path` is a JSON Pointer into them."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = pointer(path)


@dataclass(frozen=True, slots=True)
class Criteria:
    """What one claim asks for; equal where the shape is equal."""

    shape: Shape
    matches_everything: bool
    size: int
    """How many members and values it holds in all."""
    characters: int
    """How many characters its names and texts have in all."""
    scans: bool
    """Whether they look at all of an array, as large as the item; else they look at no more than they hold."""
    asked: Json
    """As the claim gave them; `{}` where it gave none."""
    _test: Test

    @classmethod
    def parse(cls, value: Json) -> "Criteria":
        """Criteria as a claim gives them; None and `{}` match everything. Raises `CriteriaRefused`."""
        if value is None or value == {}:
            return ANYTHING
        if not isinstance(value, dict):
            raise CriteriaRefused((), "criteria must be an object")
        size, characters = _checked_size(value)
        shape, test = _need(value, ())
        return cls(shape, False, size, characters, _has_operator("$has", value), value, test)

    def effort(self, characters: int) -> int:
        """How long it takes at most to hold an item of so many characters against them, in small comparisons."""
        return 1 + self.size // VALUES + (characters // SCANNED_CHARACTERS if self.scans else 0)

    def matches(self, item: Json) -> bool:
        """Whether an item (of at most 64 levels) meets them."""
        return self._test(item)

    def explain(self, item: Json) -> tuple[str, Json] | None:
        """The first criterion that the item does not meet: a JSON Pointer into the item, and what is asked there.

        None where it meets all.
        """
        return None if self.matches_everything else _unmet(self.asked, item, ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Criteria) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.shape)


ANYTHING: Final = Criteria(("anything",), True, 0, 0, False, {}, lambda _item: True)
"""What a claim asks for that asks for nothing in particular."""


def _checked_size(criteria: Json) -> tuple[int, int]:
    """How many members and values they hold, and how many characters their names and texts have."""
    count, characters, waiting = 0, 0, [criteria]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, str):
            characters += len(holder)
        elif isinstance(holder, dict | list):
            count += len(holder)
            if count > MOST_VALUES:
                raise CriteriaRefused((), f"criteria may hold {MOST_VALUES:,} members and values in all, not more")
            characters += sum(map(len, holder)) if isinstance(holder, dict) else 0
            waiting += holder.values() if isinstance(holder, dict) else holder
    if characters > MOST_CHARACTERS:
        raise CriteriaRefused((), f"the names and texts of criteria may have {MOST_CHARACTERS:,} characters, not more")
    if too_deep(criteria, MOST_LEVELS):
        raise CriteriaRefused((), f"criteria may have {MOST_LEVELS} levels, not more")
    return count, characters


def _has_operator(operator: str, criterion: Json) -> bool:
    """Whether it stands anywhere in them. (A value may hold a member of that name: then it is taken for one.)"""
    if isinstance(criterion, dict):
        return operator in criterion or any(_has_operator(operator, each) for each in criterion.values())
    return False


def _need(criterion: Json, path: Path) -> Need:
    if isinstance(criterion, dict):
        operators = [name for name in criterion if name.startswith("$")]
        if not operators:
            return _members(criterion, path)
        if len(operators) < len(criterion):
            raise CriteriaRefused(path, f"{operators[0]} cannot stand beside members: use operators alone, or none")
        return _comparisons(criterion, path)
    if isinstance(criterion, list):
        for index, value in enumerate(criterion):
            if isinstance(value, dict) and any(name.startswith("$") for name in value):
                raise CriteriaRefused((*path, index), "an array asks for one of its values: no operators in it")
        return ("one of", frozenset(map(_literal, criterion))), _one_of(criterion)
    return ("one of", frozenset({_literal(criterion)})), lambda member: equal(member, criterion)


def _members(criterion: dict[str, Json], path: Path) -> Need:
    needs = {name: _need(value, (*path, name)) for name, value in criterion.items()}
    tests = [(name, test, shape == _ABSENT) for name, (shape, test) in needs.items()]

    def same_members(item: Json) -> bool:
        if not isinstance(item, dict):
            return False
        return all(test(item[name]) if name in item else may_be_absent for name, test, may_be_absent in tests)

    return ("members", frozenset((name, shape) for name, (shape, _test) in needs.items())), same_members


def _unmet(criterion: Json, value: Json, path: Path) -> tuple[str, Json] | None:
    """The innermost criterion that fails, if any; each is tried once."""
    if (
        not isinstance(criterion, dict)
        or not isinstance(value, dict)
        or any(name.startswith("$") for name in criterion)
    ):
        return None if _need(criterion, path)[1](value) else (pointer(path), criterion)
    for name, asked in criterion.items():
        here = (*path, name)
        if name not in value and _need(asked, here)[0] != _ABSENT:
            return pointer(here), asked
        if name in value and (failed := _unmet(asked, value[name], here)):
            return failed
    return None


def _comparisons(criterion: dict[str, Json], path: Path) -> Need:
    needs = [_comparison(name, operand, (*path, name)) for name, operand in criterion.items()]
    tests = [test for _shape, test in needs]
    return ("meets", frozenset(shape for shape, _test in needs)), lambda member: all(test(member) for test in tests)


def _comparison(operator: str, operand: Json, path: Path) -> Need:
    match operator, operand:
        case (("$lt" | "$lte" | "$gt" | "$gte"), str() | int() | float()) if not isinstance(operand, bool):
            return (operator, _literal(operand)), _ordered(_ORDERS[operator], operand)
        case (("$lt" | "$lte" | "$gt" | "$gte"), _):
            raise CriteriaRefused(path, f"{operator} takes a number or a string")
        case "$ne", _:
            return (operator, _literal(operand)), lambda member: not equal(member, operand)
        case "$in", list():
            return (operator, frozenset(map(_literal, operand))), _one_of(operand)
        case "$in", _:
            raise CriteriaRefused(path, "$in takes an array")
        case "$exists", bool():
            # A member that is missing never comes here: `_members` decides it.
            return (operator, _literal(operand)), lambda _member: operand
        case "$exists", _:
            raise CriteriaRefused(path, "$exists takes true or false")
        case "$has", _:
            return (operator, _literal(operand)), _has(operand)
    raise CriteriaRefused(path, f"{operator[:40]} is no operator; there are $lt $lte $gt $gte $ne $in $exists $has")


_ORDERS: Final = {"$lt": lt, "$lte": le, "$gt": gt, "$gte": ge}


def _ordered(compare: Callable[..., bool], operand: str | int | float) -> Test:
    """Strings compare by code point with strings, numbers exactly with numbers, nothing else with anything."""
    kinds = str if isinstance(operand, str) else int | float
    return lambda member: isinstance(member, kinds) and not isinstance(member, bool) and compare(member, operand)


def _one_of(values: list[Json]) -> Test:
    scalars = frozenset(_literal(value) for value in values if not isinstance(value, dict | list))
    holders = [value for value in values if isinstance(value, dict | list)]

    def one_of(member: Json) -> bool:
        if isinstance(member, dict | list):
            return member in holders and any(equal(member, holder) for holder in holders)  # The first in C.
        return _literal(member) in scalars

    return one_of


def _has(operand: Json) -> Test:
    contains = container_test(operand)
    return lambda member: isinstance(member, list) and contains(member)


def _literal(value: Json) -> Hashable:
    """A value as it is compared, hashable: two are equal exactly where `equal` says so."""
    if isinstance(value, dict):
        return "object", frozenset((name, _literal(member)) for name, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_literal, value))
    return isinstance(value, bool), value
