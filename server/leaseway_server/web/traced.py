"""Gives each HTTP request and each socket an id: on what is logged meanwhile, and on the answer as `X-Request-Id`."""

import logging
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaseway_server.log import new_request_id
from leaseway_server.web.address import Networks, is_trusted

HEADER: Final = b"x-request-id"
_ANSWERS: Final = ("http.response.start", "websocket.accept")

_log = logging.getLogger(__name__)


class Trusting(Protocol):
    """Who says which proxies are trusted; that may change."""

    trusted_proxies: Networks


class Traced:
    """The outermost ASGI application. Of the site's trusted proxies an `X-Request-Id` is taken."""

    def __init__(self, app: ASGIApp, site: Trusting) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope["client"][0] if scope.get("client") else ""
        offered = next((value.decode("latin-1") for name, value in scope["headers"] if name == HEADER), "")
        request_id = new_request_id(offered, trusted=is_trusted(peer, self._site.trusted_proxies)).encode()

        async def answer(message: Message) -> None:
            if message["type"] in _ANSWERS:
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, request_id)]}
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception:
            if scope["type"] != "http":
                raise  # The socket is not closed yet: uvicorn ends it, and logs why.
            _log.exception("a request failed", extra={"event": "request.failed", "method": scope["method"]})
