"""Looking and cancelling over HTTP (PROTOCOL.md §5)."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.access import may_cancel
from leaseway_server.core.commands import Change, Changed, Found, Read
from leaseway_server.core.errors import Conflict, NotAllowed, NotFound
from leaseway_server.core.events import Cancel
from leaseway_server.core.model import Item
from leaseway_server.core.view import encode_view
from leaseway_server.core.watch import View, view_of
from leaseway_server.web.auth import Admitted, admit
from leaseway_server.web.requests import query_integer, succeeded, truth, wait_for
from leaseway_server.web.site import Site


class EndWatcher:
    """Waits for the end of one item."""

    def __init__(self) -> None:
        self.newest: View | None = None
        self.gone = False
        """Whether the item went, and its end was never offered."""
        self.ended = asyncio.Event()

    def offer(self, view: View) -> None:
        """A change of the item."""
        self.newest = view
        if view.terminal:
            self.ended.set()

    def end(self, item_id: str) -> None:
        """The item is gone. Its end came before that, unless it came and went on other servers."""
        self.gone = not self.ended.is_set()
        self.ended.set()

    def lose_track(self) -> None:
        """The answer need not wait for what may be over: who asked may ask again."""
        self.ended.set()


async def get_item(request: Request) -> Response:
    """`GET /<queue>/items/<id>`, with `waitMs` held until the item has ended; `stamp=false` is a look and no more."""
    site: Site = request.app.state.site
    caller = await admit(site, request.scope, "fetch")
    served = caller.served
    wait = query_integer(request, "waitMs", served.queue.limits.wait_ms)
    stamp = truth("stamp", request.query_params.get("stamp", "true"))
    item_id = request.path_params["id"]
    watcher = EndWatcher()
    served.engine.hub.watch(item_id, watcher)  # Before it is read: no change between the two is missed.
    try:
        item, now = await find(caller, item_id)
        view = view_of(item, now)
        if wait and not view.terminal:
            await wait_for(watcher.ended, request, site, wait / 1000)
            # Its token may have ended meanwhile.
            if watcher.gone or not (await admit(site, request.scope, "fetch")).sees(item):
                raise NotFound("there is no such item")
    finally:
        served.engine.hub.unwatch(item_id, watcher)
    if watcher.newest is not None and watcher.newest.rev > view.rev:
        view = watcher.newest
    if stamp and view.unfetched:
        served.engine.stamp(item_id, view.rev)
    return Response(view.encoded, media_type="application/json")


async def get_body(request: Request) -> Response:
    """`GET /<queue>/items/<id>/item`: the item as it was posted."""
    caller = await admit(request.app.state.site, request.scope, "fetch")
    item, _ = await find(caller, request.path_params["id"], bodies=True)
    return Response(item.body, media_type="application/json")


async def cancel_item(request: Request) -> Response:
    """`POST /<queue>/items/<id>/cancel`: `admin`, or `post` and the item's own poster."""
    site: Site = request.app.state.site
    caller = await admit(site, request.scope, "post")
    served = caller.served
    item_id = request.path_params["id"]
    item, now = await find(caller, item_id)
    check_owner(caller, item)
    changed = succeeded(await served.engine.ask(Change(item_id, Cancel())))
    assert isinstance(changed, Changed)
    if changed.item is None:
        raise NotFound("there is no such item")
    if not changed.accepted and changed.item.status != "cancelled":
        raise Conflict(f"the item is {changed.item.status} already")
    if not changed.accepted:
        item, now = await find(caller, item_id)
        return Response(encode_view(item, now), media_type="application/json")
    if changed.item.posted_by != caller.user:
        caller.audit("admin.item_cancelled", item=item_id)
    return Response(encode_view(changed.item, max(now, changed.item.updated_at)), media_type="application/json")


def check_owner(caller: Admitted, item: Item) -> None:
    """On a queue that is open to post, the id is the capability (PROTOCOL.md §2)."""
    if may_cancel(item.posted_by, caller.user, caller.rights):
        return
    if "fetch" not in caller.rights:  # Who may not look is not told either that there is something to see.
        raise NotFound("there is no such item")
    raise NotAllowed("only the item's poster or an administrator may cancel it")


async def find(caller: Admitted, item_id: str, *, bodies: bool = False) -> tuple[Item, int]:
    """The item, and the turn's time. Raises `NotFound`, also where it is there for others only (§2, `visibility`)."""
    found = succeeded(await caller.served.engine.ask(Read((item_id,), bodies=bodies)))
    assert isinstance(found, Found)
    if found.left:  # Where others read much in the same turn, this one waits for the next.
        return await find(caller, item_id, bodies=bodies)
    item = found.items.get(item_id)
    if item is None or not caller.sees(item):
        raise NotFound("there is no such item")
    return item, found.now
