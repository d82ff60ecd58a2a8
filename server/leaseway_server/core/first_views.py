"""What a monitor asked to see and was not shown yet: a part is read at a time, and the next when that one was sent.

So a reader costs what it takes at a time, however much it asked for (PROTOCOL.md §3).
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from leaseway_server.core.commands import BEYOND, Command, Failed, Followed, Found, Outcome, Read, ReadFollowed

READ_AT_ONCE: Final = 500
"""Of so many ids the first views are read at a time."""


class FirstViews:
    """What is still to be read for one socket: ids, then what it follows, by poster ("" is all)."""

    def __init__(self) -> None:
        self._ids: deque[str] = deque()
        self._followed: dict[str, int] = {}
        self._reading = False

    def name(self, ids: Iterable[str]) -> None:
        """These are to be read."""
        self._ids.extend(ids)

    def follow(self, poster: str) -> None:
        """What this poster has is to be read, from the beginning."""
        self._followed[poster] = BEYOND

    def unfollow(self, poster: str) -> None:
        """No more of it is wanted."""
        self._followed.pop(poster, None)

    def next(self) -> Read | ReadFollowed | None:
        """What to read now; None where there is nothing, or the last part was not answered yet."""
        if self._reading or not (self._ids or self._followed):
            return None
        self._reading = True
        if self._ids:
            return Read(tuple(self._ids.popleft() for _ in range(min(READ_AT_ONCE, len(self._ids)))))
        return ReadFollowed(*next(iter(self._followed.items())))

    def answered(self, command: Command | None, outcome: Outcome) -> None:
        """An outcome came. Of what could not be read no more is tried: its error says so."""
        match command, outcome:
            case Read(), _:
                self._reading = False
                if isinstance(outcome, Found):
                    self._ids.extendleft(reversed(outcome.left))
            case ReadFollowed(), _:
                self._reading = False
                self._go_on(command, outcome)

    def _go_on(self, command: ReadFollowed, outcome: Outcome) -> None:
        if self._followed.get(command.poster) != command.before:
            return  # It was begun anew, or is not wanted any more.
        if isinstance(outcome, Followed) and outcome.before:
            self._followed[command.poster] = outcome.before
        else:
            assert isinstance(outcome, Followed | Failed)
            del self._followed[command.poster]
