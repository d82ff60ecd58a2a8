"""A store that is there and cannot write at the moment: what is refused, kept and told, and when it is tried again.

It has no space, or others are in its way again and again. Where it cannot be reached is in `outage.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from leaseway_server.core.commands import Failed
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import StoreBusy, StoreFull, Unavailable
from leaseway_server.runtime.backlog import Backlog
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.submission import Submission
from leaseway_server.runtime.teller import Teller
from leaseway_server.runtime.turn import TurnWork

RETRY_MS: Final = 500
"""So long after a turn that could not be written, what nobody waits for is tried again."""
BUSY_TRIES: Final = 6
"""So often a turn is run again that others were in the way of: at once, then after a moment that doubles, by chance."""
BUSY_SECONDS: Final = 0.002

_log = logging.getLogger(__name__)


class Shortage:
    """What one engine does while its store cannot write. `queue` is for the log."""

    def __init__(self, queue: str, clock: Clock, backlog: Backlog, dispatch: Dispatch, teller: Teller) -> None:
        self._queue = queue
        self._clock = clock
        self._backlog = backlog
        self._dispatch = dispatch
        self._teller = teller

    async def undisturbed(self, turn: Callable[[], Awaitable[TurnWork]]) -> TurnWork:
        """The turn, run again while others were in its way. Raises `StoreBusy` where they are too often."""
        for tried in range(BUSY_TRIES):
            try:
                return await turn()
            except StoreBusy:
                self._dispatch.rollback()
                await asyncio.sleep(self._clock.chance() * BUSY_SECONDS * (2**tried - 1))
        return await turn()

    def begin(
        self, submissions: Sequence[Submission], fault: StoreFull | StoreBusy, *, wrote: bool
    ) -> list[Submission]:
        """A turn with these commands could not be done, and is rolled back. Gives those that only read: they can be
        answered all the same, unless there was nothing else in it (not `wrote`)."""
        full = isinstance(fault, StoreFull)
        said = {"event": "store.full" if full else "store.busy", "queue": self._queue, "fault": str(fault)}
        _log.error("a turn could not be written", extra=said)
        self.block()
        why = "no space?" if full else "other servers are in the way"
        refused = Failed(Unavailable(f"the server cannot write at the moment ({why}); nothing of this was done"))
        self._end_brief_claims(refused)
        if not wrote:
            self._backlog.refuse(submissions, refused, for_now=True)
            return []
        self.refuse([submission for submission in submissions if not submission.reads], refused)
        return [submission for submission in submissions if submission.reads]

    def refuse(self, submissions: Sequence[Submission], refused: Failed) -> None:
        """Answers them so; what must be done all the same is tried again after a while."""
        if self._backlog.refuse(submissions, refused):
            self.block()

    def block(self) -> None:
        """For a while nothing is swept, handed out or tried again by itself."""
        self._backlog.blocked_until = self._clock.steady() + RETRY_MS

    def _end_brief_claims(self, refused: Failed) -> None:
        """Claims that do not wait are refused; those that wait stay, and time out."""
        for ask in self._dispatch.unanswered(searched=False):
            self._teller.tell(self._dispatch.remove(ask), refused)
        self._dispatch.commit()
