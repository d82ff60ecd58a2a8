"""What is done to all items of a list at once: `POST /<queue>/bulk` (PROTOCOL.md §5).

It walks the list in slices; each change is an ordinary command of the engine, and none of them goes past its rules.
What the filter no longer holds in the turn that would change it is left alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from leaseway_server.core.commands import Change, Changed, Command, Delete, Failed, Guard, Outcome
from leaseway_server.core.errors import BadMessage, Unavailable
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.core.jsontext import Json, pointer
from leaseway_server.core.listing import Filter, parse_filter
from leaseway_server.core.members import NAME_LIMIT, Members, an_object, flag, required
from leaseway_server.core.model import OPEN, TERMINAL, Item, Status
from leaseway_server.runtime.engine import Engine
from leaseway_server.web.auth import admit
from leaseway_server.web.requests import json_response, read_json
from leaseway_server.web.site import Site

SLICE: Final = 200
"""So many items are changed, then the next are looked for: others speak in between."""
_MEMBERS: Final = frozenset({"action", "filter", "dryRun"})


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to many: to items of which status, by which command, and whether an outcome says that it was."""

    statuses: frozenset[Status]
    command: Callable[[str, Guard], Command]
    done: Callable[[Outcome], bool]


def _changed(outcome: Outcome) -> bool:
    return isinstance(outcome, Changed) and outcome.accepted


ACTIONS: Final[dict[str, Action]] = {
    "retry": Action(TERMINAL - {"finished"}, lambda item_id, guard: Change(item_id, Retry(), guard), _changed),
    "cancel": Action(OPEN, lambda item_id, guard: Change(item_id, Cancel(), guard), _changed),
    "delete": Action(TERMINAL, Delete, _changed),
}


class Walk:
    """One walk over all that a filter held when it began; what is posted later is newer than all of it.

    `matched` and `changed` count as it goes.
    """

    def __init__(self, engine: Engine, action: Action, wanted: Filter, *, dry: bool) -> None:
        self.matched = 0
        self.changed = 0
        self._engine = engine
        self._action = action
        self._wanted = replace(wanted, status=wanted.statuses() & action.statuses)
        self._dry = dry

    async def run(self, pause: Callable[[], Awaitable[None]]) -> None:
        """To the list's end, or until `pause`, which is called between two slices, raises. Raises `Unavailable`."""
        cursor, more = "", bool(self._wanted.status)
        while more:
            page, _ = await self._engine.looking.page(self._wanted, cursor, SLICE, results=False)
            assert page is not None, "the cursor is of the page before"
            self.matched += len(page.items)
            if not self._dry:
                await self._change([item.id for item in page.items])
            cursor, more = page.next, bool(page.next)
            await pause()

    async def _change(self, ids: list[str]) -> None:
        commands = [self._action.command(item_id, self._guard) for item_id in ids]
        outcomes = await asyncio.gather(*map(self._engine.ask, commands))
        self.changed += sum(map(self._action.done, outcomes))
        for outcome in outcomes:
            # Any other refusal is of one item, which changed since it was looked at: it is not counted as changed.
            if isinstance(outcome, Failed) and isinstance(outcome.error, Unavailable):
                raise outcome.error

    def _guard(self, item: Item) -> str:
        """Why it is not to be changed: the filter holds it no more."""
        return "" if self._wanted.admits(item, self._engine.clock.now()) else "state"


async def bulk(request: Request) -> Response:
    """`POST /<queue>/bulk`. It ends early where the client leaves, its token ends, or the server stops; what was done
    stays done."""
    site: Site = request.app.state.site
    caller = await admit(site, request.scope, "admin")
    served = caller.served
    body = an_object(await read_json(request, served.queue.limits.message_bytes), "the body")
    action, wanted, dry = _read(body)
    walk = Walk(served.engine, ACTIONS[action], wanted, dry=dry)

    async def pause() -> None:
        if site.stopping.is_set():
            raise Unavailable(f"the server stops; until now {walk.changed} items were changed")
        if await request.is_disconnected():
            raise ClientDisconnect
        await admit(site, request.scope, "admin")

    try:
        await walk.run(pause)
    finally:
        if not dry:
            caller.audit("admin.bulk", action=action, matched=walk.matched, changed=walk.changed)
    return json_response({"matched": walk.matched, "changed": walk.changed})


def _read(body: Members) -> tuple[str, Filter, bool]:
    """The action, the filter, and whether nothing is to be done. Raises `BadMessage`, also for unknown members."""
    for name in body:
        if name not in _MEMBERS:
            path = pointer((name[:NAME_LIMIT],))
            raise BadMessage(f"{name[:40]} is not known here; known are action, filter, dryRun", path=path)
    wanted = parse_filter(an_object(required(body, "filter"), "filter", "/filter"), "/filter")
    return _action(required(body, "action")), wanted, flag(body, "dryRun", default=False)


def _action(value: Json) -> str:
    if not isinstance(value, str) or value not in ACTIONS:
        raise BadMessage(f"action must be one of {', '.join(sorted(ACTIONS))}", path="/action")
    return value
