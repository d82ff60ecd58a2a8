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
    """`GET /<queue>/items/<id>/why`: every reason that holds now. Nothing is stamped as fetched."""
    caller = admit(request.app.state.site, request.scope, "fetch")
    engine = caller.served.engine
    item, now = await find(caller, request.path_params["id"], bodies=True)
    waiting = item.status == "pending"
    ahead = await engine.looking.ahead(item.position, MOST_AHEAD) if waiting else 0
    facts = Facts(now, engine.paused, min(ahead, MOST_AHEAD), engine.looking.asked(), _workers(caller.served))
    reasons = [{"code": each.code, "message": each.message} for each in why(item, parse(item.body), facts)]
    return json_response({"waiting": waiting, "reasons": reasons, "ahead": facts.ahead})


def _workers(served: ServedQueue) -> list[Worker]:
    sessions = [socket.session for socket in served.sockets if isinstance(socket, WorkSocket)]
    holds = served.engine.looking.holds
    return sorted(
        (Worker(each.name, each.latest, holds(each.holder)) for each in sessions), key=lambda worker: worker.name
    )
