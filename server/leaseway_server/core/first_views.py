"""What a monitor asked to see and was not shown yet: a part is read at a time, and the next when that one was sent.

So a reader costs what it takes at a time, however much and however often it asked for it (PROTOCOL.md §3).
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from leaseway_server.core.commands import BEYOND, Command, Failed, Followed, Found, Outcome, Read, ReadFollowed

READ_AT_ONCE: Final = 500
"""Of so many ids the first views are read at a time."""


class FirstViews:
    """What is still to be read for one socket: ids, then what it follows, by poster ("" is all)."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        """In the order to be read. A set, so that what is named again while it waits costs nothing."""
        self._followed: dict[str, int] = {}
        self._reading = False

    def name(self, ids: Iterable[str]) -> None:
        """These are to be read, each once."""
        self._ids.update(dict.fromkeys(ids))

    def forget(self, item_id: str) -> None:
        """No view of it is wanted any more."""
        self._ids.pop(item_id, None)

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
            return Read(self._take_ids(), patient=True)
        return ReadFollowed(*next(iter(self._followed.items())))

    def answered(self, command: Command | None, outcome: Outcome) -> None:
        """An outcome came. Of what could not be read no more is tried: its error says so."""
        if isinstance(command, Read | ReadFollowed):
            self._reading = False
        if isinstance(command, ReadFollowed):
            self._go_on(command, outcome)
        elif isinstance(command, Read) and isinstance(outcome, Found):
            self._ids = dict.fromkeys(outcome.left) | self._ids

    def _take_ids(self) -> tuple[str, ...]:
        ids = tuple(islice(self._ids, READ_AT_ONCE))
        for item_id in ids:
            del self._ids[item_id]
        return ids

    def _go_on(self, command: ReadFollowed, outcome: Outcome) -> None:
        if self._followed.get(command.poster) != command.before:
            return  # It was begun anew, or is not wanted any more.
        if isinstance(outcome, Followed) and outcome.before:
            self._followed[command.poster] = outcome.before
        else:
            assert isinstance(outcome, Followed | Failed)
            del self._followed[command.poster]
