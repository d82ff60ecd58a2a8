"""The claims of one program: which are open, whether they got what they asked for, and in which order.

Items go by their names; a row's place is its rank, its due time and its name's number, in the order of row numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from support.asking import Match, kind_of, meets
from support.rare import SEEN


@dataclass(slots=True, eq=False)
class OpenClaim:
    """A claim that was not answered to its end."""

    who: str
    user: str
    worker: str
    criteria: dict[str, Json]
    left: int
    wait_ms: int
    until: int | None = None
    """None until a turn took it up."""
    waited: bool = False
    """Whether it waited already before the turns that were just run."""

    def takes(self, item: Json) -> bool:
        """Whether the item is one of those it asks for. No criteria take anything, what is no object too."""
        return not self.criteria or meets(item, self.criteria)

    def takes_row(self, row: Item) -> bool:
        """The same of a stored item."""
        return self.takes(orjson.loads(row.body))


class ClaimBook:
    """What came of claims."""

    def __init__(self) -> None:
        self.match: Match = ()
        """The members that the queue indexes."""
        self._matches: dict[str, Match] = {}
        """Those that it indexed when an item was posted."""
        self._handed: list[tuple[OpenClaim, str]] = []
        self._empty: list[OpenClaim] = []

    def take_rows(self, rows: Mapping[str, Item]) -> None:
        """These are the items now."""
        for name in rows:
            self._matches.setdefault(name, self.match)

    def handed(self, claim: OpenClaim, name: str, rows: Mapping[str, Item]) -> None:
        """It was given this item. `rows` are those before the turns that did it."""
        self._handed.append((claim, name))
        kind = kind_of(claim.criteria, self.match)
        row = rows.get(name)
        if row is None:
            SEEN[f"a waiting claim's {kind} criteria met by a post"] += claim.waited
            return
        if row.ready:
            ahead = [other for other in rows.values() if other.ready and _place(other) < _place(row)]
            behind_others = any(not claim.takes_row(other) for other in ahead)
            SEEN[f"{kind} criteria met behind items that do not"] += behind_others
        was = kind_of(claim.criteria, self._matches[name])
        SEEN["found by a member indexed since its post"] += (kind, was) == ("indexed", "other")

    def ended_empty(self, claim: OpenClaim) -> None:
        """It got nothing, or nothing more."""
        self._empty.append(claim)

    def check(self, before: Mapping[str, Item], rows: Mapping[str, Item]) -> None:
        """Nobody was passed by, judging by the items that were ready all the time and that nothing happened to."""
        idle = [row for name, row in rows.items() if row.ready and before.get(name) == row]
        for claim in self._empty:
            missed = [row.id for row in idle if not claim.wait_ms and claim.takes_row(row)]
            assert not missed, f"{missed} were claimable, and a claim got nothing"
        for claim, name in self._handed:
            was, row = before.get(name), rows.get(name)
            if was and row and was.ready and row.rev == was.rev + 1:  # Nothing but the claim happened to it.
                earlier = [other.id for other in idle if _place(other) < _place(was) and claim.takes_row(other)]
                assert not earlier, f"{earlier} stood before {name}"

    def forget(self) -> None:
        """The next turns begin."""
        self._handed.clear()
        self._empty.clear()


def _place(row: Item) -> tuple[int, int, int]:
    return row.rank, row.due_at, int(row.id[1:])
