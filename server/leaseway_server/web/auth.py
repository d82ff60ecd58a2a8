"""Who asks: the token of a request or a handshake, and what it may do on a queue (PROTOCOL.md §2).

The token goes from here into a hash and nowhere else.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.types import Scope

from leaseway_server.core.access import Caller, Right, authorize
from leaseway_server.core.errors import BadMessage
from leaseway_server.web.site import ServedQueue, Site


@dataclass(frozen=True, slots=True)
class Admitted:
    """A caller that may do what it asked, on a queue that is there. `user` is "" where no token was given."""

    served: ServedQueue
    user: str
    rights: frozenset[Right]
    token_id: str
    """"" where no token was given."""


def admit(site: Site, scope: Scope, right: Right) -> Admitted:
    """The caller, where it has the right. Raises `Unauthorized`, `NotAllowed` or `NotFound`, as §2 says."""
    name = scope["path_params"]["queue"]
    now = site.clock.now()
    secret = credentials(scope)
    caller = Caller(secret is not None, site.tokens.find(secret, now) if secret else None)
    rights = authorize(site.grants, name, right, caller, now)
    return Admitted(site.queues[name], caller.user, rights, caller.token.id if caller.token else "")


def credentials(scope: Scope) -> str | None:
    """The token as it was sent: `?token=` or a bearer header. Raises `BadMessage` where both are there and differ."""
    found = {value for name, value in parse_qsl(scope["query_string"].decode("latin-1"), True) if name == "token"}
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                found.add(secret.strip())
    if len(found) > 1:
        raise BadMessage("more than one token was sent; send one")
    return found.pop() if found else None
