"""The pages that the server itself serves. They use the protocol and nothing that other clients do not have."""

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SECURITY: Final = {
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'self'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_MEDIA: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}


def _page(name: str) -> Response:
    content = files(__name__).joinpath(name).read_bytes()
    return Response(content, headers=SECURITY, media_type=_MEDIA[name.rpartition(".")[2]])


def _route(path: str, name: str) -> Route:
    async def endpoint(_request: Request) -> Response:
        return _page(name)

    return Route(path, endpoint, methods=["GET"])


ROUTES: Final = [_route("/", "index.html"), *(_route(f"/_pages/{name}", name) for name in ("index.js", "index.css"))]
