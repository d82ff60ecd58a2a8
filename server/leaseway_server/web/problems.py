"""Errors over HTTP: problem documents (RFC 9457) with the protocol's `code` and `errors` (PROTOCOL.md §5)."""

from http import HTTPStatus
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.errors import NotAllowed, Refused, SchemaMismatch, Unauthorized
from leaseway_server.web.address import client_address
from leaseway_server.web.auth import AUDITED
from leaseway_server.web.site import Site

PROBLEM: Final = "application/problem+json"
_CODES: Final = {404: "not-found", 405: "bad-message", 413: "too-large", 415: "bad-message"}
_DETAILS: Final = {
    404: "there is nothing at this path, or only a WebSocket",
    405: "this path takes other methods; the header Allow names them",
}


def problem(refused: Refused) -> Response:
    """The answer to a request that was refused."""
    first = refused.problems[0]
    body = {
        "type": "about:blank",
        "title": refused.title,
        "status": refused.status,
        "detail": str(refused)[:200],
        "code": refused.code,
    }
    if first.path or isinstance(refused, SchemaMismatch):
        body["errors"] = [{"path": problem.path, "message": problem.message} for problem in refused.problems]
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == HTTPStatus.UNAUTHORIZED else None
    return Response(orjson.dumps(body), refused.status, headers, PROBLEM)


async def on_refused(request: Request, error: Exception) -> Response:
    """Starlette's handler for `Refused`: each is told once, in the audit log or beside it."""
    assert isinstance(error, Refused)
    request.app.state.site.traffic.refuse("http", error.code)
    if AUDITED not in request.scope:
        _log_refused(request, error)
    return problem(error)


def _log_refused(request: Request, error: Refused) -> None:
    site: Site = request.app.state.site
    address = client_address(request.scope, site.trusted_proxies)
    queue = request.path_params.get("queue", "")
    if isinstance(error, Unauthorized | NotAllowed):  # By more than the rights, such as whose an item is.
        site.refused_access.audit(address=address, queue=queue, right=None, reason=error.code)
    else:
        said = {"address": address, "queue": queue or None, "status": error.status, "code": error.code}
        site.refused_requests.write(address, said)


async def on_left(_request: Request, _error: Exception) -> Response:
    """The client left before its request was here; nobody reads this."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's handler for its own errors: no such path, or not this method."""
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    code = _CODES.get(error.status_code, "bad-message")
    request.app.state.site.traffic.refuse("http", code)
    body = {
        "type": "about:blank",
        "title": phrase,
        "status": error.status_code,
        "detail": _DETAILS.get(error.status_code, error.detail),
        "code": code,
    }
    return Response(orjson.dumps(body), error.status_code, error.headers, PROBLEM)
