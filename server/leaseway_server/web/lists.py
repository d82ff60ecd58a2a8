"""Lists of items: `GET /<queue>/items` (PROTOCOL.md §5)."""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.listing import LONGEST_PAGE, USUAL_PAGE, Filter, parse_filter
from leaseway_server.core.view import encode_view
from leaseway_server.web.auth import admit
from leaseway_server.web.requests import truth


async def list_items(request: Request) -> Response:
    """`GET /<queue>/items`: newest posted first; nothing is stamped as fetched."""
    caller = await admit(request.app.state.site, request.scope, "admin")
    asked = _query(request)
    looking = caller.served.engine.looking
    page, now = await looking.page(asked.wanted, asked.cursor, asked.limit, results=asked.results)
    if page is None:
        raise BadMessage("cursor must be the next of a page of this list")
    views = b",".join(encode_view(item, now) for item in page.items)
    following = f'"{page.next}"' if page.next else "null"
    return Response(b'{"items":[' + views + b'],"next":' + following.encode() + b"}", media_type="application/json")


class _Asked(NamedTuple):
    """Which page of which list; without `results` each item's is null."""

    wanted: Filter
    limit: int
    cursor: str
    results: bool


def _query(request: Request) -> _Asked:
    """What is asked for. Raises `BadMessage`, also for what is unknown or twice."""
    said: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        said.setdefault(name, []).append(value)
    said.pop("token", None)
    limit, cursor = _once(said, "limit", str(USUAL_PAGE)), _once(said, "cursor", "")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 4 and 1 <= int(limit) <= LONGEST_PAGE):
        raise BadMessage(f"limit must be an integer from 1 to {LONGEST_PAGE}")
    results = truth("results", _once(said, "results", "true"))
    members: dict[str, Json] = {name: list(values) for name, values in said.items()}
    wanted = parse_filter(members, beside=("limit", "cursor", "results"))
    return _Asked(wanted, int(limit), cursor, results)


def _once(said: dict[str, list[str]], name: str, default: str) -> str:
    values = said.pop(name, [default])
    if len(values) > 1:
        raise BadMessage(f"{name} is there more than once")
    return values[0]
