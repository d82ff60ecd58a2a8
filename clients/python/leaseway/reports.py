"""What a worker said about its leases and has no answer to yet.

Pure; what is said, and what an answer means, is `worker_state.py`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from leaseway.claims import ANSWER_WITHIN
from leaseway.leases import Ending, Lease


@dataclass(slots=True)
class Report:
    """Something said about a lease, until it is answered."""

    lease: Lease
    verb: str
    data: bytes
    #: What a `fail` says.
    error: str = ""
    #: When it was said on the socket that stands; infinity where it was not.
    said: float = math.inf
    #: Infinity while an answer is awaited; otherwise when to say it again.
    due: float = math.inf

    @property
    def last(self) -> bool:
        """Whether it ends the attempt."""
        return self.verb in ("result", "fail", "release")

    def ending(self, status: str | None, reason: str = "") -> Ending:
        """What it came to; `reason` is why it does not count."""
        return Ending(self.verb, status, reason, self.error)


class Reports:
    """The reports that wait for an answer, by their refs, in the order in which they were said."""

    def __init__(self) -> None:
        self._waiting: dict[int, Report] = {}

    def __iter__(self) -> Iterator[Report]:
        """All of them."""
        return iter(self._waiting.values())

    def add(self, ref: int, report: Report) -> None:
        """This will be said."""
        self._waiting[ref] = report

    def answered(self, ref: int) -> Report | None:
        """Takes it off; None where it was taken off before."""
        return self._waiting.pop(ref, None)

    def later(self, ref: int, again: float) -> None:
        """It was refused for the moment: to be said again then."""
        if report := self._waiting.get(ref):
            report.due, report.said = again, math.inf

    def forget(self, lease: Lease) -> list[tuple[int, Report]]:
        """Takes off all that concerns a lease."""
        gone = [(ref, report) for ref, report in self._waiting.items() if report.lease is lease]
        for ref, _ in gone:
            del self._waiting[ref]
        return gone

    def lost(self) -> None:
        """The socket is gone; a new one begins with a resume, which renews."""
        self._waiting = {ref: report for ref, report in self._waiting.items() if report.verb != "renew"}

    @property
    def any_last(self) -> bool:
        """Whether the end of any attempt has no answer."""
        return any(report.last for report in self)

    @property
    def answer_due(self) -> float:
        """When the oldest must have been answered; infinity where none waits."""
        return min((report.said for report in self), default=math.inf) + ANSWER_WITHIN
