"""Random programs against the queue: claims with criteria, of members that are indexed and of others; other members."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from support.asking import MATCHES, SOUGHT, Match, Sought
from support.driver import Driver
from support.key_rules import ITEMS, index, now_or_later
from support.rare import SEEN
from support.side import Said


class MatchRules(Driver):
    """A part of one program."""

    @precondition(lambda self: self.journal.sockets and len(self.journal.rows) < ITEMS)
    @rule(
        who=index,
        sought=st.sampled_from(SOUGHT),
        others=st.integers(1, 5),
        first=st.booleans(),
        priority=st.sampled_from([0, 0, 0, 1]),
        most=st.integers(1, 2),
        now=now_or_later,
    )
    def seek(self, who: int, sought: Sought, others: int, first: bool, priority: int, most: int, now: bool) -> None:
        """An item among others that look like it, and a claim for it that came before them or comes behind them.

        Where it came before, another stands in front of it that asks for what does not come.
        """
        if first:
            self._say(self._socket(who), "claim", {"criteria": {"kind": "none"}, "waitMs": 20_000})
            self._seek(who, sought, most, 20_000)
            self._then(now)
        for _ in range(others):
            self._post(sought.other, {})
        self._then(now)
        self._post(sought.item, {"priority": priority})
        self._then(now)
        if not first:
            self._seek(who, sought, most, 0)
        self._turn()

    def _seek(self, who: int, sought: Sought, most: int, wait: int) -> None:
        value: Said = {"criteria": dict(sought.criteria), "count": most, "waitMs": wait}
        self._say(self._socket(who), "claim", value)

    @precondition(lambda self: len(self.journal.rows) < ITEMS)
    @rule(
        match=st.sampled_from(MATCHES),
        clean=st.booleans(),
        cut_off=st.booleans(),
        sought=st.sampled_from(SOUGHT),
    )
    def index_others(self, match: Match, clean: bool, cut_off: bool, sought: Sought) -> None:
        """The server is started again to index other members, perhaps after a start that was killed as it did so.

        A claim waits until then, and its item comes due only when the worker has claimed again.
        """
        self._seek(0, sought, 1, 20_000)
        self._post(sought.other, {})
        self._turn()
        self._post(sought.item, {"delayMs": 500})
        self._turn()
        if match != self.journal.claim_book.match:
            SEEN["members indexed anew under a claim"] += any(claim.until for claim in self.journal.claims.values())
            SEEN["members indexed anew under a lease"] += bool(self._pick(0, lambda row: row.status == "processing"))
        self._end(clean=clean)
        self._rematch(match)
        if cut_off:
            for side in self.sides:
                self._loop.run_until_complete(side.break_off_indexing())
            SEEN["killed as it indexed"] += bool(self.journal.rows)
        self._start()
        self._open("ann", "w1")
        self._seek(0, sought, 1, 20_000)
        self._turn()
        self._taken()
        self.clock.advance(500)
        self._turn()
