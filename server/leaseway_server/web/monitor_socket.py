"""`GET /<queue>/monitor`: the socket of a producer who watches (PROTOCOL.md §3)."""

from functools import partial
from typing import ClassVar

from starlette.types import Receive, Scope, Send

from leaseway_server.core.access import Right
from leaseway_server.core.commands import Changed, Outcome
from leaseway_server.core.conversation import Exchange
from leaseway_server.core.model import Item
from leaseway_server.core.monitor_session import MonitorSession
from leaseway_server.core.watch import View
from leaseway_server.runtime.lookout import QueueLookout
from leaseway_server.web.auth import Admitted
from leaseway_server.web.meters import Door
from leaseway_server.web.site import RESTART, Site
from leaseway_server.web.socket import Socket


class MonitorSocket(Socket):
    """A monitor. Of each item that it watches only the newest view waits to be sent, for as long as its pace says."""

    kind: ClassVar[Door] = "monitor"
    right: ClassVar[Right] = "fetch"
    session: MonitorSession

    def __init__(self, site: Site, admitted: Admitted, scope: Scope, receive: Receive, send: Send) -> None:
        self._sending: list[View] = []
        served = admitted.served
        lookout = QueueLookout(served.engine.hub, served.stats, self)
        session = MonitorSession(served.queue, admitted.user, admitted.rights, lookout)
        super().__init__(site, admitted, session, scope, receive, send)

    def offer(self, view: View) -> None:
        """The hub has a change of a watched item."""
        waits = self.session.watching.pending  # Then the writer knows already.
        self.session.offer(view)
        if self.session.watching.pending:
            if not waits:
                self.wake()
            self.weigh()

    def end(self, item_id: str) -> None:
        """A watched item is gone. Where its end was missed nobody can tell it any more: who asks anew is told that."""
        if self.session.end(item_id):
            self.lose_track()

    def lose_track(self) -> None:
        """It comes again, and sees everything as it is then."""
        self.expel(RESTART, "the server missed what others did; subscribe anew")

    def offer_stats(self, message: bytes) -> None:
        """The queue's figures are others now."""
        self.session.offer_stats(message)
        self.wake()

    def frames(self) -> list[bytes]:
        """Direct answers, then the newest views and figures."""
        frames, self._sending = self.session.take_with_views(self._clock.steady())
        return frames

    def due(self) -> int:
        """When the pace lets out what it holds back."""
        return self.session.push_at

    async def drain(self) -> None:
        """As every socket; the pace holds nothing back any more."""
        self.session.hurry()
        self.wake()
        await super().drain()

    def sent(self) -> None:
        """Ends that went out are stamped once the peer has proved to have them. Then more is read."""
        ends = [(view.id, view.rev) for view in self._sending if view.unfetched]
        if ends:
            self._wire.when_received(partial(self._stamp, ends))
        for exchange in self.session.read_on():
            self.submit(exchange)

    def _stamp(self, ends: list[tuple[str, int]]) -> None:
        """The retention of these ends, each with its `rev`, counts from now."""
        for item_id, rev in ends:
            self.served.engine.stamp(item_id, rev)

    def gone(self) -> None:
        """Nobody watches here any more."""
        self.session.close()

    def _answered(self, exchange: Exchange, outcome: Outcome) -> None:
        super()._answered(exchange, outcome)
        match outcome:
            case Changed(accepted=True, item=Item() as item) if item.posted_by != self.admitted.user:
                self.admitted.audit("admin.item_cancelled", item=item.id)
