"""How much is offered from memory in one turn: items that became ready are held against the lanes' criteria there.

It all happens between two looks at the sockets, so that it has a budget, whatever the number of items, their size and
the number of lanes. What is not offered within it is offered in the turns to come; an item that is too much for a whole
turn the lanes find in the store, slice by slice, in the order in which they search, so that under such load the oldest
claim need not be the first.
"""

from collections.abc import Callable
from typing import Final

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.jsontext import Json, parse

OFFERS: Final = 4_000
"""So many small comparisons are made in one turn, of about a µs each; and one item more is begun, never two."""
PARSED_CHARACTERS: Final = 1024
"""An item counts as one more for each so many characters, where it has to be parsed."""
LANES: Final = 16
"""To pass by so many lanes, which look elsewhere at the moment, takes as long as one comparison."""


class Offering:
    """What one turn may still offer."""

    def __init__(self) -> None:
        self._left = OFFERS

    def begin(self, lanes: int) -> bool:
        """Whether one more item may be offered to so many lanes."""
        begins = self._left > 0
        self._left -= lanes // LANES
        return begins

    def show(self, body: str) -> Callable[[Criteria], bool | None]:
        """The item, to hold criteria against: whether they are met, None where too much was done already."""
        value: list[Json] = []

        def meets(criteria: Criteria) -> bool | None:
            if self._left <= 0:
                return None
            self._left -= criteria.effort(len(body))
            if criteria.matches_everything:
                return True
            if not value:
                self._left -= len(body) // PARSED_CHARACTERS
                value.append(parse(body))
            return criteria.matches(value[0])

        return meets
