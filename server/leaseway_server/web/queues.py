"""A queue's own page of facts, and what an administrator does to it as a whole (PROTOCOL.md §5)."""

from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.access import RIGHTS, Right, administers, rights
from leaseway_server.core.commands import Pause, Paused
from leaseway_server.core.errors import NotFound
from leaseway_server.core.queue import QUEUE_NAME, Queue
from leaseway_server.web.auth import admit, identify
from leaseway_server.web.oldest import waits_since
from leaseway_server.web.requests import json_response, succeeded
from leaseway_server.web.site import Site

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

KINDS: Final = ("item", "progress", "result")
"""What a queue may have a schema for."""


async def get_queue(request: Request) -> Response:
    """`GET /<queue>`: name, pause, counts, since when the oldest is ready, rights, limits, schemas."""
    if not QUEUE_NAME.fullmatch(request.path_params["queue"]):
        raise HTTPException(404)  # It is no queue's path at all.
    caller = await admit(request.app.state.site, request.scope, "fetch")
    queue, engine = caller.served.queue, caller.served.engine
    shows_all = queue.shows_all(caller.rights)
    oldest = await waits_since(engine) if shows_all else None
    facts = {
        "queue": queue.name,
        "paused": engine.paused,
        "counts": engine.tally.counts if shows_all else None,
        "oldestReadyAt": (oldest.at if oldest else 0) or None,
        "rights": _in_order(caller.rights),
        "leaseMs": queue.policy.lease,
        "limits": _limits(queue),
        "schemas": queue.schemas.documents(),
    }
    return json_response(facts)


async def get_rates(request: Request) -> Response:
    """`GET /<queue>/rates`: what happened in each minute of the last hour."""
    site: Site = request.app.state.site
    engine = (await admit(site, request.scope, "admin")).served.engine
    return json_response({"minutes": [asdict(minute) for minute in engine.tally.rates(site.clock.now())]})


async def list_queues(request: Request) -> Response:
    """`GET /_queues`: those that the caller has any right on; an administrator of the server sees all."""
    site: Site = request.app.state.site
    token = (await identify(site, request.scope)).token
    now, sees_all = site.clock.now(), administers(site.admins, token)
    found = []
    for name, grants in site.grants.items():
        has = rights(grants, name, token, now)
        if has or sees_all:
            found.append({"queue": name, "rights": _in_order(has)})
    return json_response({"queues": found})


def get_schema(kind: str) -> Endpoint:
    """The endpoint of `GET /<queue>/schemas/<kind>.json`: the JSON Schema, for whoever has any right."""

    async def endpoint(request: Request) -> Response:
        queue = (await admit(request.app.state.site, request.scope, None)).served.queue
        document = queue.schemas.documents()[kind]
        if document is None:
            raise NotFound(f"this queue has no schema for this: its {kind} may be any JSON")
        return json_response(document)

    return endpoint


def pause(*, on: bool) -> Endpoint:
    """The endpoint of `POST /<queue>/pause`, or of `/unpause`. Done twice it is as done once."""

    async def endpoint(request: Request) -> Response:
        caller = await admit(request.app.state.site, request.scope, "admin")
        paused = succeeded(await caller.served.engine.ask(Pause(on)))
        assert isinstance(paused, Paused)
        if paused.changed:
            caller.audit("admin.queue_paused" if on else "admin.queue_unpaused")
        return json_response({"queue": caller.served.queue.name, "paused": on})

    return endpoint


def _in_order(has: frozenset[Right]) -> list[Right]:
    return [right for right in RIGHTS if right in has]


def _limits(queue: Queue) -> dict[str, int]:
    limits = queue.limits
    return {
        "maxMessageBytes": limits.message_bytes,
        "maxValueBytes": limits.value_bytes,
        "maxBatch": limits.batch,
        "maxIds": limits.ids,
        "maxSubscriptions": limits.subscriptions,
        "maxCount": limits.count,
        "maxWaitMs": limits.wait_ms,
        "maxBulkItems": limits.bulk_items,
        "maxPending": queue.max_pending,
    }
