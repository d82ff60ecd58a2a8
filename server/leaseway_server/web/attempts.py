"""What became of an item's attempts: `GET /<queue>/items/<id>/attempts` (PROTOCOL.md §5)."""

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.commands import Found, Read
from leaseway_server.core.errors import NotFound
from leaseway_server.core.view import json_or_null
from leaseway_server.web.auth import admit
from leaseway_server.web.requests import json_response, succeeded


async def get_attempts(request: Request) -> Response:
    """The attempts that were lost, parted, failed or released, oldest first; of very many the newest."""
    caller = await admit(request.app.state.site, request.scope, "fetch")
    item_id = request.path_params["id"]
    found = Found(left=(item_id,))
    while found.left:  # Where others read much in the same turn, this one waits for the next.
        outcome = succeeded(await caller.served.engine.ask(Read((item_id,), attempts=True)))
        assert isinstance(outcome, Found)
        found = outcome
    if item_id not in found.items or not caller.sees(found.items[item_id]):
        raise NotFound("there is no such item")
    return json_response({"attempts": [_shown(attempt) for attempt in found.attempts[item_id]]})


def _shown(attempt: Attempt) -> dict[str, object]:
    return {
        "attempts": attempt.attempts,
        "worker": attempt.worker or None,
        "from": attempt.started_at,
        "to": attempt.ended_at,
        "ending": attempt.ending,
        "error": json_or_null(attempt.error),
    }
