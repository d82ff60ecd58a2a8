"""The audit log: who was refused, and what administrators did; logger `leaseway.audit`.

It tells ids and names. What a refusal answers to the client is decided elsewhere.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

from leaseway_server.core.access import Right, Token
from leaseway_server.log import LimitedEvent, listing

AdminEvent: TypeAlias = Literal[
    "admin.token_created",
    "admin.token_revoked",
    "admin.item_cancelled",
    "admin.item_retried",
    "admin.item_changed",
    "admin.item_deleted",
    "admin.bulk",
    "admin.queue_paused",
    "admin.queue_unpaused",
    "admin.config_changed",
    "admin.config_unchanged",
]

_TEXTS: Final[dict[AdminEvent, str]] = {
    "admin.token_created": "a token was created",
    "admin.token_revoked": "a token was revoked",
    "admin.item_cancelled": "an administrator cancelled an item",
    "admin.item_retried": "an administrator retried an item",
    "admin.item_changed": "an administrator changed an item's priority or due time",
    "admin.item_deleted": "an administrator deleted an item",
    "admin.bulk": "an administrator changed many items at once",
    "admin.queue_paused": "an administrator paused a queue",
    "admin.queue_unpaused": "an administrator ended a queue's pause",
    "admin.config_changed": "the configuration was read anew and has changed",
    "admin.config_unchanged": "the configuration was read anew: nothing has changed",
}

_log = logging.getLogger("leaseway.audit")


class RefusedAccess(LimitedEvent):
    """`access.refused`, as often as a `LimitedEvent` is told. `now` gives ms."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(_log, logging.WARNING, "access.refused", "access was refused", now)

    def audit(self, *, address: str, queue: str, right: Right | None, reason: str, user: str = "") -> None:
        """Somebody may not do this. `reason` is the code of the answer; `right` None is any, `queue` "" none in
        particular, `user` "" not known."""
        who = {"address": address, "user": user or None}
        self.write(address, {**who, "queue": queue or None, "right": right or "any", "reason": reason})


def audit_admin(event: AdminEvent, **ids: str | int | None) -> None:
    """An administrator did this. `ids` say to what, and who (`by`); those that are None are left out."""
    _log.info(_TEXTS[event], extra={"event": event, **ids})


def audit_config(file: str, now: Sequence[str], restart: Sequence[str]) -> None:
    """The configuration was read anew: the keys that count from now on, and those that need a restart."""
    event: AdminEvent = "admin.config_changed" if now else "admin.config_unchanged"
    text = _TEXTS[event] + ("; a part of it waits for a restart" if restart else "")
    keys = {"changed": listing(now) or None, "restart": listing(restart) or None}
    _log.info(text, extra={"event": event, "file": file, **keys})


def audit_tokens(before: Iterable[Token], after: Iterable[Token]) -> None:
    """Tells which tokens were created and revoked between two looks at them, by whatever process that was."""
    had, has = ({token.id: token for token in tokens} for tokens in (before, after))
    for token_id in has.keys() - had.keys():
        audit_admin("admin.token_created", token_id=token_id, user=has[token_id].user)
    for token_id in had.keys() - has.keys():
        audit_admin("admin.token_revoked", token_id=token_id, user=had[token_id].user)
