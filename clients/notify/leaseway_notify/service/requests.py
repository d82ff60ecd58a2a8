"""What a request says: its body, its query, and who asks. Raises `Problem` for what cannot be taken."""

import hmac
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from leaseway_notify.checks import check_text
from leaseway_notify.recipient_token import BadToken, Recipient, read_token
from leaseway_notify.service.problems import Problem, unauthorized
from leaseway_notify.service.site import Site, site_of

MOST_BODY: Final = 2**20
"""Bytes of a body."""
MOST_ENTRIES: Final = 100
MOST_TEXT: Final = 200
"""Characters of a text of the query."""
_NO_BEARER: Final = "expected the header Authorization: Bearer and a token"


async def body_of(request: Request, most: int = MOST_BODY) -> bytes:
    """The whole body; one that is too long is not read to its end."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            detail = f"a body has at most {most:,} bytes; refer to what is larger instead"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)
    return bytes(body)


async def json_body(request: Request) -> Any:
    """What a body in JSON says."""
    try:
        return orjson.loads(await body_of(request))
    except orjson.JSONDecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, "bad-json", f"the body is no JSON: {error}") from None


async def members_of(request: Request, *known: str) -> dict[str, Any]:
    """The members of a body that is an object, none but these."""
    said = await json_body(request)
    if not isinstance(said, dict):
        raise wrong("", f"expected an object with {', '.join(known)}")
    for name in said:
        if name not in known:
            raise wrong(name, f"unknown member; known here: {', '.join(known)}")
    return said


def wrong(path: str, detail: str) -> Problem:
    """A member, or a parameter of the query, that cannot be taken."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "schema", detail, path)


def number_of(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of the query, from 0 on."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) > most:
        raise wrong(name, f"expected a whole number from 0 to {most:_}")
    return int(text)


def text_of(request: Request, name: str) -> str:
    """A text of the query that a database can look for; "" where nothing is said."""
    text = request.query_params.get(name, "")
    check_text(name, text, MOST_TEXT)
    return text


def flag_of(request: Request, name: str) -> bool:
    """`true` or `false` of the query; false where nothing is said."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise wrong(name, "expected true or false")
    return text == "true"


def portion_of(request: Request) -> int:
    """How many are listed at a time."""
    limit = number_of(request, "limit", 20, MOST_ENTRIES)
    if limit < 1:
        raise wrong("limit", f"expected a whole number from 1 to {MOST_ENTRIES}")
    return limit


def json_response(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """An answer in JSON, for nobody's cache."""
    return Response(orjson.dumps(value), status, {"Cache-Control": "no-store"}, "application/json")


def program(request: Request, *asked: str) -> Site:
    """The site, for a program that says the service's token. `asked`: the parameters that its query may have."""
    site = site_of(request)
    token = site.settings.service.token or ""
    if not token or not hmac.compare_digest(_bearer(request).encode(), token.encode()):
        raise unauthorized("the token is not service.token of notify.toml")
    _check_query(request, asked)
    return site


def recipient(request: Request, *asked: str) -> tuple[Site, str]:
    """The site, and the recipient whose token is said. `asked` as above."""
    site = site_of(request)
    me = recognised(site, _bearer(request)).id
    _check_query(request, asked)
    return site, me


def _check_query(request: Request, known: Collection[str]) -> None:
    """A parameter that is spelled otherwise would be left out of what is asked for, and nobody would know."""
    for name in request.query_params:
        if name not in known:
            raise wrong(name, f"unknown parameter; known here: {', '.join(known) or 'none'}")


def recognised(site: Site, token: str) -> Recipient:
    """Whose token it is."""
    try:
        return read_token(token, site.settings.service.secret or "", site.clock() / 1000)
    except BadToken as bad:
        raise unauthorized(str(bad)) from None


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise unauthorized(_NO_BEARER)
    return token.strip()
