"""A database that is away: what is refused, kept and told meanwhile, and how an engine finds back.

A connection that broke may be no more than that: it is made anew once before anybody is told. A turn whose COMMIT got
no answer is in doubt until the database says what became of it; nobody of it is answered before. All times are ms since
the epoch.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.commands import Answer, Done, Empty, Failed, Withdraw
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import StoreAway, StoreBusy, StoreError, StoreFull, Unavailable
from leaseway_server.runtime.backlog import Backlog
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.deadlines import Minima
from leaseway_server.runtime.submission import Submission
from leaseway_server.runtime.teller import Teller
from leaseway_server.runtime.turn import Sweeps, TurnWork

FIRST_MS: Final = 100
MOST_MS: Final = 1_000
"""A try follows the one before by so much at least, and at most; spread, so that not all servers ask at once."""
REFUSED: Final = Failed(Unavailable("the server cannot reach its database at the moment; nothing of this was done"))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A turn that is committed or is not."""

    work: TurnWork
    submissions: Sequence[Submission]
    sweeps: Sweeps
    minima: Minima


class Outage:
    """Whether one engine's database is away, and what follows. `queue` is for the log."""

    def __init__(self, queue: str, clock: Clock, backlog: Backlog, dispatch: Dispatch, teller: Teller) -> None:
        self.down = False
        self.suspected = False
        """Whether it may be away, or may have changed: what is remembered of it is to be read."""
        self.doubt: Doubt | None = None
        self._queue = queue
        self._clock = clock
        self._backlog = backlog
        self._dispatch = dispatch
        self._teller = teller
        self._since = 0
        self._next_at = 0
        self._tries = 0
        """So often in a row it was not there."""
        self._by_turn = False
        """Whether it was a turn that broke it, which is to be run again: it may be at fault itself."""

    @property
    def lasts(self) -> int:
        """For how long it is away by now (ms); 0 while it is not."""
        return self._clock.steady() - self._since if self.down else 0

    def over(self) -> None:
        """A turn was committed."""
        self._tries, self._by_turn = 0, False

    def begin(self, submissions: Sequence[Submission], away: StoreAway) -> None:
        """The connection broke in a turn with these commands, which is rolled back, or is in `doubt`."""
        self._broke(away)
        self._by_turn = True
        if self.doubt is not None:
            return
        self._dispatch.rollback()
        if self._tries > 1:
            self._backlog.refuse(submissions, REFUSED, for_now=True)
        else:
            self._backlog.put_back(submissions)

    async def end(
        self,
        committed: Callable[[], Awaitable[bool]],
        settle: Callable[[Doubt], None],
        read_all: Callable[[], Awaitable[None]],
    ) -> None:
        """Where it is time, asks whether the database is there again.

        `committed` is the store's; `settle` does what follows a turn that was; `read_all` takes into memory what is
        kept there of the store. All may raise as the store does.
        """
        self.suspected = False
        if self.down and self._clock.steady() < self._next_at:
            return
        try:
            if self.doubt is not None:
                self._settle(self.doubt, settle, committed=await committed())
            await read_all()
        except (StoreAway, StoreBusy, StoreFull) as fault:
            self._broke(fault)
            return
        if self.down:
            _log.info("the database is back", extra=self._said("store.back", ms=self.lasts))
            self.down = False
            if not self._by_turn:
                self._tries = 0
            self._backlog.unblock()

    def wait(self) -> None:
        """What needs no database goes on, the rest is refused. In doubt that is nothing: claims may be part of it."""
        if self._tries == 1:
            return  # It is asked for once more before anybody is told.
        for each in self._backlog.take_all():
            if isinstance(each.command, Withdraw) and self.doubt is None:
                self._end_claims(self._dispatch.withdraw(each.command.holder, each.command.ask), Empty())
                self._teller.tell(each.answer, Done())
            else:
                self._backlog.refuse([each], REFUSED, for_now=True)
        if self.doubt is None:
            self._end_claims(self._dispatch.end(self._clock.now()), Empty())
            self._end_claims(map(self._dispatch.remove, self._dispatch.unanswered(searched=False)), REFUSED)
            self._dispatch.commit()

    def _settle(self, doubt: Doubt, settle: Callable[[Doubt], None], *, committed: bool) -> None:
        """The turn was committed, and all that follows follows now; or nothing was, and it is run again."""
        self.doubt = None
        if committed:
            settle(doubt)
        else:
            self._dispatch.rollback()
            self._backlog.put_back(doubt.submissions)

    def _end_claims(self, answers: Iterable[Answer], outcome: Empty | Failed) -> None:
        for answer in answers:
            self._teller.tell(answer, outcome)

    def _broke(self, fault: StoreError) -> None:
        if not self._tries:
            self._since = self._clock.steady()
        wait = min(MOST_MS, FIRST_MS << min(self._tries, 10)) if self._tries else 0
        self.down, self._next_at = True, self._clock.steady() + int(wait * (0.5 + self._clock.chance() / 2))
        self._backlog.blocked_until = self._next_at
        self._tries += 1
        if self._tries == 1:
            _log.warning("the connection to the database broke", extra=self._said("store.cut", fault=str(fault)))
        elif self._tries == 2:
            _log.error("the database is away", extra=self._said("store.away", fault=str(fault)))

    def _said(self, event: str, **more: object) -> dict[str, object]:
        return {"event": event, "queue": self._queue, **more}
