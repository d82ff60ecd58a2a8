"""What is counted while a server works, as plain numbers: turns by their engine's meter, what passes the doors by one
`Traffic` a server. How it is told is `metrics.py`'s; names that a client sent are counted nowhere.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leaseway_server.core.model import TERMINAL, Changes, Item, Status

Door: TypeAlias = Literal["http", "work", "monitor"]
Cause: TypeAlias = Literal["lost", "failed", "released", "parted"]

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""A turn has at most 1,000 commands."""
CLOSE_CODES: Final = frozenset(
    {1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1011, 1012, 1013, 4401, 4403, 4404}
)
"""Those that PROTOCOL.md §6 has, and those that stand for a connection that ended without one. All else is `other`."""


class Histogram:
    """How often a value was at most each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """By the first bound that a value did not pass; the last are those that passed all."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """A value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class TurnMeter:
    """The `Observer` of one engine. `now` gives seconds."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.turns = Histogram(SECONDS)
        self.commits = Histogram(SECONDS)
        """Only those that were synced."""
        self.commands = Histogram(SIZES)
        self.posted = 0
        self.claimed = 0
        self.ended: Counter[Status] = Counter()
        self.requeued: Counter[Cause] = Counter()
        self._now = now
        self._began = self._committing = 0.0

    def began(self) -> None:
        """A turn begins."""
        self._began = self._now()

    def committing(self) -> None:
        """The commit begins."""
        self._committing = self._now()

    def committed(self, commands: int, durable: bool) -> None:
        """The commit is over."""
        now = self._now()
        self.turns.observe(now - self._began)
        self.commands.observe(commands)
        if durable:
            self.commits.observe(now - self._committing)

    def changed(self, changes: Changes) -> None:
        """What the turn changed. An item that went back and was claimed again in one turn counts as both."""
        for before, after in changes:
            status = after.status
            if before is None:
                self.posted += 1
                self.claimed += after.attempts
                if status in TERMINAL:
                    self.ended[status] += 1
                continue
            claims = after.attempts - before.attempts
            self.claimed += claims
            if status in TERMINAL:
                self.ended[status] += before.status not in TERMINAL
            elif before.status == "processing" and (claims or status == "pending"):
                self.requeued[_cause(before, after)] += 1


def _cause(before: Item, after: Item) -> Cause:
    """Why it went back. Where it cost nothing and it was claimed again at once, the ending is gone: `released`."""
    if after.losses > before.losses:
        return "lost"
    if after.failures > before.failures:
        return "failed"
    return "parted" if after.ending == "parted" else "released"


@dataclass(frozen=True, slots=True)
class Talk:
    """What passed through one socket so far: messages, and the errors among what was said, by code.

    `unsent` are the bytes that wait to be taken.
    """

    received: int
    sent: int
    unsent: int
    refused: Mapping[str, int]


class Traffic:
    """What passed through a server's doors since its start. Sockets that are open are not in it yet."""

    def __init__(self) -> None:
        self.received: Counter[tuple[str, Door]] = Counter()
        """By queue and door; so is `sent`."""
        self.sent: Counter[tuple[str, Door]] = Counter()
        self.refused: Counter[tuple[Door, str]] = Counter()
        self.closed: Counter[tuple[Door, str]] = Counter()
        self.cut: Counter[str] = Counter()
        """Connections that ended before they had said a request, by the status that they were told."""

    def refuse(self, door: Door, code: str) -> None:
        """A request or a handshake was refused."""
        self.refused[door, code] += 1

    def close(self, door: Door, code: int | None) -> None:
        """A socket was closed so; None where no code is known."""
        self.closed[door, str(code) if code in CLOSE_CODES else "other"] += 1

    def add(self, queue: str, door: Door, talk: Talk) -> None:
        """What passed through a socket that is over now."""
        self.received[queue, door] += talk.received
        self.sent[queue, door] += talk.sent
        for code, number in talk.refused.items():
            self.refused[door, code] += number
