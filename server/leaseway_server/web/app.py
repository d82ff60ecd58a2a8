"""The application: which path goes where. Nothing is decided here."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from leaseway_server.core.access import Right
from leaseway_server.core.errors import Refused, Unavailable
from leaseway_server.core.reports import REPORTS
from leaseway_server.web import items, pages, work_requests
from leaseway_server.web.auth import Admitted, admit
from leaseway_server.web.monitor_socket import MonitorSocket
from leaseway_server.web.problems import on_http_exception, on_refused
from leaseway_server.web.requests import json_response
from leaseway_server.web.site import Site
from leaseway_server.web.socket import Socket
from leaseway_server.web.work_socket import WorkSocket

OpenSocket = Callable[[Admitted, Scope, Receive, Send], Socket]


async def health(_request: Request) -> Response:
    """`GET /_health`: the process is alive."""
    return json_response({"status": "ok"})


async def ready(request: Request) -> Response:
    """`GET /_ready`: it takes in work: not stopping, and every store can be written."""
    site: Site = request.app.state.site
    if not site.ready:
        raise Unavailable("the server stops, or cannot write at the moment")
    return json_response({"status": "ready"})


class SocketEndpoint:
    """A handshake. It is always accepted, since a browser cannot read a refused one, and then served or closed (§2)."""

    def __init__(self, site: Site, right: Right, open_socket: OpenSocket) -> None:
        self._site = site
        self._right = right
        self._open = open_socket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            admitted = admit(self._site, scope, self._right)
        except Refused as refused:
            await send({"type": "websocket.close", "code": refused.close, "reason": refused.title})
            return
        await self._open(admitted, scope, receive, send).run()


def create_app(site: Site) -> Starlette:
    """The ASGI application of a site."""
    app = Starlette(
        routes=[
            Route("/{queue}/items", items.post_item, methods=["POST"]),
            Route("/{queue}/items/{id}", items.get_item, methods=["GET"]),
            Route("/{queue}/items/{id}/item", items.get_body, methods=["GET"]),
            Route("/{queue}/items/{id}/cancel", items.cancel_item, methods=["POST"]),
            Route("/{queue}/claim", work_requests.claim, methods=["POST"]),
            *(Route(f"/{{queue}}/{verb}", work_requests.report(verb), methods=["POST"]) for verb in sorted(REPORTS)),
            WebSocketRoute("/{queue}/work", SocketEndpoint(site, "work", WorkSocket)),
            WebSocketRoute("/{queue}/monitor", SocketEndpoint(site, "fetch", MonitorSocket)),
            Route("/_health", health, methods=["GET"]),
            Route("/_ready", ready, methods=["GET"]),
            *pages.ROUTES,
        ],
        exception_handlers={Refused: on_refused, HTTPException: on_http_exception},
    )
    app.state.site = site
    return app
