"""Many posts, slice by slice, each until it is in the queue: what is full or away is waited for, what is refused told.

A slice is posted wholly or not at all (PROTOCOL.md §5). Where one line of it is refused, it is parted there, so that
the others are posted all the same. Each has a key: a slice whose answer was lost is said again, and nothing is doubled.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from leaseway.cli.bulk_lines import Line, slices
from leaseway.cli.remote import Declined, Full, NotAllowed, NotNow, Remote
from leaseway.connection import reconnect_delay

NDJSON: Final = "application/x-ndjson"
_INDEX: Final = re.compile(r"/([0-9]+)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the queue takes at once. The defaults are the protocol's, where one may not ask."""

    lines: int = 1_000
    bytes: int = 1_048_576

    @classmethod
    def of(cls, remote: Remote) -> Limits:
        """Those of the queue; it is asked for them first of all, so that a wrong address is told at once."""
        try:
            told = remote.get("", "limits")["limits"]
        except NotAllowed:  # Who may post and not fetch.
            return cls()
        return cls(told["maxBulkItems"], told["maxMessageBytes"])


@dataclass(slots=True)
class Tally:
    """What became of the lines until now."""

    new: int = 0
    known: int = 0
    refused: int = 0

    @property
    def lines(self) -> int:
        """All of them."""
        return self.new + self.known + self.refused


class Teller(Protocol):
    """Who says how it goes."""

    def refused(self, line: int, why: str) -> None:
        """This line was not posted."""

    def waits(self, why: str, seconds: float) -> None:
        """It goes on after so many seconds."""

    def went_on(self, tally: Tally) -> None:
        """Some more were posted."""


class Refused(Exception):
    """A line was refused, and is not to be left out."""


class Bulk:
    """Posts lines to one queue. `keep_going` leaves out what is refused; `patience` is in seconds.

    `tally` is of what was answered: where it was interrupted, one slice more may be posted.
    """

    def __init__(
        self,
        remote: Remote,
        teller: Teller,
        *,
        keep_going: bool,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tally = Tally()
        self._remote = remote
        self._teller = teller
        self._keep_going = keep_going
        self._patience = patience
        self._clock = clock
        self._pause = pause
        self._hindered = 0
        self._hindered_since = 0.0

    def run(self, lines: Iterator[Line], most: int) -> None:
        """Posts them all, in slices of at most `most`.

        Raises `Refused`, and `NotNow` where nothing got through for as long as the patience lasts.
        """
        for one in slices(lines, most):
            self._post(one)
            self._teller.went_on(self.tally)

    def _post(self, lines: list[Line]) -> None:
        """One slice, until all of it is posted or refused. What is next is at the end of `waiting`."""
        waiting = [lines]
        while waiting:
            some = waiting.pop()
            try:
                self._count(self._say(some))
            except Full as full:
                if len(some) == 1:  # Until then there may be room for a part of it.
                    self._wait(full)
                waiting += _halves(some)
            except NotNow as hindrance:
                self._wait(hindrance)
                waiting.append(some)
            except Declined as declined:
                waiting += self._parted(some, declined)

    def _say(self, lines: list[Line]) -> Any:
        if fault := lines[0].fault:
            raise Declined(fault, "bad-message")
        answer = self._remote.post("items", "items", b"\n".join(line.body for line in lines), NDJSON)
        self._hindered = 0
        return answer["items"]

    def _count(self, posted: Any) -> None:
        known = sum(one["duplicate"] for one in posted)
        self.tally.known += known
        self.tally.new += len(posted) - known

    def _parted(self, lines: list[Line], declined: Declined) -> list[list[Line]]:
        """The slice without the line that was refused, which is said by itself; that one alone is refused for good."""
        if len(lines) == 1:
            self._refuse(lines[0], declined.message)
            return []
        found = _INDEX.match(declined.path)
        if found is None:  # It is not one line's fault: too many of them, perhaps.
            return _halves(lines)
        at = int(found[1])
        return [part for part in (lines[at + 1 :], lines[at : at + 1], lines[:at]) if part]

    def _refuse(self, line: Line, why: str) -> None:
        self.tally.refused += 1
        self._teller.refused(line.number, _without_index(why))
        if not self._keep_going:
            raise Refused

    def _wait(self, hindrance: NotNow) -> None:
        now = self._clock()
        if not self._hindered:
            self._hindered_since = now
        elif now - self._hindered_since >= self._patience:
            raise hindrance
        self._hindered += 1
        seconds = reconnect_delay(self._hindered, random.random(), urgent=False)  # noqa: S311  No secret.
        self._teller.waits(hindrance.message, seconds)
        self._pause(seconds)


def _halves(lines: list[Line]) -> list[list[Line]]:
    middle = len(lines) // 2
    return [part for part in (lines[middle:], lines[:middle]) if part]


def _without_index(why: str) -> str:
    """Paths within the line, and not within what was sent along with it."""
    return re.sub(r"(^|; )/0(?:: |(?=/))", r"\1", why)
