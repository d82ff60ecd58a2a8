"""Errors over HTTP: problem documents (RFC 9457) with a `code` to act on, and `errors` with the path of what was wrong.

The codes are those of the queue's server, and `unknown-recipient` and `unknown-type` besides.
"""

from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from leaseway_notify.errors import Refused, StoreAway, UnknownRecipient, UnknownType

PROBLEM: Final = "application/problem+json"
_CODES: Final = {404: "not-found", 405: "bad-message"}
_DETAILS: Final = {
    404: "there is nothing at this path",
    405: "this path takes other methods; the header Allow names them",
}
MOST_DETAIL: Final = 400


class Problem(Exception):
    """A request that is refused; `code` is for programs, the text for people. `path` as `Refused` has it."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, path: str = "", retry_after: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.path = path
        self.retry_after = retry_after


def unauthorized(detail: str) -> Problem:
    """The request does not say who asks, or not so that it is believed."""
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail)


def not_found(detail: str) -> Problem:
    """What was asked for is not there."""
    return Problem(HTTPStatus.NOT_FOUND, "not-found", detail)


def answer(problem: Problem) -> Response:
    """The document of a problem."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail[:MOST_DETAIL],
        "code": problem.code,
    }
    if problem.path:
        body["errors"] = [{"path": problem.path, "message": problem.detail[:MOST_DETAIL]}]
    headers = {"Cache-Control": "no-store"}
    if problem.status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.retry_after:
        headers["Retry-After"] = str(problem.retry_after)
    return Response(orjson.dumps(body), problem.status, headers, PROBLEM)


async def on_problem(_request: Request, error: Exception) -> Response:
    """Starlette's handler for our own."""
    assert isinstance(error, Problem)
    return answer(error)


async def on_refused(_request: Request, error: Exception) -> Response:
    """For what the pipeline does not take."""
    assert isinstance(error, Refused)
    codes = {UnknownRecipient: "unknown-recipient", UnknownType: "unknown-type"}
    code = codes.get(type(error), "schema")
    return answer(Problem(HTTPStatus.UNPROCESSABLE_ENTITY, code, error.message, error.path))


async def on_store_away(_request: Request, _error: Exception) -> Response:
    """For a store that cannot be asked for now."""
    detail = "the database cannot be asked at the moment; say the same again later"
    return answer(Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail, retry_after=5))


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """For Starlette's own errors: no such path, or not this method."""
    assert isinstance(error, HTTPException)
    detail = _DETAILS.get(error.status_code, error.detail)
    told = answer(Problem(HTTPStatus(error.status_code), _CODES.get(error.status_code, "bad-message"), detail))
    told.headers.update(error.headers or {})
    return told


async def on_left(_request: Request, _error: Exception) -> Response:
    """The client left before its request was here; nobody reads this."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


HANDLERS: Final = {
    Problem: on_problem,
    Refused: on_refused,
    StoreAway: on_store_away,
    HTTPException: on_http_exception,
    ClientDisconnect: on_left,
}
