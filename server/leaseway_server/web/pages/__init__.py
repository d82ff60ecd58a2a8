"""The pages that the server itself serves, and the JavaScript client that they use, as they lie in their packages.

What is served is what was listed at the start, each file under its own name: a path is looked up and never opened, so
none leads elsewhere. The pages use the protocol and nothing that other clients do not have; what they show is theirs.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SECURITY: Final = {
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'self'",
            "worker-src 'self' blob:",
            "img-src 'self' data: blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
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

Served = Mapping[str, Traversable]


def _listed(folder: Traversable, suffixes: tuple[str, ...], above: str = "") -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _listed(each, suffixes, f"{above}{each.name}/")
        elif each.name.endswith(suffixes):
            yield above + each.name, each


def _answer(request: Request, file: Traversable) -> Response:
    """The file; 304 where the browser has it already."""
    content = file.read_bytes()
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**SECURITY, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=_MEDIA[file.name.rpartition(".")[2]])


def _folder(path: str, served: Served) -> Route:
    async def endpoint(request: Request) -> Response:
        file = served.get(request.path_params["file"])
        if file is None:
            raise HTTPException(404)
        return _answer(request, file)

    return Route(f"{path}/{{file:path}}", endpoint, methods=["GET"])


def _page(path: str, served: Served, name: str) -> Route:
    page = served[name]

    async def endpoint(request: Request) -> Response:
        return _answer(request, page)

    return Route(path, endpoint, methods=["GET"])


_PAGES: Final[Served] = dict(_listed(files(__name__), (".html", ".js", ".css")))
_CLIENT: Final[Served] = dict(_listed(files("leaseway_javascript"), (".js",)))

ROUTES: Final = [
    _page("/", _PAGES, "dashboard/index.html"),
    _page("/_showcase", _PAGES, "showcase/index.html"),
    _folder("/_pages", _PAGES),
    _folder("/_client", _CLIENT),
]
