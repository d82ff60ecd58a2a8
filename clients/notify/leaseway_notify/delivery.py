"""A notification and its deliveries as they are kept, and which life a delivery may have. Values; nothing is read here.

pending → processing → sent | delivered          scheduled → processing, once it is due
processing → pending (retrying) → … → dead       processing → failed
any but the last ones → skipped | cancelled      failed | dead → pending, by a person (`reopen`)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from leaseway_notify.event import Priority
from leaseway_notify.profile import Channel

Status: TypeAlias = Literal[
    "pending", "scheduled", "processing", "sent", "delivered", "skipped", "failed", "dead", "cancelled"
]
Reason: TypeAlias = Literal[
    "",
    # Skipped when it was planned.
    "suppressed",  # the policy has no such deliveries, or it is the recipient's own doing
    "channel_disabled",
    "muted",
    "no_address",
    "no_push_subscription",
    "not_configured",  # the settings do not say how such messages leave
    "deduplicated",
    # Scheduled.
    "quiet_hours",
    "digest",
    "collaboration",
    "batch",
    "storm",
    # Skipped when it was to be sent.
    "push_subscription_revoked",
    "already_read",
    "hourly_cap",
    "superseded",
    "unsubscribed",
]
"""Why a delivery was skipped or waits."""

WAITS: Final[tuple[Status, ...]] = ("pending", "scheduled")
OPEN: Final[tuple[Status, ...]] = (*WAITS, "processing")
BEFORE: Final[Mapping[Status, tuple[Status, ...]]] = {
    "pending": ("processing",),
    "scheduled": ("processing",),
    "processing": OPEN,
    "sent": ("processing",),
    "delivered": ("processing",),
    "failed": ("processing",),
    "dead": OPEN,
    "skipped": OPEN,
    "cancelled": OPEN,
}
"""From which states a worker or a person may bring a delivery to which state."""
ENDED: Final[tuple[Status, ...]] = ("sent", "delivered", "skipped", "failed", "dead", "cancelled")
ATTENTION: Final[tuple[Status, ...]] = ("failed", "dead")
"""What a person should look at: `failed` cannot succeed as it is, `dead` outlived its tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What one recipient is to know. `payload` as JSON says it. Times in ms since the epoch.

    `duplicate_of`: an equal one had been made shortly before, and this one is only kept to say so.
    """

    id: str
    type: str
    recipient: str
    title: str
    body: str
    actor: str
    context: str
    payload: Mapping[str, Any]
    dedupe_key: str
    group_key: str
    created_at: int
    duplicate_of: str = ""

    @property
    def url(self) -> str:
        """Where a click leads; "" where nothing was said."""
        return str(self.payload.get("url", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notification on one channel. Times in ms since the epoch, 0 where there was none.

    `fence` is the number of the attempt that last began; `failures` counts those that failed, `error` says how the last
    one did. `detail` is what is worth keeping of a success, such as the provider's id; `lead` is the delivery
    that takes this one along in its message. `round` counts how often a person began it anew. `posted_at` is 0 as long
    as it is not known to be in the queue.
    """

    id: str
    notification_id: str
    recipient: str
    channel: Channel
    status: Status
    priority: Priority
    due_at: int
    created_at: int
    updated_at: int
    reason: Reason = ""
    batch_key: str = ""
    lead: str = ""
    fence: int = 0
    failures: int = 0
    error: str = ""
    detail: str = ""
    round: int = 0
    posted_at: int = 0

    @property
    def label(self) -> str:
        """The status as people are told it: `retrying` where it waits after a failure."""
        return "retrying" if self.status in WAITS and self.failures else self.status

    @property
    def ended(self) -> bool:
        """Whether nothing more becomes of it by itself."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class Sending:
    """A delivery with what it delivers."""

    delivery: Delivery
    notification: Notification


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a delivery. `due_at` and `batch_key` stay where nothing is said.

    `error` is how an attempt failed: it counts as one where the delivery waits for another.
    """

    status: Status
    reason: Reason = ""
    error: str = ""
    detail: str = ""
    due_at: int | None = None
    batch_key: str | None = None


def delivery_id(notification_id: str, channel: Channel) -> str:
    """The id of a notification's delivery on a channel: there is never another one."""
    return f"{notification_id}-{channel}"
