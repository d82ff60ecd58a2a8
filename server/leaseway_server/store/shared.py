"""What servers tell each other through a store that they share. One process on its own store has none of it.

Nothing here is a rule of the protocol: an item's row is the truth, and all of this only says where to look. Errors are
those of `base.py`.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from leaseway_server.core.model import Item, Status


@dataclass(frozen=True, slots=True)
class Roll:
    """Who is there, as the store knows it. Times are its own, ms since the epoch."""

    now: int
    alive: Mapping[int, int]
    """The epochs of other servers that are alive, and when each said so last."""
    newest: int
    """The latest epoch that ever began, as far as it is still known."""


class Registry(Protocol):
    """The servers of one store. `epoch` is this one's number."""

    epoch: int

    async def beat(self) -> Roll:
        """This server is alive, and enters anew where it was forgotten."""
        ...

    async def forget(self) -> int:
        """Servers that are gone for long leave nothing but their counts. Gives how many there were."""
        ...

    async def leave(self) -> None:
        """This server is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """What one server is to a queue: its last turn, what it counts, and whether anybody there watches or waits."""

    server: int
    turn: int
    workers: int
    watched: bool
    counts: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class Turned:
    """A committed turn of another server: which items changed, which became ready and were not handed out, and which
    ended, with who had posted each."""

    server: int
    turn: int
    changed: Sequence[str]
    ready: Sequence[str]
    ended: Mapping[str, str]


class SharedQueue(Protocol):
    """One queue, as other servers see and show it. It is asked between the turns, by who runs those."""

    @property
    def number(self) -> int:
        """The queue's, the same for all servers."""
        ...

    def announce(self, on: bool) -> None:
        """From the next turn on, turns say what they changed, or do not: there is nobody to tell."""
        ...

    async def look(self) -> tuple[bool, list[Share]]:
        """Whether the queue is paused, whoever said so; and the shares of all servers, this one's too."""
        ...

    async def changes(self, seen: Mapping[int, int]) -> list[Turned]:
        """The turns of these servers behind those that were seen, in the order of each."""
        ...

    async def rows(self, ids: Collection[str]) -> dict[str, Item]:
        """The items that exist, as committed, finished ones with `result`; not locked."""
        ...

    async def show(self, workers: int, *, watched: bool) -> None:
        """So many workers are connected here; `watched`: somebody here watches or waits."""
        ...

    async def count(self, minutes: Mapping[int, Sequence[int]]) -> None:
        """What happened here in these minutes (by when each began), in place of what was said of them.

        The figures are those of `tally.Minute`, in their order.
        """
        ...

    async def rates(self, since: int) -> dict[int, Sequence[int]]:
        """What happened in each minute since then on other servers, those that are gone too; figures as in `count`."""
        ...


Heard = Callable[[str], None]
"""Told a hint."""


class Hints(Protocol):
    """Short texts from server to server, at once and not surely."""

    @property
    def heard_at_once(self) -> bool:
        """Whether hints can be heard here."""
        ...

    def listening(self, heard: Heard) -> AbstractAsyncContextManager[Awaitable[object]]:
        """`heard` is told of hints, until what the context gives is done: then the connection is gone."""
        ...

    async def send(self, hints: Collection[str]) -> None:
        """Tells all servers that listen, this one too."""
        ...


class Sharing(Protocol):
    """All that the servers of one store share beside its items."""

    registry: Registry
    hints: Hints

    def queue(self, name: str) -> SharedQueue:
        """One queue, once its store was opened."""
        ...
