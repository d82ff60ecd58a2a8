"""The audit log: who was refused, and what administrators did; logger `leaseway.audit`.

It tells ids and names. What a refusal answers to the client is decided elsewhere.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from leaseway_server.core.access import Right, Token
from leaseway_server.log import LimitedEvent

AdminEvent: TypeAlias = Literal[
    "admin.token_created", "admin.token_revoked", "admin.item_cancelled", "admin.config_changed", "admin.bulk"
]

_TEXTS: Final[dict[AdminEvent, str]] = {
    "admin.token_created": "a token was created",
    "admin.token_revoked": "a token was revoked",
    "admin.item_cancelled": "an administrator cancelled an item",
    "admin.config_changed": "the configuration was changed",
    "admin.bulk": "an administrator changed many items at once",
}

_log = logging.getLogger("leaseway.audit")


class RefusedAccess(LimitedEvent):
    """`access.refused`, as often as a `LimitedEvent` is told. `now` gives ms."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(_log, logging.WARNING, "access.refused", "access was refused", now)

    def audit(self, *, address: str, queue: str, right: Right | None, reason: str, user: str = "") -> None:
        """Somebody may not do this. `reason` is the code of the answer; `right` None is any, `user` "" not known."""
        fields = {"address": address, "queue": queue, "right": right or "any", "reason": reason, "user": user or None}
        self.write(address, fields)


def audit_admin(event: AdminEvent, **ids: str | int | None) -> None:
    """An administrator did this. `ids` say to what, and who (`by`); those that are None are left out."""
    _log.info(_TEXTS[event], extra={"event": event, **ids})


def audit_tokens(before: Iterable[Token], after: Iterable[Token]) -> None:
    """Tells which tokens were created and revoked between two looks at them, by whatever process that was."""
    had, has = ({token.id: token for token in tokens} for tokens in (before, after))
    for token_id in has.keys() - had.keys():
        audit_admin("admin.token_created", token_id=token_id, user=has[token_id].user)
    for token_id in had.keys() - has.keys():
        audit_admin("admin.token_revoked", token_id=token_id, user=had[token_id].user)
