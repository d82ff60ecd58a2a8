"""The application: which path goes where. Nothing is decided here."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from leaseway_server.core.access import Right
from leaseway_server.core.errors import Deserted, LimitReached, Refused, Unavailable
from leaseway_server.core.limits import Allowances
from leaseway_server.core.reports import REPORTS
from leaseway_server.web import attempts, items, pages, posting, queues, steering, work_requests
from leaseway_server.web.auth import Admitted, admit
from leaseway_server.web.bulk import bulk
from leaseway_server.web.lists import list_items
from leaseway_server.web.meters import Door
from leaseway_server.web.metrics import metrics
from leaseway_server.web.monitor_socket import MonitorSocket
from leaseway_server.web.origin import OriginGuard, check_origin
from leaseway_server.web.problems import on_http_exception, on_left, on_refused
from leaseway_server.web.proxied import ProxiedRequests
from leaseway_server.web.requests import json_response
from leaseway_server.web.site import DESERTED, Site
from leaseway_server.web.socket import Socket
from leaseway_server.web.tickets import issue_ticket
from leaseway_server.web.why import explain_item
from leaseway_server.web.work_socket import WorkSocket
from leaseway_server.web.workers import list_workers

Endpoint = Callable[[Request], Awaitable[Response]]
OpenSocket = Callable[[Site, Admitted, Scope, Receive, Send], Socket]


async def health(_request: Request) -> Response:
    """`GET /_health`: the process is alive."""
    return json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """`GET /_ready`: it takes in work: not stopping, every store can be written, and tokens can be looked up."""
    site: Site = request.app.state.site
    if site.unready:
        raise Unavailable(site.unready)
    return json_response({"status": "ready"})


class SocketEndpoint:
    """A handshake. It is always accepted, since a browser cannot read a refused one, and then served or closed (§2)."""

    def __init__(self, site: Site, kind: Door, right: Right, open_socket: OpenSocket) -> None:
        self._site = site
        self._kind = kind
        self._right = right
        self._open = open_socket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            async with self._admitted(scope) as admitted:
                await self._open(self._site, admitted, scope, receive, send).run()
        except Refused as refused:
            self._site.traffic.refuse(self._kind, refused.code)
            self._site.traffic.close(self._kind, refused.close)
            await send({"type": "websocket.close", "code": refused.close, "reason": str(refused)})

    @asynccontextmanager
    async def _admitted(self, scope: Scope) -> AsyncIterator[Admitted]:
        """Counts the connection, for its address and its token, for as long as it lasts."""
        check_origin(scope, self._site)
        admitted = await admit(self._site, scope, self._right)
        if admitted.served.engine.deserted:
            raise Deserted(DESERTED)
        with ExitStack() as counted:
            for allowances, key in self._counts(admitted):
                if not allowances.take(key):
                    self._audit(admitted, LimitReached.code)
                    raise LimitReached("too many connections; close some, or come back later")
                counted.callback(allowances.give, key)
            yield admitted

    def _audit(self, admitted: Admitted, reason: str) -> None:
        self._site.refused_access.audit(
            address=admitted.address,
            queue=admitted.served.queue.name,
            right=self._right,
            reason=reason,
            user=admitted.user,
        )

    def _counts(self, admitted: Admitted) -> Iterator[tuple[Allowances, str]]:
        yield self._site.connections_of_address, admitted.address
        if admitted.token_id:
            yield self._site.connections_of_token, admitted.token_id


def _by_method(path: str, **endpoints: Endpoint) -> Route:
    """One route, so that the header Allow of a refusal names all methods of the path."""

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(endpoints))


def create_app(site: Site) -> Starlette:
    """The ASGI application of a site."""
    app = Starlette(
        routes=[
            _by_method("/{queue}/items", GET=list_items, POST=posting.post_items),
            Route("/{queue}/items/{id}", steering.ItemEndpoint),
            Route("/{queue}/items/{id}/item", items.get_body, methods=["GET"]),
            Route("/{queue}/items/{id}/attempts", attempts.get_attempts, methods=["GET"]),
            Route("/{queue}/items/{id}/why", explain_item, methods=["GET"]),
            Route("/{queue}/items/{id}/cancel", items.cancel_item, methods=["POST"]),
            Route("/{queue}/items/{id}/retry", steering.retry_item, methods=["POST"]),
            Route("/{queue}/bulk", bulk, methods=["POST"]),
            Route("/{queue}/workers", list_workers, methods=["GET"]),
            Route("/{queue}/tickets", issue_ticket, methods=["POST"]),
            Route("/{queue}/claim", work_requests.claim, methods=["POST"]),
            *(Route(f"/{{queue}}/{verb}", work_requests.report(verb), methods=["POST"]) for verb in sorted(REPORTS)),
            Route("/{queue}/rates", queues.get_rates, methods=["GET"]),
            Route("/{queue}/pause", queues.pause(on=True), methods=["POST"]),
            Route("/{queue}/unpause", queues.pause(on=False), methods=["POST"]),
            *(
                Route(f"/{{queue}}/schemas/{kind}.json", queues.get_schema(kind), methods=["GET"])
                for kind in queues.KINDS
            ),
            WebSocketRoute("/{queue}/work", SocketEndpoint(site, "work", "work", WorkSocket)),
            WebSocketRoute("/{queue}/monitor", SocketEndpoint(site, "monitor", "fetch", MonitorSocket)),
            Route("/_health", health, methods=["GET"]),
            Route("/_ready", ready, methods=["GET"]),
            Route("/_metrics", metrics, methods=["GET"]),
            Route("/_queues", queues.list_queues, methods=["GET"]),
            *pages.ROUTES,
            Route("/{queue}", queues.get_queue, methods=["GET"]),  # The last: the server's own paths look like queues'.
        ],
        middleware=[Middleware(OriginGuard, site=site), Middleware(ProxiedRequests, site=site)],
        exception_handlers={Refused: on_refused, HTTPException: on_http_exception, ClientDisconnect: on_left},
    )
    app.router.redirect_slashes = False  # A redirect repeats the query, where tokens travel.
    app.state.site = site
    return app
