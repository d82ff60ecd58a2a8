"""Who asks: the token of a request or a handshake, and what it may do on a queue (PROTOCOL.md §2).

The token goes from here into a hash and nowhere else.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from leaseway_server.audit import AdminEvent, audit_admin
from leaseway_server.core.access import ANYONE, Caller, Right, administers, authorize, check_token
from leaseway_server.core.errors import (
    Misdirected,
    NotAllowed,
    Refused,
    StoreError,
    TooManyAttempts,
    Unauthorized,
    Unavailable,
)
from leaseway_server.core.model import Item
from leaseway_server.web.address import client_address, is_from_this_machine
from leaseway_server.web.host import check_host
from leaseway_server.web.site import ServedQueue, Site

AUDITED: Final = "leaseway.audited"
"""In a scope: that its request was refused is in the audit log."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A caller that may do what it asked, on a queue that is there. `user` and `token_id` are "" without a token."""

    served: ServedQueue
    user: str
    rights: frozenset[Right]
    token_id: str
    address: str

    def audit(self, event: AdminEvent, **what: str | int) -> None:
        """This caller did that, to what is named, on this queue."""
        who = {"by": self.user or None, "queue": self.served.queue.name, "token_id": self.token_id or None}
        audit_admin(event, **who, **what)

    @property
    def key(self) -> str:
        """Whose limits these are: the token's, or without one the address's."""
        return self.token_id or f"address {self.address}"

    def sees(self, item: Item) -> bool:
        """Whether the item is there for this caller at all."""
        return self.served.queue.shows(item.posted_by, self.user, self.rights)


async def admit(site: Site, scope: Scope, right: Right | None) -> Admitted:
    """The caller, where it has the right (None: any right).

    Raises `Unauthorized`, `NotAllowed`, `NotFound`, `Misdirected` as §2 says, `TooManyAttempts`, and `Unavailable`
    where tokens cannot be looked up. It is in the audit log then, and `scope` says so (`AUDITED`).
    """
    name = scope["path_params"]["queue"]
    now = site.clock.now()
    address = client_address(scope, site.trusted_proxies)
    caller = ANYONE
    try:
        caller = await _caller(site, scope, name, address, now)
        if not caller.presented:
            check_host(scope, site)
        rights = authorize(site.grants, name, right, caller, now)
    except Refused as refused:
        if caller.presented and isinstance(refused, Unauthorized):
            site.failures.failed(address, site.clock.steady())
        reason = "host" if isinstance(refused, Misdirected) else refused.code
        site.refused_access.audit(address=address, queue=name, right=right, reason=reason, user=caller.user)
        scope[AUDITED] = True
        raise
    return Admitted(site.queues[name], caller.user, rights, caller.token.id if caller.token else "", address)


async def identify(site: Site, scope: Scope) -> Caller:
    """The caller of a request that is about no queue in particular.

    Raises `Unauthorized` where its token does not count, `Misdirected`, `TooManyAttempts` and `Unavailable`.
    """
    now = site.clock.now()
    address = client_address(scope, site.trusted_proxies)
    try:
        caller = await _caller(site, scope, "", address, now)
        if not caller.presented:
            check_host(scope, site)
        check_token(caller, now)
    except Refused as refused:
        if isinstance(refused, Unauthorized):
            site.failures.failed(address, site.clock.steady())
        site.refused_access.audit(address=address, queue="", right=None, reason=refused.code)
        scope[AUDITED] = True
        raise
    return caller


async def admit_operator(site: Site, scope: Scope) -> None:
    """Lets pass who may see how the whole server is: its administrators, and who asks on this machine itself (§5).

    Raises `Unauthorized`, `NotAllowed` and `TooManyAttempts`. An invalid token is refused wherever it comes from.
    """
    now = site.clock.now()
    address = client_address(scope, site.trusted_proxies)
    caller = ANYONE
    try:
        caller = await _caller(site, scope, "", address, now)
        if caller.presented and caller.token is None:
            site.failures.failed(address, site.clock.steady())
            raise Unauthorized("this token is not valid, or not any more")
        if administers(site.admins, caller.token) or is_from_this_machine(scope):
            return
        if caller.token is None:
            raise Unauthorized("a token of one of the server's administrators is needed here")
        raise NotAllowed("this is for the server's administrators, whom [server] admins in its configuration lists")
    except Refused as refused:
        said = {"address": address, "reason": refused.code, "user": caller.user}
        site.refused_access.audit(queue="_metrics", right="admin", **said)
        scope[AUDITED] = True
        raise


async def _caller(site: Site, scope: Scope, queue: str, address: str, now: int) -> Caller:
    secrets = credentials(scope)
    if not secrets:
        return ANYONE
    if site.failures.too_many(address, site.clock.steady()):
        raise TooManyAttempts("too many tokens that are not valid came from this address; wait a minute")
    if len(secrets) > 1:
        return Caller(presented=True)  # Which of them is meant? None is taken.
    kind, secret = secrets.pop()
    if kind == "ticket" and queue not in site.queues:
        return Caller(presented=True)
    look = site.tokens.find if kind == "token" else partial(site.tokens.redeem, queue)
    try:
        return Caller(True, await look(secret, now))
    except StoreError:
        # Not 401: the token may be as good as ever, and whoever has it should come again with it.
        raise Unavailable("the server cannot look up tokens at the moment; come back later") from None


def credentials(scope: Scope) -> set[tuple[str, str]]:
    """What was sent to say who asks: ("token" or "ticket", value). A ticket is for handshakes alone (§2)."""
    names = ("token", "ticket") if scope["type"] == "websocket" else ("token",)
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    found = {(name, value) for name, value in query if name in names}
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                found.add(("token", secret.strip(" ")))
    return found
