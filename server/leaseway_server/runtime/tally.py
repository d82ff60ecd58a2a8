"""How many items there are of each status, and what happened in each minute: kept by each commit, never counted.

The counts are the store's too, changed in the same transaction. The minutes are in memory only: a start begins anew,
unless other servers share the store, which tell each other theirs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from leaseway_server.core.model import OPEN, STATUSES, Changes, Item, Status

MINUTE_MS: Final = 60_000
MINUTES: Final = 60
"""So many are kept: the last hour."""


def count_changes(changes: Changes, removed: Iterable[Item]) -> dict[Status, int]:
    """By how much the number of items of each status differs afterwards; those that stay the same are left out."""
    more: dict[Status, int] = {}
    for before, after in changes:
        if before is None:
            more[after.status] = more.get(after.status, 0) + 1
        elif before.status != after.status:
            more[before.status] = more.get(before.status, 0) - 1
            more[after.status] = more.get(after.status, 0) + 1
    for item in removed:
        more[item.status] = more.get(item.status, 0) - 1
    return {status: number for status, number in more.items() if number}


@dataclass(slots=True)
class Minute:
    """What happened in the minute that began at `at` (ms since the epoch). Ends are counted by how items ended."""

    at: int
    posted: int = 0
    claimed: int = 0
    finished: int = 0
    failed: int = 0
    dead: int = 0
    requeued: int = 0

    def plus(self, other: "Minute | None") -> "Minute":
        """The figures of both."""
        if other is None:
            return self
        return Minute(self.at, *(mine + theirs for mine, theirs in zip(self.figures(), other.figures(), strict=True)))

    def figures(self) -> tuple[int, ...]:
        """The numbers, in the order in which they stand above."""
        return (self.posted, self.claimed, self.finished, self.failed, self.dead, self.requeued)

    def add(self, changes: Changes) -> None:
        """What one turn did."""
        for before, after in changes:
            was: Status = before.status if before else "pending"
            claims = after.attempts - (before.attempts if before else 0)
            self.posted += before is None
            if claims or after.status != was:
                self._move(was, claims, after.status)

    def _move(self, was: Status, claims: int, status: Status) -> None:
        self.claimed += claims
        # Each time that it was in work it was given back; but for the last time, where it is not pending now.
        self.requeued += max(0, claims + (was == "processing") - (status != "pending"))
        if status == was:
            return
        if status == "finished":
            self.finished += 1
        elif status == "failed":
            self.failed += 1
        elif status == "dead":
            self.dead += 1


class Tally:
    """The counts and the minutes of one queue."""

    def __init__(self, counts: Mapping[Status, int]) -> None:
        self.counts: dict[Status, int] = {}
        """How many items are committed, by status; all statuses are there."""
        self.recount(counts)
        self._minutes = [Minute(0) for _ in range(MINUTES)]
        self._elsewhere: dict[int, Minute] = {}
        """What other servers told, by when the minute began."""

    @property
    def ended(self) -> int:
        """How many items have ended and are still there."""
        return sum(number for status, number in self.counts.items() if status not in OPEN)

    def recount(self, counts: Mapping[Status, int]) -> None:
        """The store has so many by now."""
        self.counts = dict.fromkeys(STATUSES, 0) | dict(counts)

    def take(self, more: Mapping[Status, int], changes: Changes, now: int) -> None:
        """A turn was committed: `more` is what `count_changes` said of it, `now` its time."""
        for status, number in more.items():
            self.counts[status] += number
        self._minute(now - now % MINUTE_MS).add(changes)

    def rates(self, now: int) -> list[Minute]:
        """The last hour, a minute each, oldest first; the last one is not over yet. Empty ones are there too."""
        newest = now - now % MINUTE_MS
        times = range(newest - (MINUTES - 1) * MINUTE_MS, newest + 1, MINUTE_MS)
        return [self._all(at) for at in times]

    def figures(self, now: int) -> dict[str, object]:
        """What a `stats` message says of them (PROTOCOL.md §3): the counts, and the newest minute."""
        at = now - now % MINUTE_MS
        return {"counts": self.counts, "rates": asdict(self._all(at))}

    def own(self, now: int) -> list[Minute]:
        """What happened here in the newest minute and in the one before."""
        at = now - now % MINUTE_MS
        return [self._own(at - MINUTE_MS), self._own(at)]

    def hear(self, minutes: Mapping[int, Sequence[int]], now: int) -> None:
        """Other servers did so much in these minutes, in place of what they told before."""
        self._elsewhere |= {at: Minute(at, *figures) for at, figures in minutes.items()}
        self._elsewhere = {at: each for at, each in self._elsewhere.items() if at > now - MINUTES * MINUTE_MS}

    def _all(self, at: int) -> Minute:
        return self._own(at).plus(self._elsewhere.get(at))

    def _own(self, at: int) -> Minute:
        return kept if (kept := self._slot(at)).at == at else Minute(at)

    def _slot(self, at: int) -> Minute:
        return self._minutes[at // MINUTE_MS % MINUTES]

    def _minute(self, at: int) -> Minute:
        if self._slot(at).at != at:
            self._minutes[at // MINUTE_MS % MINUTES] = Minute(at)
        return self._slot(at)
