"""The work socket's messages for workers without a socket: `POST /<queue>/claim` and its like (PROTOCOL.md §5).

Their leases have no socket: only the lease's end unlocks them. A claim whose client left is released at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.commands import Ask, Change, Changed, Empty, Failed, Handed, Outcome, Withdraw
from leaseway_server.core.errors import LimitReached
from leaseway_server.core.events import Release
from leaseway_server.core.limits import Allowance
from leaseway_server.core.model import HTTP, Item
from leaseway_server.core.reports import Reporter, ack, parse_ask, parse_report, weight
from leaseway_server.core.view import encode_item
from leaseway_server.runtime.engine import Engine
from leaseway_server.web.auth import admit
from leaseway_server.web.requests import json_response, read_json, succeeded, wait_for
from leaseway_server.web.site import Site

GRACE_SECONDS: Final = 60.0
"""The engine ends a claim at its time; only where it could not does the request end by itself, so much later."""
_EMPTY: Final = orjson.dumps({"type": "empty"})


class HttpClaim:
    """The items that come for one request. What comes after its client left is given back."""

    def __init__(self, ask: Ask, engine: Engine) -> None:
        self.items: list[Item] = []
        self.failed: Failed | None = None
        self.over = asyncio.Event()
        self._ask = ask
        self._engine = engine
        self._left = False

    def answer(self, outcome: Outcome) -> None:
        """An outcome of the claim."""
        match outcome:
            case Handed(item) if self._left:
                self._give_back(item)
            case Handed(item):
                self.items.append(item)
            case Failed():
                self.failed = outcome
            case _:
                assert isinstance(outcome, Empty)
        if self.full or not isinstance(outcome, Handed):
            self.over.set()

    @property
    def full(self) -> bool:
        """Whether all that was asked for came."""
        return len(self.items) == self._ask.count

    def leave(self) -> None:
        """The client is gone."""
        self._left = True
        self._engine.submit(Withdraw(HTTP, self._ask))
        for item in self.items:
            self._give_back(item)

    def _give_back(self, item: Item) -> None:
        self._engine.submit(Change(item.id, Release(HTTP, self._ask.user, item.attempts)))


async def claim(request: Request) -> Response:
    """`POST /<queue>/claim`: an `item` or `empty`; an array where `count` was asked."""
    site: Site = request.app.state.site
    caller = await admit(site, request.scope, "work")
    queue, engine = caller.served.queue, caller.served.engine
    body = await read_json(request, queue.limits.message_bytes)
    ask = parse_ask(body, queue, HTTP, caller.user, "")
    waiting = Allowance(site.waiting_claims, caller.key)
    if ask.wait_ms and not waiting.take(weight(ask)):
        raise LimitReached(f"{waiting.of.limit} claims of this token wait already, which is all that may")
    held = HttpClaim(ask, engine)
    engine.submit(ask, held.answer)
    answered = False
    try:
        left = await wait_for(held.over, request, site, queue.limits.wait_ms / 1000 + GRACE_SECONDS)
        if site.stopping.is_set() and not held.over.is_set():
            engine.submit(Withdraw(HTTP, ask))
            await held.over.wait()
        await admit(site, request.scope, "work")  # Its token may have ended meanwhile: then what came is given back.
        answered = held.over.is_set() and not left and not await request.is_disconnected()
    finally:
        waiting.give_all()
        if not answered:
            held.leave()
    if held.failed is not None:
        raise held.failed.error
    return _claimed(held, queue.policy.lease, as_array=isinstance(body, dict) and "count" in body)


def _claimed(held: HttpClaim, lease_ms: int, *, as_array: bool) -> Response:
    messages = [encode_item(item, lease_ms) for item in held.items]
    if not held.full:
        messages.append(_EMPTY)
    content = b"[" + b",".join(messages) + b"]" if as_array else messages[0]
    return Response(content, media_type="application/json")


def report(verb: str) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The endpoint of `POST /<queue>/progress` and its like: the ack of the socket's message."""

    async def endpoint(request: Request) -> Response:
        caller = await admit(request.app.state.site, request.scope, "work")
        queue, engine = caller.served.queue, caller.served.engine
        body = await read_json(request, queue.limits.message_bytes)
        reporter = Reporter(HTTP, caller.user, fence_of=lambda _item_id: None, chance=engine.clock.chance)
        change = parse_report(verb, body, queue, reporter)
        changed = succeeded(await engine.ask(change))
        assert isinstance(changed, Changed)
        return json_response(ack(verb, change.id, changed, queue))

    return endpoint
