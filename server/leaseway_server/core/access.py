"""Who may do what (PROTOCOL.md §2): the four rights, tokens and how they are narrowed, and what is said to the others.

Pure. Where tokens are kept is the store's, how one travels is the web's; a secret is only ever seen here to be hashed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import takewhile
from typing import Final, Literal, TypeAlias, get_args

from leaseway_server.core.errors import LimitReached, NotAllowed, NotFound, Unauthorized
from leaseway_server.core.limits import Allowances

Right: TypeAlias = Literal["post", "fetch", "work", "admin"]
Grant: TypeAlias = Literal["open", "users"] | frozenset[str]
"""Anyone, any valid token, or the users of these names."""

RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
ALL_RIGHTS: Final[frozenset[Right]] = frozenset(RIGHTS)
NO_RIGHTS: Final[frozenset[Right]] = frozenset()

PREFIX: Final = "lw_"
"""Tokens and tickets begin so, that people and secret scanners know them at sight."""
TICKET_LIFE: Final = 30_000
"""How long a ticket may be used, ms."""
MOST_TICKETS: Final = 1_000
"""So many of one token may wait to be used, on each queue. They are its own: no other token has fewer for it."""


@dataclass(frozen=True, slots=True)
class Grants:
    """To whom a queue gives each right. What is not named is for all users, and `admin` for nobody."""

    post: Grant = "users"
    fetch: Grant = "users"
    work: Grant = "users"
    admin: Grant = frozenset()

    def to(self, right: Right) -> Grant:
        """To whom it gives this right by name; `admin` gives the others too."""
        grant: Grant = getattr(self, right)
        return grant

    def open_rights(self) -> frozenset[Right]:
        """What anyone may do, without a token."""
        return _with_included(frozenset(right for right in RIGHTS if self.to(right) == "open"))

    def rights_of(self, user: str) -> frozenset[Right]:
        """What this user may do with a token that nothing narrows."""
        return _with_included(frozenset(right for right in RIGHTS if _includes(self.to(right), user)))


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; its secret is not. `queues` and `rights` None are all; `expires_at` (ms) 0 is never.

    A token that was revoked is not there any more. `used_at` is when it was last used as far as that was written, 0
    for never; it makes no other token of it.
    """

    id: str
    user: str
    queues: frozenset[str] | None
    rights: frozenset[Right] | None
    created_at: int
    expires_at: int
    used_at: int = field(default=0, compare=False)

    def expired(self, now: int) -> bool:
        """Whether its time is over."""
        return 0 < self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `presented`: some token came along. `token` is the one that it was; None where there is no such one."""

    presented: bool = False
    token: Token | None = None

    @property
    def user(self) -> str:
        """The user's name, "" without a token."""
        return self.token.user if self.token else ""


ANYONE: Final = Caller()
"""A caller without a token."""


def hash_token(secret: str) -> str:
    """What is stored of a token: SHA-256, in hex. Any text is taken, whatever a client made up."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def rights(grants: Grants, queue: str, token: Token | None, now: int) -> frozenset[Right]:
    """What a caller with this token, or with none, may do on the queue.

    A valid token, however narrow, has what is open to anyone; one whose time is over has nothing.
    """
    return NO_RIGHTS if token and token.expired(now) else _rights(grants, queue, token)


def administers(admins: frozenset[str], token: Token | None) -> bool:
    """Whether this token, not yet expired, is one of the server's administrators', with all that such a user may do."""
    if token is None or token.user not in admins:
        return False
    return token.queues is None and (token.rights is None or "admin" in token.rights)


def check_token(caller: Caller, now: int) -> None:
    """Raises `Unauthorized` where a token came along that does not count (PROTOCOL.md §2)."""
    if caller.presented and (caller.token is None or caller.token.expired(now)):
        raise Unauthorized("this token is not valid, or not any more")


def authorize(
    queues: Mapping[str, Grants], queue: str, right: Right | None, caller: Caller, now: int
) -> frozenset[Right]:
    """All that the caller may do on the queue, where `right` is a part of it; None is content with any right.

    Raises `Unauthorized`, `NotFound` or `NotAllowed`, with texts that are the same whatever the caller may not see.
    """
    check_token(caller, now)
    token = caller.token
    grants = queues.get(queue)
    has = rights(grants, queue, token, now) if grants else NO_RIGHTS
    if right in has or (right is None and has):
        return has
    if token is None and (grants or not _open_everywhere(queues, right)):
        raise Unauthorized("a token is needed here: as Authorization: Bearer, or as ?token=")
    if token and has:
        raise NotAllowed(f"this token does not give the right to {right} here")
    raise NotFound("there is no such queue here, or not for this token")


@lru_cache(4096)  # The same few are asked about with each request.
def _rights(grants: Grants, queue: str, token: Token | None) -> frozenset[Right]:
    if token is None or (token.queues is not None and queue not in token.queues):
        return grants.open_rights()
    kept = ALL_RIGHTS if token.rights is None else _with_included(token.rights)
    return grants.open_rights() | grants.rights_of(token.user) & kept


def _open_everywhere(queues: Mapping[str, Grants], right: Right | None) -> bool:
    """Whether no token is needed for this on any queue: then a 404 tells nothing that a 401 would hide."""
    return all(right in opened or (right is None and opened) for opened in map(Grants.open_rights, queues.values()))


def may_cancel(posted_by: str, user: str, rights: Collection[str]) -> bool:
    """Whether who has the right to `post` may cancel this poster's item; on an open queue the id is the capability."""
    return "admin" in rights or posted_by == user


class Tickets:
    """The tickets of one queue that were not used yet: each is good for one connection (PROTOCOL.md §2).

    In memory only: for where a queue is served by one process.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Token, int]] = {}
        """By hash, the oldest first: whose it is, and when it was issued."""
        self._of_token = Allowances(MOST_TICKETS)

    def issue(self, secret: str, token: Token, now: int) -> int:
        """Keeps a new ticket of this token. Gives when it ends, ms since the epoch.

        Raises `LimitReached` where the token has as many as it may have.
        """
        over = takewhile(lambda one: one[1][1] + TICKET_LIFE <= now, self._waiting.items())
        for hashed, _ in list(over):
            self._take(hashed)
        if not self._of_token.take(token.id):
            raise too_many_tickets(self._of_token.limit)
        self._waiting[hash_token(secret)] = (token, now)
        return ticket_end(token, now)

    def redeem(self, secret: str, now: int) -> Token | None:
        """The token whose ticket this is, once; None afterwards, and where its time is over."""
        hashed = hash_token(secret)
        if hashed not in self._waiting:
            return None
        token, issued = self._take(hashed)
        return token if now < ticket_end(token, issued) else None

    def _take(self, hashed: str) -> tuple[Token, int]:
        token, issued = self._waiting.pop(hashed)
        self._of_token.give(token.id)
        return token, issued


def too_many_tickets(most: int) -> LimitReached:
    """What a token is told that has so many tickets already."""
    return LimitReached(f"{most} tickets of this token wait to be used already")


def ticket_end(token: Token, issued: int) -> int:
    """When a ticket of the token ends, ms since the epoch."""
    return min(issued + TICKET_LIFE, token.expires_at or issued + TICKET_LIFE)


def _includes(grant: Grant, user: str) -> bool:
    return user in grant if isinstance(grant, frozenset) else True


def _with_included(named: frozenset[Right]) -> frozenset[Right]:
    return ALL_RIGHTS if "admin" in named else named
