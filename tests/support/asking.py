"""What random programs ask of items, what they post to be asked for, and whether the one meets the other.

The judge of a claim: it reads the protocol (§4) in the plainest way, and asks nothing of `core/criteria.py` or
`core/match.py`. Only the operators that are asked for here are known here.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from hypothesis import strategies as st

from leaseway_server.core.jsontext import Json

Match = tuple[str, ...]

MATCHES: Final[tuple[Match, ...]] = (("kind", "size"), ("kind",), ("at.zone",), ("size", "at.zone"), ())
"""What the queues of programs index."""
_OPERATORS: Final = frozenset({"$gt", "$lte", "$ne", "$in", "$exists"})

zones: st.SearchStrategy[Json] = st.sampled_from([1, "1", True, None])
"""Equal to none of each other."""
criteria: st.SearchStrategy[Json] = st.sampled_from(
    [
        *(None, None, {}),
        *({"kind": "a"}, {"kind": "b"}, {"kind": "a", "size": 1}),
        *({"size": 2}, {"kind": ["a", "b"]}, {"size": {"$gt": 1}, "kind": "a"}, {"size": {"$in": [2, 3]}}),
        *({"at": {"zone": 1.0}}, {"at": {"zone": ["1", None]}, "kind": {"$ne": "b"}}, {"at": {"$exists": False}}),
    ]
)


class Sought(NamedTuple):
    """Criteria, an item that meets them, and one that only looks like it."""

    criteria: dict[str, Json]
    item: dict[str, Json]
    other: dict[str, Json]


SOUGHT: Final = (
    Sought({"kind": "g"}, {"kind": "g", "size": 1}, {"kind": "G", "size": 1}),
    Sought({"kind": "g", "size": 2}, {"kind": "g", "size": 2}, {"kind": "g", "size": 1}),
    Sought({"kind": "g", "size": {"$gt": 1}}, {"kind": "g", "size": 2}, {"kind": "g", "size": 1}),
    Sought({"size": {"$gt": 2}}, {"size": 3}, {"size": 2}),
    Sought({"at": {"zone": 1.0}}, {"kind": "g", "at": {"zone": 1}}, {"kind": "g", "at": {"zone": "1"}}),
    Sought({"at": {"zone": [True, None]}}, {"kind": "g", "at": {"zone": True}}, {"kind": "g", "at": {"zone": 1}}),
    Sought({"at": {"zone": None}, "kind": ["g", "h"]}, {"kind": "h", "at": {"zone": None}}, {"kind": "h", "at": {}}),
    Sought({"at": {"$exists": True}, "kind": "g"}, {"kind": "g", "at": None}, {"kind": "g", "size": 1}),
)


def meets(item: Json, asked: Json) -> bool:
    """Whether an item, or a member of one that exists, meets what is asked of it."""
    if isinstance(asked, list):
        return any(_equal(item, one) for one in asked)
    if not isinstance(asked, dict):
        return _equal(item, asked)
    if asked.keys() & _OPERATORS:
        return all(_compares(item, operator, operand) for operator, operand in asked.items())
    return isinstance(item, dict) and all(_member_meets(item, name, member) for name, member in asked.items())


def _member_meets(item: dict[str, Json], name: str, asked: Json) -> bool:
    return meets(item[name], asked) if name in item else asked == {"$exists": False}


def _compares(member: Json, operator: str, operand: Json) -> bool:
    match operator, operand:
        case "$gt", int():
            return _is_number(member) and member > operand  # type: ignore[operator]
        case "$lte", int():
            return _is_number(member) and member <= operand  # type: ignore[operator]
        case "$in", list():
            return meets(member, operand)
        case "$ne", _:
            return not _equal(member, operand)
    return operand is True  # `$exists`, of a member that does.


def _equal(one: Json, other: Json) -> bool:
    return (isinstance(one, bool), one) == (isinstance(other, bool), other)


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(asked: dict[str, Json], match: Match) -> str:
    """Of which members criteria ask for certain values: of "indexed" ones, of "other" ones, of "both", or of "none".

    What they ask of an indexed member may need more than its index, such as an order: then it is one of the others.
    """
    indexed = [path in match and _is_certain(wanted) for path, wanted in _asked(asked)]
    if not indexed:
        return "none"
    return "indexed" if all(indexed) else "both" if any(indexed) else "other"


def _asked(asked: dict[str, Json], above: str = "") -> Iterator[tuple[str, Json]]:
    for name, wanted in asked.items():
        if isinstance(wanted, dict) and not wanted.keys() & _OPERATORS:
            yield from _asked(wanted, f"{above}{name}.")
        else:
            yield above + name, wanted


def _is_certain(wanted: Json) -> bool:
    return not isinstance(wanted, dict) or "$in" in wanted
