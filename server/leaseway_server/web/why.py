"""Why an item waits, who holds it, or how it ended: `GET /<queue>/items/<id>/why` (PROTOCOL.md §5)."""

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.jsontext import parse
from leaseway_server.core.why import MOST_AHEAD, Facts, Worker, why
from leaseway_server.web.auth import admit
from leaseway_server.web.items import find
from leaseway_server.web.requests import json_response
from leaseway_server.web.site import ServedQueue
from leaseway_server.web.work_socket import WorkSocket


async def explain_item(request: Request) -> Response:
    """`GET /<queue>/items/<id>/why`: every reason that holds now. Nothing is stamped as fetched.

    Who sees only its own items is told nothing of others: `ahead` is null and no reason, and nobody is named.
    """
    caller = await admit(request.app.state.site, request.scope, "fetch")
    engine = caller.served.engine
    item, now = await find(caller, request.path_params["id"], bodies=True)
    waiting = item.status == "pending"
    sees_all = caller.served.queue.shows_all(caller.rights)
    ahead = min(await engine.looking.ahead(item.position, MOST_AHEAD), MOST_AHEAD) if waiting and sees_all else 0
    ends, orphaned = engine.looking.lease_end(item.id)
    facts = Facts(
        now,
        engine.paused,
        ahead,
        engine.looking.asked(),
        _workers(caller.served),
        sees_all,
        ends,
        orphaned=orphaned,
        elsewhere=engine.workers_elsewhere > 0,
    )
    reasons = [{"code": each.code, "message": each.message} for each in why(item, parse(item.body), facts)]
    return json_response({"waiting": waiting, "reasons": reasons, "ahead": ahead if sees_all else None})


def _workers(served: ServedQueue) -> list[Worker]:
    sessions = [socket.session for socket in served.sockets if isinstance(socket, WorkSocket)]
    holds = served.engine.looking.holds
    return sorted(
        (Worker(each.name, each.latest, holds(each.holder)) for each in sessions), key=lambda worker: worker.name
    )
