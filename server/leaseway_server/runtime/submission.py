"""A command on its way into a turn: who waits for it, how much of a turn it takes, and what its loss would cost."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from leaseway_server.core.commands import (
    Answer,
    Change,
    Command,
    Delete,
    Drop,
    Oldest,
    Outcome,
    Post,
    PostAll,
    Read,
    ReadFollowed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.events import Progress, Renew, Result
from leaseway_server.runtime.followed import PAGE

TURN_COMMANDS: Final = 1_000
TURN_BYTES: Final = 8 * 1024 * 1024
POST_BYTES: Final = TURN_BYTES // TURN_COMMANDS
"""What a post of an array counts as, at least."""
ID_BYTES: Final = 4_000
"""What an id that a command names counts as, so that a turn names at most about 2,000."""
READS: Final = Read | ReadFollowed | Oldest
"""Commands that change nothing."""


@dataclass(slots=True, eq=False)
class Submission:
    """A command and who waits for its outcomes."""

    command: Command
    answer: Answer

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return isinstance(self.command, READS)

    @property
    def light(self) -> bool:
        """Whether loss of power may cost it: progress and renewals (PROTOCOL.md §7.1), and what only reads."""
        if isinstance(self.command, Change):
            return isinstance(self.command.event, Progress | Renew)
        return self.reads

    @property
    def writes(self) -> bool:
        """Whether a turn with it is synced for its sake, as far as is known before: claims may find nothing."""
        return isinstance(self.command, Post | PostAll | Delete | Change) and not self.light

    @property
    def must_be_done(self) -> bool:
        """Whether nobody would say it again: a lost socket."""
        return isinstance(self.command, Drop)

    @property
    def patient(self) -> bool:
        """Whether it waits until the store is there: somebody watches, or claims may have nobody behind them."""
        watches = isinstance(self.command, Read) and self.command.patient
        return watches or isinstance(self.command, ReadFollowed | Withdraw)


def nobody(_outcome: Outcome) -> None:
    """The answer of commands that nobody waits for."""


def fitting(waiting: Iterable[Submission]) -> int:
    """How many of these, from the first on, one turn takes: bounded in number and in bytes, and at least one."""
    taken, size = 0, 0
    for submission in waiting:
        if taken == TURN_COMMANDS or size > TURN_BYTES:
            break
        taken += 1
        size += _bytes(submission.command)
    return taken


def _bytes(command: Command) -> int:
    measure = _MEASURES.get(type(command))
    return measure(command) if measure else 0


def _of_change(change: Change) -> int:
    return len(change.event.value) if isinstance(change.event, Result | Progress) else 0


def _of_posts(command: PostAll) -> int:
    return sum(max(POST_BYTES, len(new.body)) for new in command.news)


_MEASURES: Final[dict[type[Command], Callable[[Any], int]]] = {
    Post: lambda post: len(post.new.body),
    PostAll: _of_posts,
    Change: _of_change,
    ResumeLeases: lambda resume: len(resume.leases) * ID_BYTES,
    Read: lambda read: len(read.ids) * ID_BYTES,
    ReadFollowed: lambda _read: PAGE * ID_BYTES,
}
