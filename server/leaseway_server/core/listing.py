"""Which items a list holds: the filter of `GET /<queue>/items` and of `bulk` (PROTOCOL.md §5), read and applied."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.members import NAME_LIMIT, is_name
from leaseway_server.core.model import Item, Status
from leaseway_server.core.view import label

STATUSES: Final = frozenset(get_args(Status))
LABELS: Final[Mapping[str, str]] = {"scheduled": "pending", "retrying": "pending"} | {each: each for each in STATUSES}
"""The status of an item that has the label."""
MOST_VALUES: Final = 100
"""So many values may one member of a filter have."""
LONGEST_PAGE: Final = 1_000
USUAL_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Filter:
    """What an item must be; an empty set takes anything. A poster "" is nobody in particular."""

    status: frozenset[str] = frozenset()
    label: frozenset[str] = frozenset()
    posted_by: frozenset[str] = frozenset()
    key: frozenset[str] = frozenset()

    def admits(self, item: Item, now: int) -> bool:
        """Whether the item is one of those at `now`, which decides between some labels."""
        return (
            (not self.status or item.status in self.status)
            and (not self.label or label(item, now) in self.label)
            and (not self.posted_by or item.posted_by in self.posted_by)
            and (not self.key or item.key in self.key)
        )

    def statuses(self) -> frozenset[str]:
        """What status an item may have that is admitted."""
        labelled = frozenset(LABELS[each] for each in self.label) if self.label else STATUSES
        return labelled & (self.status or STATUSES)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, newest posted first; `next` is the cursor of what follows, "" where nothing does."""

    items: list[Item]
    next: str


def parse_filter(members: Mapping[str, Json], path: str = "", beside: Sequence[str] = ()) -> Filter:
    """A filter from its members, each a text or an array of texts. `path` is where it stands in what was sent.

    `beside` names what else is known there, and was read already. Raises `BadMessage`, also for a member that is
    unknown: one that is misspelt must not mean everything.
    """
    for name in members:
        if name not in _READ:
            known = ", ".join((*_READ, *beside))
            raise BadMessage(f"{name[:40]} is not known here; known are {known}", path=_below(path, name))
    values = {name: _values(name, members[name], path) if name in members else frozenset() for name in _READ}
    return Filter(values["status"], values["label"], values["postedBy"], values["key"])


def _values(name: str, value: Json, path: str) -> frozenset[str]:
    values = value if isinstance(value, list) else [value]
    if not 0 < len(values) <= MOST_VALUES:
        raise BadMessage(f"{name} takes 1 to {MOST_VALUES} values", path=_below(path, name))
    return frozenset(_READ[name](name, each, _below(path, name)) for each in values)


def _one_of(known: frozenset[str]) -> Callable[[str, Json, str], str]:
    def read(name: str, value: Json, path: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise BadMessage(f"{name} must be one of {', '.join(sorted(known))}", path=path)
        return value

    return read


def _poster(name: str, value: Json, path: str) -> str:
    return "" if value == "" else _name(name, value, path)


def _name(name: str, value: Json, path: str) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise BadMessage(f"{name} must be a text of 1 to {NAME_LIMIT} characters without controls", path=path)
    return value


def _below(path: str, name: str) -> str:
    return path and f"{path}/{name.replace('~', '~0').replace('/', '~1')[:NAME_LIMIT]}"


_READ: Final[Mapping[str, Callable[[str, Json, str], str]]] = {
    "status": _one_of(STATUSES),
    "label": _one_of(frozenset(LABELS)),
    "postedBy": _poster,
    "key": _name,
}
