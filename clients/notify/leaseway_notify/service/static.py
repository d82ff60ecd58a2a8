"""The inbox's page, the bell and the service worker, as they lie in the package: no build step, nobody else's scripts.

What is served is what was listed at the start, each file under its own name: a path is looked up and never opened, so
none leads elsewhere.
"""

from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leaseway_notify.service.site import site_of
from leaseway_notify.settings import ServiceSettings

_MEDIA: Final = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_FILES: Final[dict[str, Traversable]] = {
    each.name: each
    for each in files("leaseway_notify.service.pages").iterdir()
    if each.name.rpartition(".")[2] in _MEDIA
}
_INBOX: Final = files("leaseway_notify.service.pages").joinpath("inbox.html")
_PLAIN: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}


async def inbox_page(request: Request) -> Response:
    """`GET /`: the inbox. Whose it is says the token in the address's fragment, which no server is sent."""
    service = site_of(request).settings.service
    text = _INBOX.read_text(encoding="utf-8").replace("{token_url}", escape(service.token_url, quote=True))
    return _answer(request, text.encode(), "text/html; charset=utf-8", {"Content-Security-Policy": policy(service)})


async def file(request: Request) -> Response:
    """`GET /bell.js` and the like."""
    found = _FILES.get(request.path_params["file"])
    if found is None:
        raise HTTPException(404)
    return _answer(request, found.read_bytes(), _MEDIA[found.name.rpartition(".")[2]], {})


def policy(service: ServiceSettings) -> str:
    """Nobody else's scripts, pictures or styles; the application is asked for tokens, where there is an address."""
    asked = ["'self'"]
    if service.token_url:
        parts = urlsplit(service.token_url)
        asked.append(f"{parts.scheme}://{parts.netloc}")
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "worker-src 'self'",
            f"connect-src {' '.join(asked)}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _answer(request: Request, content: bytes, media: str, headers: dict[str, str]) -> Response:
    """The file; 304 where the browser has it already."""
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**_PLAIN, **headers, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media)
