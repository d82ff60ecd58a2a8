"""What one monitor socket watches, and what it has still to be told (PROTOCOL.md §3): of each item the newest view.

Who watches what over all sockets is the hub's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leaseway_server.core.model import Item
from leaseway_server.core.view import encode_view

ALL: Final = ""
"""In place of a poster: everybody's items. Nobody in particular can follow only what is its own."""


@dataclass(slots=True)
class View:
    """An encoded view; encoded once however many watch it. `unfetched`: it is an end that no producer was told yet."""

    id: str
    posted_by: str
    rev: int
    encoded: bytes
    terminal: bool
    unfetched: bool


def view_of(item: Item, now: int) -> View:
    """The item's view at `now`, encoded."""
    ended = item.terminal
    return View(item.id, item.posted_by, item.rev, encode_view(item, now), ended, ended and not item.fetched_at)


class WatchList:
    """The subscriptions of one socket, and what it has still to be told.

    Of an item that is named (by its id) the newest view that was offered is known; of one that is followed (as one of
    its poster's) only while it waits to be told: followed items are without number. Nothing old comes of that, since
    what is offered comes in the order of commits.
    """

    def __init__(self) -> None:
        self.followed: set[str] = set()
        """Posters; with `ALL` everybody."""
        self._newest: dict[str, int] = {}
        self._due: set[str] = set()
        """Those of them that were named, and nothing was told of them since."""
        self._ended: set[str] = set()
        """Those of them whose newest view is an end."""
        self._pending: dict[str, View] = {}
        self._asked: dict[str, None] = {}
        """Those of them that answer a message: no pace holds them back."""
        self.weight = 0
        """How many bytes wait to be told."""

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._newest

    def __iter__(self) -> Iterator[str]:
        return iter(self._newest)

    @property
    def pending(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._pending)

    @property
    def pushing(self) -> bool:
        """Whether there is something to tell that answers nothing."""
        return len(self._pending) > len(self._asked)

    def add(self, item_id: str) -> None:
        """Watches the item, from the next view on that it is offered; what it is now is told once more."""
        self._newest.setdefault(item_id, 0)
        self._due.add(item_id)

    def discard(self, item_id: str) -> None:
        """Stops watching it by its id; what was not told is not told any more, unless it is followed."""
        self.end(item_id)
        if item_id in self._pending:
            self._drop_unwanted(self._pending[item_id])

    def follow(self, poster: str) -> None:
        """Watches the poster's items, from the next views on that are offered."""
        self.followed.add(poster)

    def unfollow(self, poster: str) -> None:
        """Ends `follow`."""
        self.followed.discard(poster)
        for view in list(self._pending.values()):
            self._drop_unwanted(view)

    def end(self, item_id: str) -> bool:
        """The item is gone. What was not told of it still is. Gives whether its end was never offered: it came and went
        on other servers before this one looked."""
        known = self._newest.pop(item_id, 0)
        missed = known > 0 and item_id not in self._ended
        self._due.discard(item_id)
        self._ended.discard(item_id)
        return missed

    def offer(self, view: View) -> None:
        """A change of an item: told unless this or a newer one was offered before. The first of a named one answers."""
        known = self._known(view)
        if known is not None and view.rev > known:
            if view.id in self._due:
                self._asked[view.id] = None
            self._hold(view)

    def answer(self, view: View, *, again: bool = False) -> None:
        """A view that was asked for: told, unless it or a newer one was told since, or a newer one waits to be.

        `again`: it is told though it was told before, as one of a poster's: when those were asked for is not known.
        """
        known = self._known(view)
        if known is not None and (view.rev > known or (view.rev == known and (again or view.id in self._due))):
            self._hold(view)
        if view.id in self._pending:
            self._asked[view.id] = None

    def for_producer(self, view: View) -> bool:
        """Whether this is told as to a producer: who watches all does it as an administrator (PROTOCOL.md §3)."""
        return view.id in self._newest or (view.posted_by != ALL and view.posted_by in self.followed)

    def take(self) -> list[View]:
        """What is to be told now, oldest change first."""
        views = list(self._pending.values())
        self._pending.clear()
        self._asked.clear()
        self.weight = 0
        return views

    def take_asked(self) -> list[View]:
        """What of it answers a message; the rest waits on."""
        views = [self._pending[item_id] for item_id in self._asked]
        for item_id in self._asked:
            self._drop(item_id)
        self._asked.clear()
        return views

    def _known(self, view: View) -> int | None:
        """The newest `rev` that was offered, as far as is known; None where nobody wants the item."""
        newest = self._newest.get(view.id)
        if newest is None and (ALL in self.followed or view.posted_by in self.followed):
            held = self._pending.get(view.id)
            return held.rev if held else 0
        return newest

    def _drop_unwanted(self, view: View) -> None:
        if self._known(view) is None:
            self._asked.pop(view.id, None)
            self._drop(view.id)

    def _hold(self, view: View) -> None:
        if view.id in self._newest:
            self._newest[view.id] = view.rev
            self._due.discard(view.id)
            (self._ended.add if view.terminal else self._ended.discard)(view.id)
        self._drop(view.id)
        self._pending[view.id] = view
        self.weight += len(view.encoded)

    def _drop(self, item_id: str) -> None:
        held = self._pending.pop(item_id, None)
        if held is not None:
            self.weight -= len(held.encoded)
