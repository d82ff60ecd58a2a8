"""What all HTTP requests need: the body as JSON within bounds, waiting that a client may leave, JSON answers."""

import asyncio
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.commands import Failed, Outcome
from leaseway_server.core.errors import BadJson, BadMessage, Refused, TooLarge
from leaseway_server.core.jsontext import Json, JsonRefused, parse
from leaseway_server.web.site import Site

LONGEST_NUMBER: Final = 20
"""A number of the query with more digits is larger than any limit."""


class UnsupportedMediaType(Refused):
    """The body is not announced as JSON."""

    code = "bad-message"
    status = 415
    title = "Not a media type that is taken here"


async def read_json(request: Request, limit: int) -> Json:
    """The body, parsed. Raises `UnsupportedMediaType`, `TooLarge`, `BadJson`."""
    if media_type(request) != "application/json":
        raise UnsupportedMediaType("the body must be JSON, and be announced as Content-Type: application/json")
    return parse_body(await read_body(request, limit))


def media_type(request: Request) -> str:
    """What the body is announced as, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, limit: int) -> bytes:
    """The body as it came. Raises `TooLarge`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body has more than {limit} bytes, which is all that is taken")
    return bytes(body)


def parse_body(body: bytes, first_line: int = 1) -> Json:
    """The value of the text, a part of the body that begins at this line of it. Raises `BadJson`."""
    try:
        return parse(body, first_line)
    except JsonRefused as refused:
        raise BadJson(str(refused)) from None


def query_integer(request: Request, name: str, most: int) -> int:
    """An integer of the query, cut to `most`; 0 where it is absent. Raises `BadMessage`."""
    text = request.query_params.get(name, "0")
    if not text.isascii() or not text.isdigit():
        raise BadMessage(f"{name} must be an integer, 0 or more")
    return min(int(text), most) if len(text) <= LONGEST_NUMBER else most


def truth(name: str, text: str) -> bool:
    """What a parameter of the query says, true or false. Raises `BadMessage`."""
    if text not in ("true", "false"):
        raise BadMessage(f"{name} must be true or false")
    return text == "true"


def succeeded(outcome: Outcome) -> Outcome:
    """The outcome, where the turn could do it; raises its `Refused` where it could not."""
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


async def wait_for(event: asyncio.Event, request: Request, site: Site, seconds: float) -> bool:
    """Returns when the event is set, its time is over, the client left (then True), or the server stops."""
    waits = [asyncio.ensure_future(each) for each in (event.wait(), site.stopping.wait(), _left(request))]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return waits[2].done()
    finally:
        for wait in waits:
            wait.cancel()


async def _left(request: Request) -> bool:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return True


def json_response(value: object, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(value), status, media_type="application/json")
