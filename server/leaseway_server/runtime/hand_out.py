"""The part of a turn that gives ready items to waiting claims (architecture: `The heart`, step 4).

What became claimable in this turn is offered from memory, since the store's index does not know it yet, as far as a
budget goes (`offering.py`), and the rest in the turns to come; then lanes that have not seen everything look into the
store, a bounded slice at a time.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from leaseway_server.core.commands import Answer, Ask, Empty, Handed, Outcome
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.dispatch import END, Dispatch, Lane
from leaseway_server.core.events import Claim
from leaseway_server.core.jsontext import parse
from leaseway_server.core.match import Match, narrow
from leaseway_server.core.model import Candidate, Item, Position
from leaseway_server.runtime.offering import Offering
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn

SLICE: Final = 125
"""So many rows are looked at in one turn, which takes about a ms; the next turn goes on."""
MEMORY_CHARACTERS: Final = 256 * 1024
"""Of the turn's own items a step of a search looks at about so many characters."""
READ_CHARACTERS: Final = 8 * 1024
"""A row counts as one more for each so many characters of its body."""
PARSED_CHARACTERS: Final = 1024
"""The same where criteria are to be held against it, and it is parsed."""
CRITERIA_VALUES: Final = 100
"""A row that is held against criteria counts as one more for each so many members and values that they hold."""
FEW: Final = 8
"""So many rows are read first for a claim with criteria, then twice as many: it may match one of the first."""
_POSITION: Final = attrgetter("position")


class HandOut:
    """Gives out what is ready. `outcomes` are to be told after the commit."""

    def __init__(
        self, turn: Turn, rows: Rows, dispatch: Dispatch, outcomes: list[tuple[Answer, Outcome]], match: Match = ()
    ) -> None:
        self._turn = turn
        self._rows = rows
        self._dispatch = dispatch
        self._outcomes = outcomes
        self._match = match

    async def run(self, owed: Collection[str] = ()) -> None:
        """Until all claims are served, everything was seen, or the slice is used up. `owed` are ids of rows that became
        ready before, and were not offered yet."""
        ready = sorted(self._ready(), key=_POSITION)
        # The lanes know of the others.
        news = [item for item in ready if self._rows.changed(item) or item.id in owed]
        if news and len(self._dispatch):
            await self._offer(news)
        await self._look(ready)
        if news := self._still(news):
            self._dispatch.stays_ready(news[0].position)
        self._dispatch.pass_by(self._turn.missed, self._rows.now)  # It may be ready yet, once who has it is done.
        for ask in await self._unanswered():
            self.end(ask)

    async def _unanswered(self) -> list[Ask]:
        """The claims that do not wait and have seen everything, also what others have in hand."""
        asks = self._dispatch.unanswered()
        if any(ask.criteria.matches_everything for ask in asks):  # These took what was free, and saw nothing else.
            left = await self._turn.left_to_others({item.seq for item in self._rows.all()}, self._rows.now)
            self._dispatch.pass_by(left, self._rows.now)
            asks = self._dispatch.unanswered()
        return asks

    async def _look(self, ready: Sequence[Item]) -> None:
        """The lanes look, one after the other. What takes anything waits for no further slices of others."""
        budget = SLICE
        anything = self._dispatch.for_anything
        for lane in self._dispatch.to_search():
            if lane is anything:
                anything = None
            budget = await self._search(lane, self._still(ready), budget)
            if budget <= 0:
                break
        if anything is not None:
            await self._search(anything, self._still(ready), SLICE)

    def end(self, ask: Ask) -> None:
        """The claim is over, with what it has."""
        self._outcomes.append((self._dispatch.remove(ask), Empty()))

    def _ready(self) -> list[Item]:
        return [item for item in self._rows.all() if item.ready and item.claimable(self._rows.now)]

    def _still(self, ready: Sequence[Item]) -> list[Item]:
        """Those of them that were not given out meanwhile."""
        return [item for item in ready if self._rows[item.id].status == "pending"]

    async def _offer(self, news: Sequence[Item]) -> None:
        """Offers them to the lanes, in their order; what is past the budget, in the turns to come."""
        offering = Offering()
        for index, item in enumerate(news):
            if not offering.begin(self._dispatch.lanes):
                self._dispatch.owe(each.id for each in news[index:])
                return
            if not item.body:
                await self._rows.with_bodies(news[index : index + FEW])
            ask, unseen = self._dispatch.oldest_for(item.position, offering.show(item.body))
            if ask:
                self._hand(item, ask)
            elif unseen and index:
                self._dispatch.owe(each.id for each in news[index:])
                return
            else:  # What is too much for a whole turn is left to the lanes.
                self._dispatch.look_from(item.position, unseen)

    async def _search(self, lane: Lane, ready: Sequence[Item], budget: int) -> int:
        """Looks through the store's ready items, and those of this turn that stand among them.

        It ends where the lane has all that it wants or has seen everything. Gives what is left of the budget of rows.
        """
        narrowing = narrow(lane.criteria, self._match)
        step = lane.wanted() if lane.criteria.matches_everything else max(FEW, lane.wanted())
        while budget > 0 and lane.searching:
            skip = {item.seq for item in self._rows.all()}
            most = max(1, min(budget // _price(lane.criteria), step))
            taking = lane.criteria.matches_everything
            found = await self._turn.pick(lane.cursor, most, skip, narrowing, taking=taking)
            step *= 2
            last = found[-1].position if found else END
            among, last = await self._among(ready, lane.cursor, last, most)
            seen: list[Item | Candidate] = [each for each in found if each.position <= last]
            seen += among
            budget -= _work(lane.criteria, seen)
            await self._give_out(lane, sorted(seen, key=_POSITION), last)
        return budget

    async def _among(
        self, ready: Sequence[Item], after: Position, last: Position, most: int
    ) -> tuple[list[Item], Position]:
        """The turn's own items behind `after`, up to `last`; and how far that is, where they are too many or too large.

        At least one of them, where there is one.
        """
        among: list[Item] = []
        size = 0
        for index in range(bisect_right(ready, after, key=_POSITION), len(ready)):
            item = ready[index]
            if item.position > last:
                break
            if len(among) == most or size > MEMORY_CHARACTERS:
                return among, among[-1].position
            await self._rows.with_bodies([item])
            among.append(item)
            size += len(item.body)
        return among, last

    async def _give_out(self, lane: Lane, seen: Sequence[Item | Candidate], last: Position) -> None:
        """Gives what meets its criteria, in the order of claims, to the lane's claims; moves its cursor behind that."""
        chosen = list(islice((each for each in seen if self._meets(lane, each)), lane.wanted()))
        for item in await self._items(chosen):
            lane.cursor = item.position
            self._hand(self._rows.found(item), lane.oldest().ask)
            if not lane.claims:
                return
        lane.cursor = last

    async def _items(self, chosen: Sequence[Item | Candidate]) -> list[Item]:
        """The whole items. They are no rows of the turn yet, since a claim that has enough leaves some to others."""
        items = {each.seq: each for each in chosen if isinstance(each, Item)}
        if picked := [each for each in chosen if isinstance(each, Candidate)]:
            items |= await self._turn.take(picked)
        return [items[each.seq] for each in chosen if each.seq in items]

    def _meets(self, lane: Lane, each: Item | Candidate) -> bool:
        criteria = lane.criteria
        return each.claimable(self._rows.now) and (criteria.matches_everything or criteria.matches(parse(each.body)))

    def _hand(self, item: Item, ask: Ask) -> None:
        changed = self._rows.change(item.id, Claim(ask.holder, ask.user, ask.worker))
        assert changed.accepted, f"{item.id} was claimable and is not"
        assert changed.item is not None
        self._outcomes.append((self._dispatch.take(ask, len(changed.item.body)), Handed(changed.item)))
        if self._dispatch.has_enough(ask):
            self.end(ask)


def _price(criteria: Criteria) -> int:
    """What a small row counts as that is held against the criteria."""
    return 1 + criteria.size // CRITERIA_VALUES


def _work(criteria: Criteria, seen: Sequence[Item | Candidate]) -> int:
    """How much of a slice it takes to look at these rows, or to see that there are none; in small rows."""
    size = sum(len(each.body) for each in seen)
    characters = READ_CHARACTERS if criteria.matches_everything else PARSED_CHARACTERS
    return max(1, len(seen) * _price(criteria) + size // characters)
