"""From committed changes to those who watch: each view is encoded once, however many watch it."""

from collections.abc import Collection, Iterable
from typing import Protocol

from leaseway_server.core.model import Item
from leaseway_server.core.watch import ALL, View, view_of


class Watcher(Protocol):
    """Somebody who watches items. Must be hashable, and must not wait in `offer`."""

    def offer(self, view: View) -> None:
        """A watched item has changed."""
        ...

    def end(self, item_id: str) -> None:
        """A watched item is gone: nothing more is offered of it."""
        ...

    def lose_track(self) -> None:
        """What was changed may have been missed: it had better begin to watch anew."""
        ...


class Hub:
    """Who watches which items of one queue, by their ids or by their poster."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[Watcher]] = {}
        self._followers: dict[str, set[Watcher]] = {}

    def watch(self, item_id: str, watcher: Watcher) -> None:
        """From now on the watcher is offered every change of the item."""
        self._watchers.setdefault(item_id, set()).add(watcher)

    def unwatch(self, item_id: str, watcher: Watcher) -> None:
        """Ends `watch`; harmless where there was none."""
        _discard(self._watchers, item_id, watcher)

    def follow(self, poster: str, watcher: Watcher) -> None:
        """From now on the watcher is offered every change of the poster's items, new ones too; with `ALL` of all."""
        self._followers.setdefault(poster, set()).add(watcher)

    def unfollow(self, poster: str, watcher: Watcher) -> None:
        """Ends `follow`; harmless where there was none."""
        _discard(self._followers, poster, watcher)

    def publish(self, items: Iterable[Item], now: int) -> None:
        """Tells the watchers of these items, in this order. Called after the commit, and in the order of commits."""
        for item in items:
            watchers = self._watchers_of(item)
            if watchers:
                view = view_of(item, now)
                for watcher in tuple(watchers):
                    watcher.offer(view)

    def end(self, ids: Iterable[str]) -> None:
        """These items are gone, and with them all interest in them. Called after the commit."""
        for item_id in ids:
            for watcher in self._watchers.pop(item_id, ()):
                watcher.end(item_id)

    def miss(self, posters: Collection[str]) -> None:
        """Items of these posters ended, and are gone before that could be told: who follows them had better begin
        anew."""
        followed = {*posters, ALL} if posters else ()
        for watcher in {each for poster in followed for each in self._followers.get(poster, ())}:
            watcher.lose_track()

    def wanted(self, ids: Iterable[str]) -> list[str]:
        """Those of them that somebody may watch: all, where anybody follows."""
        return list(ids) if self._followers else [item_id for item_id in ids if item_id in self._watchers]

    def lose_track(self) -> None:
        """What changed is not known any more: all watchers had better begin anew."""
        for watcher in {each for one in (self._watchers, self._followers) for some in one.values() for each in some}:
            watcher.lose_track()

    def _watchers_of(self, item: Item) -> Collection[Watcher]:
        """Each of them once, in whatever way it watches."""
        named = self._watchers.get(item.id, ())
        if not self._followers:
            return named
        return {*named, *self._followers.get(item.posted_by, ()), *self._followers.get(ALL, ())}

    def __len__(self) -> int:
        return len(self._watchers) + len(self._followers)


def _discard(registry: dict[str, set[Watcher]], key: str, watcher: Watcher) -> None:
    watchers = registry.get(key)
    if watchers is not None:
        watchers.discard(watcher)
        if not watchers:
            del registry[key]
