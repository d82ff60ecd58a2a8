"""`POST /<queue>/tickets`: good for one connection, so that no long-lived token needs to enter a URL (§2)."""

from starlette.requests import Request
from starlette.responses import Response

from leaseway_server.core.access import PREFIX
from leaseway_server.core.errors import Unauthorized
from leaseway_server.web.auth import admit
from leaseway_server.web.requests import json_response
from leaseway_server.web.site import Site


async def issue_ticket(request: Request) -> Response:
    """A ticket with the rights of the caller's token, whose end it shares."""
    site: Site = request.app.state.site
    admitted = await admit(site, request.scope, None)
    now = site.clock.now()
    token = site.tokens.by_id(admitted.token_id, now)
    if token is None:
        raise Unauthorized("a ticket stands for a token: send one, as Authorization: Bearer")
    secret = PREFIX + site.clock.secret()
    ends = await site.tokens.issue(admitted.served.queue.name, secret, token, now)
    return json_response({"ticket": secret, "expiresAt": ends}, 201)
