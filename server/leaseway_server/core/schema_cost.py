"""What a schema may cost, and how large a document it is therefore tried on (a slow one would hold up everybody).

The unit is one simple check of one value, about 5 ns. Each keyword has a figure for a plain value, one for a slow
number (with a fraction or an exponent: jsonschema-rs compares those by arbitrary precision), and formats, like patterns
that are not plain, have one for each character. They were measured with jsonschema-rs 0.61. From them follow, before
any document comes:

- how many checks the schema unfolds to with its references written out: past `MOST_CHECKS` it is refused;
- how many checks may fall on one value among those that a document may hold any number of (members of arrays, further
  properties, levels of a recursion). A document is checked only while that times its number of values stays within
  `BUDGET`, about 50 ms.

A recursion counts once for each value: jsonschema-rs remembers its verdict for a reference at a value.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from leaseway_server.core.jsontext import DEEPEST, Json
from leaseway_server.core.schema_pattern import LONGEST, PLAIN, alive
from leaseway_server.core.schema_places import SAME_VALUE, Place, SchemaRefused, unfold

MOST_CHECKS: Final = 100_000
BUDGET: Final = 10_000_000
MOST_VALUES: Final = 600_000
"""A document of 1 MiB holds no more values: where the budget allows so many, nobody counts."""
FEWEST_VALUES: Final = 100
MOST_EXTREME: Final = 1_000
"""So many numbers beyond 1e18 or below 1e-18, and integers that are one float with another, a document may hold."""
_UNBOUNDED: Final = frozenset({"items", "contains", "additionalProperties", "patternProperties", "propertyNames"}) | {
    *("unevaluatedItems", "unevaluatedProperties")
}


class Cost(NamedTuple):
    """Checks that may fall on one value: on a plain one, on a slow number, on each character of a text."""

    plain: int = 0
    slow: int = 0
    letter: int = 0

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        """This and `times` the other."""
        return Cost(*(mine + times * its for mine, its in zip(self, other, strict=True)))

    def most(self, other: "Cost") -> "Cost":
        """The larger of each."""
        return Cost(*map(max, self, other))


class _Known(NamedTuple):
    """Of a place: its checks in all, the most on one value, the most on one of the values that may be many."""

    checks: int
    peak: Cost
    repeated: Cost


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a document may hold."""

    most_values: int
    most_fractions: int
    most_letters: int
    """Of texts so short that formats, and expressions that are not plain, are tried on them."""
    unique: bool
    """Whether values must differ: integers beyond 2^53 that are one float are told apart slowly."""

    @property
    def any_will_do(self) -> bool:
        """Whether no document has to be measured."""
        return self.most_values >= MOST_VALUES <= self.most_letters and self.most_fractions >= self.most_values

    def excess(self, value: Json) -> str:
        """Why a document is too much for this schema, or an empty text."""
        count = 0
        for level in _levels(value):
            count += len(level)
            if count > self.most_values:
                return f"holds more than {self.most_values:,} values: too many for what this schema asks of each"
        told = ""
        if self.most_fractions < self.most_values and count > min(MOST_EXTREME, self.most_fractions):
            told = self._excess_of_numbers(value)
        return told or self._excess_of_letters(value)

    def _excess_of_numbers(self, value: Json) -> str:
        floats: list[float] = []
        integers: list[int] = []
        for level in _levels(value):
            floats += [number for number in level if type(number) is float]
            integers += (
                [number for number in level if type(number) is int and abs(number) > 2**53] if self.unique else ()
            )
        if len(floats) > self.most_fractions:
            return f"holds more than {self.most_fractions:,} fractions: too many for what this schema asks of each"
        extreme = sum(1 for number in floats if number and not 1e-18 <= abs(number) <= 1e18)
        alike = len(integers) - len(set(map(float, integers)))
        if extreme + alike > MOST_EXTREME:
            return f"holds more than {MOST_EXTREME:,} very large or very small numbers, which this schema compares"
        return ""

    def _excess_of_letters(self, value: Json) -> str:
        if self.most_letters >= MOST_VALUES:
            return ""
        letters = 0
        for level in _levels(value):
            texts = chain(level, *(one for one in level if type(one) is dict))
            letters += sum(len(text) for text in texts if type(text) is str and len(text) <= LONGEST)
        if letters > self.most_letters:
            limit = f"{self.most_letters:,} characters"
            return f"holds texts of more than {limit}: too many for this schema's patterns and formats"
        return ""


def bounds(root: Place) -> Bounds:
    """The bounds of a schema's documents. Raises `SchemaRefused` where a small document could take long already."""
    order, returns = unfold([root], _all_parts)
    targets = {target for _place, target in returns}
    known: dict[Place, _Known] = {}
    for place in order:
        known[place] = _weigh(place, known, returns, DEEPEST if targets else 1)
        if known[place].checks > MOST_CHECKS:
            raise SchemaRefused(
                place.pointer, f"unfolds to more than {MOST_CHECKS:,} checks: refer less to what refers"
            )
    repeated = known[root].repeated
    for target in targets:
        repeated = repeated.plus(known[target].peak)
    if repeated.plain * FEWEST_VALUES > BUDGET:
        raise SchemaRefused("", "asks so much of values that may be many that hardly a document could be checked")
    unique = any(isinstance(place.schema, dict) and place.schema.get("uniqueItems") is True for place in order)
    values, fractions, letters = (BUDGET // max(each, 1) for each in repeated)
    return Bounds(values, fractions, letters, unique)


def _all_parts(place: Place) -> Iterator[Place]:
    return place.of(*(keyword for keyword in place.parts if keyword not in ("$defs", "definitions")))


def _weigh(place: Place, known: dict[Place, _Known], returns: set[tuple[Place, Place]], levels: int) -> _Known:
    here, deep, member = _own(place.schema, levels)
    same, named, many, checks = _Known(0, Cost(), Cost()), (Cost(), Cost()), member, here.plain
    # Which properties are unevaluated is found by evaluating what applies to the same value again.
    times = 3 if "unevaluatedItems" in place.parts or "unevaluatedProperties" in place.parts else 1
    for keyword in place.parts.keys() - {"$defs", "definitions"}:
        for part in place.of(keyword):
            if (place, part) in returns:
                continue
            one = known[part]
            if keyword in SAME_VALUE:
                same = _Known(0, same.peak.plus(one.peak, times), same.repeated.plus(one.repeated, times))
                checks += (times - 1) * one.checks
            elif keyword in _UNBOUNDED:
                many = many.plus(one.peak)
            else:
                named = named[0].most(one.peak), named[1].most(one.repeated)
            checks += one.checks
    return _Known(
        checks,
        deep.plus(here.most(named[0].plus(many))).plus(same.peak),
        deep.plus(named[1]).plus(many).plus(same.repeated),
    )


def _own(schema: dict[str, Any] | bool, levels: int) -> tuple[Cost, Cost, Cost]:
    """What a place's own keywords cost: on its value, on every value within that, and on every member's name."""
    here, deep, member = Cost(1, 1), Cost(), Cost()
    for keyword, content in schema.items() if isinstance(schema, dict) else ():
        if keyword == "uniqueItems" and content:
            deep = deep.plus(Cost(60, 1_200), levels)
        elif keyword in ("const", "enum"):
            options = [content] if keyword == "const" else content
            cost = _comparing(options)
            if any(isinstance(option, dict | list) for option in options):
                deep = deep.plus(cost, levels)
            else:
                here = here.plus(cost)
        elif keyword == "patternProperties":
            member = Cost(8 * len(content), 8 * len(content))
        else:
            here = here.plus(_PRICES.get(keyword, _simple)(content))
    return here, deep, member


def _simple(_content: object) -> Cost:
    return Cost(1, 1)


def _listed(content: dict[str, Any] | list[Any]) -> Cost:
    return Cost(2 * len(content) + 1, 2 * len(content) + 1)


def _limit(content: float) -> Cost:
    return Cost(60, 140) if isinstance(content, float) else Cost(1, 4)


def _multiple(content: float) -> Cost:
    return Cost(200, 600) if isinstance(content, float) else Cost(3, 80)


def _comparing(options: list[Any]) -> Cost:
    """Strings alone and integers alone are looked up; all else is compared one by one, numbers slowly with floats."""
    numbers = [option for option in options if isinstance(option, int | float) and not isinstance(option, bool)]
    floats = [number for number in numbers if isinstance(number, float)]
    holders = [option for option in options if isinstance(option, dict | list)]
    looked_up = len(numbers) in (0, len(options)) and not floats and not holders
    plain = 1 if looked_up else 5 * len(options) + 60 * len(floats)
    return Cost(plain, plain + 75 * len(numbers) + 190 * len(floats) + 255 * len(holders))


_FORMATS: Final = {"email": Cost(40, 1, 4), "hostname": Cost(20, 1, 2)}
"""The dear ones, for what they decode: all others cost 12, and 1 a character."""
_PRICES: Final[dict[str, Callable[[Any], Cost]]] = {
    "minimum": _limit,
    "maximum": _limit,
    "exclusiveMinimum": _limit,
    "exclusiveMaximum": _limit,
    "multipleOf": _multiple,
    "required": _listed,
    "dependentRequired": _listed,
    "dependentSchemas": _listed,
    "format": lambda name: _FORMATS.get(name, Cost(12, 1, 1)),
    "pattern": lambda content: Cost(4, 1, alive(content) if alive(content) > PLAIN else 0),
}


def _levels(value: Json) -> Iterator[list[Json]]:
    """All values, those of one depth at a time. Types are exact, as `parse` gives them: half the time of isinstance."""
    level = [value]
    while level:
        yield level
        holders: list[Any] = [one for one in level if type(one) is list or type(one) is dict]
        level = [*chain.from_iterable(holder.values() if type(holder) is dict else holder for holder in holders)]
