"""`GET /<queue>/work`: the socket of a worker (PROTOCOL.md §4)."""

from typing import ClassVar

from starlette.types import Receive, Scope, Send

from leaseway_server.core.access import Right
from leaseway_server.core.commands import Drop
from leaseway_server.core.limits import Allowance
from leaseway_server.core.session import WorkSession
from leaseway_server.web.auth import Admitted
from leaseway_server.web.meters import Door
from leaseway_server.web.site import Site
from leaseway_server.web.socket import Socket


class WorkSocket(Socket):
    """A worker. When it ends the engine is told, also where a claim's commit is under way: it is held, and requeued."""

    kind: ClassVar[Door] = "work"
    right: ClassVar[Right] = "work"
    session: WorkSession

    def __init__(self, site: Site, admitted: Admitted, scope: Scope, receive: Receive, send: Send) -> None:
        engine = admitted.served.engine
        self._waiting = Allowance(site.waiting_claims, admitted.key)
        session = WorkSession(
            admitted.served.queue, engine.new_holder(), admitted.user, engine.clock.chance, self._waiting
        )
        super().__init__(site, admitted, session, scope, receive, send)
        engine.tell_losses(session.holder, self._lost)

    def frames(self) -> list[bytes]:
        """The session's answers."""
        return self.session.take()

    def sent(self) -> None:
        """Nothing follows."""

    def gone(self) -> None:
        """What it holds is requeued."""
        self.served.engine.tell_losses(self.session.holder, None)
        self.served.engine.submit(Drop(self.session.holder))
        self._waiting.give_all()

    def _lost(self, item_id: str, reason: str) -> None:
        self.session.lost(item_id, reason)
        if self.session.has_outgoing:
            self.wake()
