"""Pages of other sites: which may speak to this server, and the CORS headers for those that may (PROTOCOL.md §2).

A browser names the site of the page in `Origin`; other programs send none, and none is asked of them. No cookie is ever
a credential here, so credentials are not allowed to cross sites.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaseway_server.core.errors import NotAllowed
from leaseway_server.web.address import client_address, names_loopback
from leaseway_server.web.host import hosts
from leaseway_server.web.problems import problem
from leaseway_server.web.site import Site

METHODS: Final = b"GET, POST, PATCH, DELETE"
HEADERS: Final = b"authorization, content-type, idempotency-key"
MAX_AGE: Final = b"600"


def check_origin(scope: Scope, site: Site) -> str:
    """The origin of a page of another site that may speak here, "" for all others. Raises `NotAllowed`."""
    origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    if not origins:
        return ""
    origin = origins[0] if len(origins) == 1 else "more than one"
    if origin in site.allowed_origins:
        return origin
    if _same_origin(origin, scope, site):
        return ""
    address = client_address(scope, site.trusted_proxies)
    site.refused_access.audit(address=address, queue=scope["path"][:64], right=None, reason="origin")
    raise NotAllowed("pages of this origin may not speak to this server; allowed_origins lists those that may")


def _same_origin(origin: str, scope: Scope, site: Site) -> bool:
    found = hosts(scope)
    if len(found) != 1 or origin.lower() not in (f"http://{found[0]}", f"https://{found[0]}"):
        return False
    # A name that an attacker's DNS points to loopback is same-origin for the browser, and not for us. No header tells
    # it from a proxy's (such a page writes X-Forwarded-For itself), but https does: it was never spoken with us.
    return not site.on_loopback or origin.lower().startswith("https:") or names_loopback(found[0])


class OriginGuard:
    """Answers the preflights of allowed origins, adds their headers, and refuses the requests of all other sites."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            origin = check_origin(scope, self._site)
        except NotAllowed as refused:
            self._site.traffic.refuse("http", refused.code)
            await problem(refused)(scope, receive, _with(send, [(b"vary", b"Origin")]))
            return
        if origin and scope["method"] == "OPTIONS":
            await _preflight(origin, send)
        elif origin:
            await self._app(scope, receive, _with(send, _headers(origin)))
        elif self._site.allowed_origins:
            await self._app(scope, receive, _with(send, [(b"vary", b"Origin")]))
        else:
            await self._app(scope, receive, send)


Headers = list[tuple[bytes, bytes]]


def _headers(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"x-request-id"),
        (b"vary", b"Origin"),
    ]


async def _preflight(origin: str, send: Send) -> None:
    headers = [
        *_headers(origin),
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", HEADERS),
        (b"access-control-max-age", MAX_AGE),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _with(send: Send, headers: Headers) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return sending
