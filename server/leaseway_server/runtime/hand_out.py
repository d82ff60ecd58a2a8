"""The part of a turn that gives ready items to waiting claims (architecture: `The heart`, step 4).

What became claimable in this turn is offered from memory, since the store's index does not know it yet; then lanes that
have not seen everything look into the store, a bounded slice at a time.
"""

from collections.abc import Sequence
from typing import Final

from leaseway_server.core.commands import Answer, Ask, Empty, Handed, Outcome
from leaseway_server.core.dispatch import END, Dispatch, Lane
from leaseway_server.core.events import Claim
from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.match import Match, narrow
from leaseway_server.core.model import Item, Position
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn

ROW_CHARACTERS: Final = 8 * 1024
"""A row that is searched counts as one for each so many characters of its body."""
SLICE: Final = 250
"""So many rows are looked at for criteria in one turn, which takes a few ms; the next turn goes on."""
FEW: Final = 8
"""So many rows are read first for a claim with criteria, then twice as many: it may match one of the first."""


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

    async def run(self) -> None:
        """Until all claims are served, everything was seen, or the slice is used up."""
        ready = sorted(self._ready(), key=lambda item: item.position)
        if ready and len(self._dispatch):
            await self._rows.with_bodies(ready)
            ready = [item for item in ready if not self._offer(item)]
        budget = SLICE
        for lane in self._dispatch.to_search():
            budget = await self._search(lane, ready, budget)
            ready = [item for item in ready if self._rows[item.id].status == "pending"]
            if budget <= 0:
                break
        for item in ready:
            self._dispatch.stays_ready(item.position)
        for ask in self._dispatch.unanswered():
            self.end(ask)

    def end(self, ask: Ask) -> None:
        """The claim is over, with what it has."""
        self._outcomes.append((self._dispatch.remove(ask), Empty()))

    def _ready(self) -> list[Item]:
        return [item for item in self._rows.all() if item.ready and item.claimable(self._rows.now)]

    def _offer(self, item: Item) -> bool:
        value: list[Json] = []

        def read() -> Json:
            if not value:
                value.append(parse(item.body))
            return value[0]

        ask = self._dispatch.oldest_for(item.position, read)
        if ask is not None:
            self._hand(item, ask)
        return ask is not None

    async def _search(self, lane: Lane, ready: Sequence[Item], budget: int) -> int:
        """Looks through the store's ready items, and those of this turn that stand among them.

        It ends where the lane has all that it wants or has seen everything. Gives what is left of the budget of rows.
        """
        narrowing = narrow(lane.criteria, self._match)
        step = lane.wanted() if lane.criteria.matches_everything else max(FEW, lane.wanted())
        while budget > 0 and lane.searching:
            skip = {item.seq for item in self._rows.all()}
            found = await self._turn.pick(lane.cursor, min(budget, step), skip, narrowing)
            step *= 2
            budget -= max(1, len(found), sum(len(item.body) for item in found) // ROW_CHARACTERS)
            last = found[-1].position if found else END
            among = [item for item in ready if lane.cursor < item.position <= last]
            await self._rows.with_bodies(among)
            self._give_out(lane, sorted([*found, *among], key=lambda item: item.position), last)
        return budget

    def _give_out(self, lane: Lane, candidates: Sequence[Item], last: Position) -> None:
        """Gives the candidates, in the order of claims, to the lane's claims, and moves its cursor over them."""
        for item in candidates:
            lane.cursor = item.position
            if item.claimable(self._rows.now) and self._meets(lane, item):
                self._hand(self._rows.found(item), lane.oldest().ask)
                if not lane.claims:
                    return
        lane.cursor = last

    def _meets(self, lane: Lane, item: Item) -> bool:
        return lane.criteria.matches_everything or lane.criteria.matches(parse(item.body))

    def _hand(self, item: Item, ask: Ask) -> None:
        changed = self._rows.change(item.id, Claim(ask.holder, ask.user, ask.worker))
        assert changed.accepted, f"{item.id} was claimable and is not"
        assert changed.item is not None
        self._outcomes.append((self._dispatch.take(ask, len(changed.item.body)), Handed(changed.item)))
        if self._dispatch.has_enough(ask):
            self.end(ask)
