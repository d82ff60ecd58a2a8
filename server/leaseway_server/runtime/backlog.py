"""What was said to an engine and is not done yet, what is kept for better times, and until when nothing is tried.

Times are ms, as `Clock.steady`.
"""

import asyncio
from collections.abc import Sequence

from leaseway_server.core.commands import Failed
from leaseway_server.runtime.submission import Submission, fitting
from leaseway_server.runtime.teller import Teller


class Backlog:
    """The commands of one engine that wait for their turn. `event` is set when something is to be done."""

    def __init__(self, teller: Teller) -> None:
        self.event = asyncio.Event()
        self.waiting: list[Submission] = []
        self.blocked_until = 0
        """Until then nothing is swept, handed out or tried again by itself; 0 is not at all."""
        self._kept: list[Submission] = []
        self._teller = teller

    def put(self, submission: Submission) -> None:
        """It is done in the next turn that has room."""
        if not self.waiting:
            self.event.set()
        self.waiting.append(submission)

    def put_back(self, submissions: Sequence[Submission]) -> None:
        """They were not done after all, and come first."""
        self.waiting[:0] = submissions

    def take(self) -> list[Submission]:
        """As many as one turn does, those first that were said first."""
        taken = fitting(self.waiting)
        submissions, self.waiting = self.waiting[:taken], self.waiting[taken:]
        return submissions

    def take_all(self) -> list[Submission]:
        """All of them."""
        submissions, self.waiting = self.waiting, []
        return submissions

    def refuse(self, submissions: Sequence[Submission], refused: Failed, *, for_now: bool = False) -> bool:
        """Answers them so; what nobody waits for, but must be done, is kept. Gives whether there was such.

        `for_now`: it is the store that is at fault, so what is patient is kept too.
        """
        before = len(self._kept)
        for submission in submissions:
            if submission.must_be_done or (for_now and submission.patient):
                self._kept.append(submission)
            else:
                self._teller.tell(submission.answer, refused)
        return len(self._kept) > before

    def unblock(self) -> None:
        """Better times: what was kept comes first."""
        self.blocked_until = 0
        self.waiting[:0], self._kept = self._kept, []
