"""The claims of one worker that wait on the server: for how many items, since when, and when none may be made.

Pure; how many places are free, and what comes of an item, is `worker_state.py`'s business.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from leaseway.protocol import Message, encode

#: How long a claim waits on the server before it answers `empty`, milliseconds.
CLAIM_WAIT_MS = 60_000
#: Seconds before something that the server refused for the moment is said again.
PAUSE = 1.0
#: Seconds that the server has for an answer, beside what it was asked to wait.
ANSWER_WITHIN = 30.0


@dataclass(slots=True)
class _Claim:
    """One claim: the items that it still takes, and when it was made."""

    places: int
    asked: float


class Claims:
    """What was claimed and not answered yet.

    Where `until_empty`, claims do not wait on the server: the first that finds nothing says that the queue is
    empty. Raises `Rejected` for criteria that are no JSON.
    """

    def __init__(self, criteria: Message | None, *, until_empty: bool) -> None:
        self._until_empty = until_empty
        self._body: Message = {} if until_empty else {"waitMs": CLAIM_WAIT_MS}
        if criteria is not None:
            self._body["criteria"] = criteria
        encode({"claim": self._body})  # Raises here rather than at the first claim.
        self._waiting: dict[int, _Claim] = {}
        #: A claim that did not wait found nothing, and nothing ended here since that could have put an item back.
        self.exhausted = False
        #: No claim is made before this time.
        self.not_before = -math.inf

    @property
    def places(self) -> int:
        """How many items may come."""
        return sum(claim.places for claim in self._waiting.values())

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._waiting)

    def body(self, count: int) -> Message:
        """What a claim for so many items says."""
        return self._body if count == 1 else {**self._body, "count": count}

    def said(self, ref: int, count: int, now: float) -> None:
        """This claim was made."""
        self._waiting[ref] = _Claim(count, now)

    def item(self, ref: int) -> None:
        """An item came for it."""
        claim = self._waiting.get(ref)
        if claim is not None:
            claim.places -= 1
            if not claim.places:
                del self._waiting[ref]

    def empty(self, ref: int, now: float) -> None:
        """It ended without all its items."""
        claim = self._waiting.pop(ref, None)
        if self._until_empty:
            self.exhausted = True
        elif claim is not None and now - claim.asked < PAUSE:
            # A server that stops, or does not wait: not a reason to spin.
            self.not_before = now + PAUSE

    def refused(self, ref: int) -> bool:
        """It was refused; whether there was one."""
        return self._waiting.pop(ref, None) is not None

    def look_again(self) -> None:
        """Something may have come back into the queue: what was found empty may be so no more."""
        self.exhausted = False

    def lost(self) -> None:
        """Claims die with their socket."""
        self._waiting.clear()
        self.exhausted = False

    @property
    def answer_due(self) -> float:
        """When the oldest must have been answered; infinity where none waits."""
        oldest = min((claim.asked for claim in self._waiting.values()), default=math.inf)
        waits = 0.0 if self._until_empty else CLAIM_WAIT_MS / 1000
        return oldest + waits + ANSWER_WITHIN
