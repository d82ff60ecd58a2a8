"""An event: something happened that one recipient may want to know. A value, checked when it is made."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, cast, get_args

from leaseway_notify.checks import check_id, check_link, check_name, check_text, check_type, plain_payload
from leaseway_notify.errors import Refused

Priority: TypeAlias = Literal["low", "normal", "immediate"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)

MOST_TITLE = 300
MOST_BODY = 10_000


def new_id() -> str:
    """An id of 32 hex digits that nothing else has; later ones sort behind earlier ones."""
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened, for one recipient. Raises `Refused` for what cannot be notified.

    `context` is what it is about, such as a thread or a document: what shares it is shown together. `payload` is any
    JSON object; its member `url`, where there is one, is where a click leads. `priority` comes before the policy's.
    `id` becomes the notification's: the same event, said again under the same id, is the same notification.
    """

    type: str
    recipient: str
    title: str
    body: str = ""
    actor: str = ""
    context: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    priority: Priority | None = None
    id: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        check_id("id", self.id)
        check_type("type", self.type)
        check_name("recipient", self.recipient)
        check_name("actor", self.actor, optional=True)
        check_name("context", self.context, optional=True)
        check_text("title", self.title, MOST_TITLE, least=1)
        check_text("body", self.body, MOST_BODY, lines=True)
        object.__setattr__(self, "payload", plain_payload("payload", self.payload))
        if "url" in self.payload:
            check_link("payload.url", self.payload["url"])
        if self.priority is not None and self.priority not in PRIORITIES:
            raise Refused("priority", f"expected one of {', '.join(PRIORITIES)}")

    @classmethod
    def of(cls, said: object) -> "Event":
        """The event that a JSON object says, with this class's members. Raises `Refused`, also for unknown members."""
        if not isinstance(said, dict):
            raise Refused("", "expected an object")
        known = [of.name for of in fields(cls)]
        for name in said:
            if name not in known:
                raise Refused(str(name), f"unknown member; known here: {', '.join(known)}")
        for name in ("type", "recipient", "title"):
            if name not in said:
                raise Refused(name, "is missing")
        return cls(**cast("dict[str, Any]", said))
