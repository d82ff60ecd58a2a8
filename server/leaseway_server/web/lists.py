"""Lists of items: `GET /<queue>/items` (PROTOCOL.md §5)."""

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.listing import LONGEST_PAGE, USUAL_PAGE, Filter, parse_filter
from leaseway_server.core.view import encode_view
from leaseway_server.web.auth import admit


async def list_items(request: Request) -> Response:
    """`GET /<queue>/items`: newest posted first; nothing is stamped as fetched."""
    caller = await admit(request.app.state.site, request.scope, "admin")
    wanted, limit, cursor = _query(request)
    page, now = await caller.served.engine.looking.page(wanted, cursor, limit)
    if page is None:
        raise BadMessage("cursor must be the next of a page of this list")
    views = b",".join(encode_view(item, now) for item in page.items)
    following = f'"{page.next}"' if page.next else "null"
    return Response(b'{"items":[' + views + b'],"next":' + following.encode() + b"}", media_type="application/json")


def _query(request: Request) -> tuple[Filter, int, str]:
    """The filter, the page's length, and where it begins. Raises `BadMessage`, also for what is unknown or twice."""
    said: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        said.setdefault(name, []).append(value)
    said.pop("token", None)
    limit, cursor = _once(said, "limit", str(USUAL_PAGE)), _once(said, "cursor", "")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 4 and 1 <= int(limit) <= LONGEST_PAGE):
        raise BadMessage(f"limit must be an integer from 1 to {LONGEST_PAGE}")
    members: dict[str, Json] = {name: list(values) for name, values in said.items()}
    return parse_filter(members, beside=("limit", "cursor")), int(limit), cursor


def _once(said: dict[str, list[str]], name: str, default: str) -> str:
    values = said.pop(name, [default])
    if len(values) > 1:
        raise BadMessage(f"{name} is there more than once")
    return values[0]
