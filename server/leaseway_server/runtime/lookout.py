"""What a monitor's session has of its queue: the hub and the figures, on behalf of its socket."""

from typing import Protocol

from leaseway_server.core.monitor_session import Lookout
from leaseway_server.runtime.hub import Hub, Watcher
from leaseway_server.runtime.stats import Stats, StatsViewer


class Onlooker(Watcher, StatsViewer, Protocol):
    """Somebody who watches items and figures. Must be hashable, and must not wait."""


class QueueLookout(Lookout):
    """The `Lookout` of one socket."""

    def __init__(self, hub: Hub, stats: Stats, socket: Onlooker) -> None:
        self._hub = hub
        self._stats = stats
        self._socket = socket

    def watch(self, item_id: str) -> None:
        """From now on changes of the item are offered."""
        self._hub.watch(item_id, self._socket)

    def unwatch(self, item_id: str) -> None:
        """Ends `watch`."""
        self._hub.unwatch(item_id, self._socket)

    def follow(self, poster: str) -> None:
        """From now on changes of the poster's items are offered."""
        self._hub.follow(poster, self._socket)

    def unfollow(self, poster: str) -> None:
        """Ends `follow`."""
        self._hub.unfollow(poster, self._socket)

    def show_stats(self) -> bytes:
        """The figures; from now on they are offered when they change."""
        return self._stats.show(self._socket)

    def hide_stats(self) -> None:
        """Ends `show_stats`."""
        self._stats.hide(self._socket)
