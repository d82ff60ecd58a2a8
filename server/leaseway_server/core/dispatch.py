"""Waiting claims as data: who gets what, in which order, until when.

Claims with the same criteria stand in one lane, so that an item is probed once per shape of criteria and not once per
claim. A lane knows how far it has looked through the ready items of the store: everything before its `cursor` either
does not match or is taken, so an item that becomes ready before the cursor is offered from memory, and one behind it is
found by the lane's own search. The turn does the searching. What it does here is kept by `commit` and undone by
`rollback`, so that a turn that fails takes no claim with it.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Final

from leaseway_server.core.commands import Answer, Ask
from leaseway_server.core.criteria import ANYTHING, Criteria, Shape
from leaseway_server.core.model import START, Position

END: Final[Position] = (2**31, 0, 0)
"""A cursor that has seen all ready items."""

CLAIM_CHARACTERS: Final = 8 * 1024 * 1024
"""A claim that was given more than so much is ended, with fewer items than it asked for: the server cuts `count`."""

SPARE_ENDS: Final = 1_000
OWED_A_TURN: Final = 250
"""So many of the items that are yet to be offered are offered in one turn."""
MOST_OWED: Final = 10_000
"""Where more than so many items are yet to be offered, the lanes begin to look anew instead."""
AGAIN_MS: Final = 50
"""What another server had in hand is offered after so long; whoever has it is done by then, or stands still."""
HANDS_MS: Final = 1_000
"""So long at most a claim that does not wait is kept for what others have in hand (PROTOCOL.md §1)."""
IDLE_LANES: Final = 64
"""So many lanes without a claim keep their cursor, so that a worker's next claim need not search anew."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A claim in its lane. `number` is its age, `left` how many items it still takes.

    One that is `brief` does not wait, unless for what other servers have in hand.
    """

    number: int
    ask: Ask
    answer: Answer
    left: int
    brief: bool
    size: int = 0
    """Characters of the items that it was given so far."""
    lane: "Lane" = field(init=False)


@dataclass(slots=True, eq=False)
class Lane:
    """The claims of one shape of criteria, oldest first."""

    criteria: Criteria
    claims: OrderedDict[int, Waiting] = field(default_factory=OrderedDict)
    """By number. In a plain dict the first one is looked for behind all that left before it: slow where many wait."""
    cursor: Position = START
    searched: int = 0
    """When it was last searched, counted in searches; the one that waited longest is next."""

    @property
    def searching(self) -> bool:
        """Whether a claim waits here for what the store may still have."""
        return bool(self.claims) and self.cursor < END

    def oldest(self) -> Waiting:
        """The claim that is served first."""
        return next(iter(self.claims.values()))

    def wanted(self) -> int:
        """How many items the lane's claims still take."""
        return sum(waiting.left for waiting in self.claims.values())


class Dispatch:
    """All waiting claims of one queue."""

    def __init__(self) -> None:
        self._lanes: dict[Shape, Lane] = {}
        self._idle: OrderedDict[Shape, Lane] = OrderedDict()
        """Those without a claim, in the order in which they lost their last one."""
        self._unseen: dict[Lane, None] = {}
        """All that have yet to look; and some that have not any more, until the next `commit`."""
        self._brief: dict[int, Waiting] = {}
        """The claims that do not wait, by number."""
        self._owed: dict[str, None] = {}
        """The ids of items that became ready and were not offered yet."""
        self._passed: dict[str, None] = {}
        """The ids of those that another server had in hand."""
        self._back_at = 0
        """When they are owed again; 0 where there are none."""
        self._by_ask: dict[Ask, Waiting] = {}
        self._by_holder: dict[int, dict[int, Ask]] = {}
        self._by_number: dict[int, Ask] = {}
        self._ends: list[tuple[int, int]] = []
        self._numbers = count()
        self._searches = count(1)
        self._undo: list[tuple[Waiting, int]] = []

    def __len__(self) -> int:
        return len(self._by_ask)

    def __contains__(self, ask: Ask) -> bool:
        return ask in self._by_ask

    def add(self, ask: Ask, answer: Answer) -> None:
        """A new claim, the youngest of its lane."""
        waiting = Waiting(next(self._numbers), ask, answer, ask.count, brief=not ask.until)
        self._undo.append((waiting, 0))
        self._enter(waiting)

    def remove(self, ask: Ask) -> Answer:
        """The claim leaves. Gives whom to tell."""
        waiting = self._by_ask[ask]
        self._undo.append((waiting, waiting.left))
        self._leave(waiting)
        return waiting.answer

    def take(self, ask: Ask, size: int = 0) -> Answer:
        """One item of so many characters goes to the claim, which leaves when it has all. Gives whom to tell."""
        waiting = self._by_ask[ask]
        self._undo.append((waiting, waiting.left))
        waiting.left -= 1
        waiting.size += size
        if waiting.left == 0:
            self._leave(waiting)
        return waiting.answer

    def has_enough(self, ask: Ask) -> bool:
        """Whether the claim still waits, but was given so much already that it had better be asked anew."""
        return ask in self._by_ask and self._by_ask[ask].size > CLAIM_CHARACTERS

    def commit(self) -> None:
        """Keeps what was done since the last `commit` or `rollback`."""
        self._undo.clear()
        self._forget_idle_lanes()
        self._unseen = {lane: None for lane in self._unseen if lane.searching}
        if len(self._ends) > 2 * len(self._by_ask) + SPARE_ENDS:  # Most are of claims that left before their time.
            self._gather_ends()

    def rollback(self) -> None:
        """Undoes it: every claim is as it was and as old as it was, and every lane looks anew."""
        for waiting, left in reversed(self._undo):
            if waiting.ask in self._by_ask:
                self._leave(waiting)
            waiting.left = left
            if left:
                self._enter(waiting)
        self._undo.clear()
        for lane in self._lanes.values():
            lane.claims = OrderedDict(sorted(lane.claims.items()))
        self._look_at_all()

    def of_holder(self, holder: int) -> list[Ask]:
        """The claims of one socket, oldest first."""
        return list(self._by_holder.get(holder, {}).values())

    def waiting(self, holder: int) -> list[tuple[Ask, int]]:
        """The claims of one socket, oldest first, and how many items each still takes."""
        return [(ask, self._by_ask[ask].left) for ask in self.of_holder(holder)]

    def withdraw(self, holder: int, ask: Ask | None) -> list[Answer]:
        """The claims of a socket leave, or this one of them. Gives whom to tell."""
        asks = self.of_holder(holder) if ask is None else [ask]
        return [self.remove(each) for each in asks if each in self]

    def end(self, now: int) -> list[Answer]:
        """The claims whose time is over leave. Gives whom to tell."""
        ended = []
        while self._ends and self._ends[0][0] <= now:
            ask = self._by_number.get(heapq.heappop(self._ends)[1])
            if ask is not None:
                ended.append(self.remove(ask))
        return ended

    def next_end(self) -> int:
        """When the first claim's time is over, ms since the epoch; 0 where none waits."""
        while self._ends and self._ends[0][1] not in self._by_number:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else 0

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return len(self._lanes)

    def oldest_for(self, position: Position, meets: Callable[[Criteria], bool | None]) -> tuple[Ask | None, list[Lane]]:
        """The oldest claim that takes an item which just became ready at `position`.

        `meets` says whether it meets criteria, or None where that would take too long by now: then it goes to the
        oldest of the claims before; where none of them takes it, the lanes are given that did not look at it.
        """
        best: Waiting | None = None
        unseen: list[Lane] = []
        for lane in self._lanes.values():
            if not lane.claims or position > lane.cursor:
                continue
            oldest = lane.oldest()
            if best is not None and best.number < oldest.number:
                continue
            met = meets(lane.criteria)
            if met is None:
                unseen.append(lane)
            elif met:
                best = oldest
        return (best.ask, []) if best else (None, unseen)

    def owe(self, ids: Iterable[str]) -> None:
        """These became ready and were not offered: they will be, in turns to come."""
        self._owed.update(dict.fromkeys(ids))
        if len(self._owed) > MOST_OWED:
            self._look_at_all()

    def pass_by(self, ids: Iterable[str], now: int) -> None:
        """Another server has these in hand: they are owed after a moment. Claims that do not wait do so meanwhile."""
        before = len(self._passed)
        self._passed.update(dict.fromkeys(ids))
        if len(self._passed) == before:
            return
        self._back_at = now + AGAIN_MS
        for number, waiting in self._brief.items():
            if not waiting.ask.until:
                waiting.ask.until = now + HANDS_MS
                heapq.heappush(self._ends, (waiting.ask.until, number))

    def shift(self, by: int, now: int) -> None:
        """The store's clock was set by so much (ms), and is `now`: claims wait on for as long as they would have. Those
        that came after the step, before it was seen, wait no longer than they asked for."""
        for ask in self._by_number.values():
            if ask.until:
                ask.until = min(ask.until + by, now + max(ask.wait_ms, HANDS_MS))
        self._gather_ends()
        self._back_at = min(self._back_at, 1)  # At once.

    def come_back(self, now: int) -> None:
        """What was passed by is owed again, where it is time."""
        if 0 < self._back_at <= now:
            passed, self._passed, self._back_at = self._passed, {}, 0
            self.owe(passed)

    @property
    def next_back(self) -> int:
        """When what was passed by is to be offered, ms since the epoch; 0 is never."""
        return self._back_at if self._by_ask else 0

    def take_owed(self) -> list[str]:
        """Some of what is owed, those first that are owed longest; to be offered now, or owed again."""
        ids = list(islice(self._owed, OWED_A_TURN))
        for item_id in ids:
            del self._owed[item_id]
        return ids

    @property
    def searching(self) -> bool:
        """Whether a lane still has to look into the store, or a claim to be offered something."""
        return any(lane.searching for lane in self._unseen) or bool(self._owed and self._by_ask)

    @property
    def for_anything(self) -> Lane | None:
        """The lane that takes anything, where it still has to look."""
        lane = self._lanes.get(ANYTHING.shape)
        return lane if lane and lane.searching else None

    def to_search(self) -> Iterator[Lane]:
        """The lanes that still have to look: first those that did not look yet and the one that takes anything (what it
        looks at it takes), those with the oldest claims first; then those that looked longest ago."""
        lanes = [lane for lane in self._unseen if lane.searching]
        for lane in sorted(lanes, key=_turn_of):
            lane.searched = next(self._searches)
            yield lane

    def unanswered(self, *, searched: bool = True) -> list[Ask]:
        """The claims that do not wait; with `searched` only those whose lane has seen everything."""
        if searched and (self._owed or self._passed):
            return []
        return [each.ask for each in self._brief.values() if each.lane.cursor == END or not searched]

    def hear_of(self, ids: Iterable[str]) -> None:
        """These became ready on another server, which did not hand them out."""
        self.look_again()
        if any(lane.claims and not lane.criteria.matches_everything for lane in self._lanes.values()):
            self.owe(ids)
        else:
            self.look_from(START, self._idle.values())

    def look_again(self) -> None:
        """What takes anything has yet to look at all that the store has: it passed by what other servers had locked."""
        if (lane := self._lanes.get(ANYTHING.shape)) is not None:
            self.look_from(START, [lane])

    def look_anew(self) -> None:
        """All lanes have yet to look at all that the store has, those with the oldest claims first."""
        for lane in self._lanes.values():
            lane.searched = 0
        self._look_at_all()

    def look_from(self, position: Position, lanes: Iterable[Lane]) -> None:
        """These lanes have yet to look at what stands at this position and behind it."""
        rank, due_at, seq = position
        for lane in lanes:
            lane.cursor = min(lane.cursor, (rank, due_at, seq - 1))
            self._unseen[lane] = None

    def asked(self) -> list[Criteria]:
        """The criteria of the claims that wait, each once."""
        return [lane.criteria for lane in self._lanes.values() if lane.claims]

    def stays_ready(self, position: Position) -> None:
        """No claim took what became ready at this position and behind it: the lanes without claims must look at it
        when one comes."""
        self.look_from(position, self._idle.values())

    def _enter(self, waiting: Waiting) -> None:
        ask = waiting.ask
        lane = waiting.lane = self._lane(ask.criteria)
        lane.claims[waiting.number] = waiting
        if lane.cursor < END:
            self._unseen[lane] = None
        self._by_ask[ask] = waiting
        self._by_number[waiting.number] = ask
        self._by_holder.setdefault(ask.holder, {})[waiting.number] = ask
        if ask.until:
            heapq.heappush(self._ends, (ask.until, waiting.number))
        if waiting.brief:
            self._brief[waiting.number] = waiting

    def _lane(self, criteria: Criteria) -> Lane:
        """The lane of these criteria, which has a claim from now on."""
        lane = self._lanes.get(criteria.shape)
        if lane is None:
            lane = self._lanes[criteria.shape] = Lane(criteria)
        elif not lane.claims:
            del self._idle[criteria.shape]
        return lane

    def _leave(self, waiting: Waiting) -> None:
        ask = waiting.ask
        del self._by_ask[ask], self._by_number[waiting.number]
        self._brief.pop(waiting.number, None)
        lane = waiting.lane
        del lane.claims[waiting.number]
        if not lane.claims:
            self._idle[lane.criteria.shape] = lane
        held = self._by_holder[ask.holder]
        del held[waiting.number]
        if not held:
            del self._by_holder[ask.holder]

    def _gather_ends(self) -> None:
        self._ends = [(ask.until, number) for number, ask in self._by_number.items() if ask.until]
        heapq.heapify(self._ends)

    def _forget_idle_lanes(self) -> None:
        while len(self._idle) > IDLE_LANES:
            shape, _ = self._idle.popitem(last=False)
            del self._lanes[shape]

    def _look_at_all(self) -> None:
        for lane in self._lanes.values():
            lane.cursor = START
        self._unseen = dict.fromkeys(self._lanes.values())
        self._owed.clear()
        self._passed.clear()
        self._back_at = 0


def _turn_of(lane: Lane) -> tuple[bool, int, int]:
    first = lane.searched == 0 or lane.criteria.matches_everything
    return not first, 0 if first else lane.searched, lane.oldest().number
