"""HTTP requests that come through a trusted proxy: they count for their client's address while they are under way.

The proxy's own connections are many clients', so `http_protocol` does not count them. Sockets are counted where they
are admitted, behind a proxy or not.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from leaseway_server.core.errors import LimitReached
from leaseway_server.web.address import client_address, is_trusted
from leaseway_server.web.problems import problem
from leaseway_server.web.site import Site


class ProxiedRequests:
    """Answers 429 to a request of an address that has as many connections as it may have (`connections_per_address`).

    A request counts as a connection from its head to the end of its answer.
    """

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = self._counted(scope) if scope["type"] == "http" else ""
        if not address:
            await self._app(scope, receive, send)
            return
        if not self._site.connections_of_address.take(address):
            await self._refuse(address, scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._site.connections_of_address.give(address)

    def _counted(self, scope: Scope) -> str:
        """The client's address; "" where its connection is its own, or a proxy itself asks."""
        trusted = self._site.trusted_proxies
        address = client_address(scope, trusted)
        own = scope["client"][0] if scope.get("client") else ""
        return "" if address == own or is_trusted(address, trusted) else address

    async def _refuse(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._site.refused_access.audit(address=address, queue=scope["path"][:64], right=None, reason=LimitReached.code)
        refused = LimitReached("too many requests of this address are under way; come back later")
        await problem(refused)(scope, receive, send)
