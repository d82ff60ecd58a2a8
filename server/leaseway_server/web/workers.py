"""`GET /<queue>/workers`: who is connected, what it waits for, and what it holds (PROTOCOL.md §5)."""

import asyncio
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.runtime.engine import Engine
from leaseway_server.web.auth import admit
from leaseway_server.web.site import Site
from leaseway_server.web.work_socket import WorkSocket

MOST_HELD: Final = 10_000
"""So many leases of one socket are told, which is as many as a message may name."""
AT_ONCE: Final = 64 * 1024
"""After so many bytes of the answer others have their turn on the event loop."""


async def list_workers(request: Request) -> Response:
    """The sockets of workers, those that came first before the others; leases are told as of the last commit."""
    site: Site = request.app.state.site
    served = (await admit(site, request.scope, "admin")).served
    workers = []
    sockets = [socket for socket in served.sockets if isinstance(socket, WorkSocket)]
    size = 0
    for socket in sorted(sockets, key=lambda socket: socket.session.holder):
        workers.append(orjson.dumps(_worker(socket, served.engine)))
        size += len(workers[-1])
        if size > AT_ONCE:
            size = 0
            await asyncio.sleep(0)
    return Response(b'{"workers":[' + b",".join(workers) + b"]}", media_type="application/json")


def _worker(socket: WorkSocket, engine: Engine) -> dict[str, object]:
    session = socket.session
    return {
        "worker": session.name or None,
        "user": session.user or None,
        "client": session.greeting.client or None,
        "labels": orjson.Fragment(session.greeting.labels),
        "connectedAt": socket.connected_at,
        "waiting": [
            {"criteria": ask.given or {}, "count": left}
            for ask, left in engine.looking.waiting(session.holder)
            if ask.wait_ms
        ],
        "holds": [
            {"id": item_id, "attempts": lease.attempts, "since": lease.since, "leaseUntil": lease.until}
            for item_id, lease in engine.looking.held(session.holder, MOST_HELD)
        ],
    }
