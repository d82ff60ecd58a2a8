"""A monitor's session without a socket, with the hub and the figures that it watches by."""

from collections.abc import Iterable
from typing import Final

from leaseway_server.core.commands import Found
from leaseway_server.core.model import Item
from leaseway_server.core.monitor_session import MonitorSession
from leaseway_server.core.queue import Queue
from leaseway_server.core.watch import View
from leaseway_server.runtime.hub import Hub
from leaseway_server.runtime.lookout import QueueLookout
from leaseway_server.runtime.stats import Stats
from leaseway_server.runtime.tally import Tally
from support.clock import ManualClock
from support.model import NOW, POLICY
from support.talk import Message, Talk

QUEUE: Final = Queue("demo", POLICY)


class Monitor(Talk):
    """A monitor and the hub that it watches by."""

    def __init__(self, queue: Queue = QUEUE, rights: Iterable[str] = ("fetch", "post"), user: str = "ann") -> None:
        self.hub = Hub()
        self.clock = ManualClock()
        self.tally = Tally({})
        self.workers = 0
        self.stats = Stats(
            self.clock, lambda: {"queue": queue.name, "workers": self.workers, **self.tally.figures(NOW)}
        )
        self.monitor = MonitorSession(queue, user, frozenset(rights), QueueLookout(self.hub, self.stats, self))
        super().__init__(self.monitor, "monitor")

    def offer(self, view: View) -> None:
        """The hub has a change."""
        self.monitor.offer(view)

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def end(self, item_id: str) -> None:
        """A watched item is gone."""
        self.monitor.end(item_id)

    def offer_stats(self, message: bytes) -> None:
        """The queue's figures are others now."""
        self.monitor.offer_stats(message)

    def changes(self, *items: Item) -> None:
        """These were committed."""
        self.hub.publish(items, NOW)

    def sees(self) -> list[Message]:
        """What it is sent now, views included."""
        frames, _ = self.monitor.take_with_views(self.clock.now())
        return self.read(frames)

    def subscribes(self, *items: Item) -> None:
        """It subscribes to items that exist."""
        exchange = self.asks({"subscribe": [item.id for item in items]})
        self.settle(exchange, Found({item.id: item for item in items}, NOW))


def told(messages: list[Message]) -> list[tuple[str, int]]:
    """The views among the messages: (id, rev)."""
    return [(message["id"], message["rev"]) for message in messages if message["type"] == "status"]
