"""What an administrator does to one item over HTTP (PROTOCOL.md §5): retry it, change its turn, delete it."""

from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.commands import Change, Changed, Command, Delete
from leaseway_server.core.errors import Conflict, NotFound
from leaseway_server.core.events import Retry
from leaseway_server.core.posting import parse_adjust
from leaseway_server.core.view import encode_view
from leaseway_server.web.auth import Admitted, admit
from leaseway_server.web.items import find, get_item
from leaseway_server.web.requests import read_json, succeeded


class ItemEndpoint(HTTPEndpoint):
    """`/<queue>/items/<id>`, by method: one route, so that a 405 names them all."""

    get = staticmethod(get_item)

    async def patch(self, request: Request) -> Response:
        """Another priority or due time for a pending item."""
        caller = await admit(request.app.state.site, request.scope, "admin")
        adjust = parse_adjust(await read_json(request, caller.served.queue.limits.message_bytes))
        item_id = request.path_params["id"]
        await _do(caller, Change(item_id, adjust))
        caller.audit("admin.item_changed", item=item_id)
        return await _view(caller, item_id)

    async def delete(self, request: Request) -> Response:
        """An item that has ended goes, with all that belongs to it; its key is free."""
        caller = await admit(request.app.state.site, request.scope, "admin")
        item_id = request.path_params["id"]
        await _do(caller, Delete(item_id))
        caller.audit("admin.item_deleted", item=item_id)
        return Response(status_code=204)


async def retry_item(request: Request) -> Response:
    """`POST /<queue>/items/<id>/retry`."""
    caller = await admit(request.app.state.site, request.scope, "admin")
    item_id = request.path_params["id"]
    await _do(caller, Change(item_id, Retry()))
    caller.audit("admin.item_retried", item=item_id)
    return await _view(caller, item_id)


async def _do(caller: Admitted, command: Command) -> None:
    """Has it done. Raises `NotFound`, `Conflict`, and what the turn refused it with."""
    changed = succeeded(await caller.served.engine.ask(command))
    assert isinstance(changed, Changed)
    if changed.item is None:
        raise NotFound("there is no such item")
    if not changed.accepted:
        raise Conflict(f"the item is {changed.item.status}, which does not allow this")


async def _view(caller: Admitted, item_id: str) -> Response:
    """The item as it stands: the same turn may have handed it to a worker that waited."""
    item, now = await find(caller, item_id)
    return Response(encode_view(item, now), media_type="application/json")
