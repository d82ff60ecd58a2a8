"""A database that is away: since when, when it is asked for again, and the turn whose COMMIT got no answer.

Values only: what is refused, kept and told meanwhile is the engine's. All times are ms since the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leaseway_server.runtime.deadlines import Minima
from leaseway_server.runtime.submission import Submission
from leaseway_server.runtime.turn import Sweeps, TurnWork

FIRST_MS: Final = 100
MOST_MS: Final = 1_000
"""A try follows the one before by so much at least, and at most; spread, so that not all servers ask at once."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A turn that is committed or is not. Nobody of it is answered until that is known."""

    work: TurnWork
    submissions: Sequence[Submission]
    sweeps: Sweeps
    minima: Minima


class Outage:
    """Whether the database of one queue is away at the moment."""

    def __init__(self) -> None:
        self.down = False
        self.since = 0
        self.next_at = 0
        """When to ask for it again, while it is `down`."""
        self.doubt: Doubt | None = None
        self.tries = 0
        """So often in a row it was not there."""

    def broke(self, now: int, chance: float) -> bool:
        """The connection broke, or could not be made. Gives whether that is news: then it may be made anew at once."""
        if not self.tries:
            self.since = now
        self.down = True
        wait = min(MOST_MS, FIRST_MS << min(self.tries, 10)) if self.tries else 0
        self.next_at = now + int(wait * (0.5 + chance / 2))
        self.tries += 1
        return self.tries == 1

    def back(self) -> None:
        """It answers again. Whether it does so for long is shown by the first turn: see `over`."""
        self.down = False

    def over(self) -> None:
        """A turn was committed."""
        self.tries = 0

    def lasts(self, now: int) -> int:
        """For how long it is away by now (ms); 0 while it is not."""
        return now - self.since if self.down else 0
