"""Planning: what becomes of an event, on each channel on its own. Pure: the profile and the time are arguments."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from leaseway_notify.checks import check_time
from leaseway_notify.delivery import Delivery, Notification, Reason, Status, delivery_id
from leaseway_notify.event import Event
from leaseway_notify.keys import batch_key, dedupe_key, digest_key, group_key
from leaseway_notify.policy import Action, Batch, Policies, Policy, Schedule, SendNow, Situation, Skip
from leaseway_notify.profile import CHANNELS, Channel, Profile

_BUILT_IN: Final = Policies()


@dataclass(frozen=True, slots=True)
class Plan:
    """A notification, and one delivery for each channel: skipped ones too, with their reason."""

    notification: Notification
    deliveries: tuple[Delivery, ...]

    @property
    def duplicate(self) -> bool:
        """Whether an equal notification was made shortly before, so that nothing is delivered for this one."""
        return bool(self.notification.duplicate_of)

    def as_duplicate_of(self, notification_id: str) -> "Plan":
        """The same, where another notification holds its key."""
        return Plan(
            replace(self.notification, duplicate_of=notification_id),
            tuple(_skipped(delivery, "deduplicated") for delivery in self.deliveries),
        )


def plan(
    event: Event,
    profile: Profile,
    now: int,
    policies: Policies = _BUILT_IN,
    configured: Collection[Channel] = CHANNELS,
) -> Plan:
    """What becomes of the event. `now` in ms since the epoch; on channels that are not `configured` nothing is sent.

    Raises `UnknownType`, and `Refused` where a policy says a time that is none.
    """
    assert event.recipient == profile.id
    policy = policies.of(event.type)
    notification = Notification(
        id=event.id,
        type=event.type,
        recipient=event.recipient,
        title=event.title,
        body=event.body,
        actor=event.actor,
        context=event.context,
        payload=event.payload,
        dedupe_key=dedupe_key(event),
        group_key=group_key(event),
        created_at=now,
    )
    situations = [Situation(event, profile, channel, now) for channel in CHANNELS]
    return Plan(notification, tuple(_delivery(one, policy, one.channel in configured) for one in situations))


def _delivery(situation: Situation, policy: Policy, configured: bool) -> Delivery:
    event, channel, now = situation.event, situation.channel, situation.now
    action = policy.decide(situation)
    if not configured and not isinstance(action, Skip):
        action = Skip("not_configured")
    status, due_at, reason = _outcome(action, now)
    check_time(f"the policy of {event.type}", due_at)  # Here, or the queue would refuse it, and what waits behind it.
    return Delivery(
        id=delivery_id(event.id, channel),
        notification_id=event.id,
        recipient=event.recipient,
        channel=channel,
        status=status,
        reason=reason,
        priority=event.priority or policy.priority,
        due_at=due_at,
        batch_key=_batch_key(event, channel, action),
        created_at=now,
        updated_at=now,
    )


def _batch_key(event: Event, channel: Channel, action: Action) -> str:
    """What it goes into one message with; "" where it goes alone."""
    match action:
        case Batch():
            return batch_key(event, channel)
        case Schedule(reason="digest"):
            return digest_key(event.recipient, event.type, channel)
    return ""


def _outcome(action: Action, now: int) -> tuple[Status, int, Reason]:
    """The status, when it is due, and why."""
    match action:
        case SendNow():
            return "pending", now, ""
        case Schedule(at, reason):
            return "scheduled", at, reason
        case Batch(at):
            return "scheduled", at, "batch"
    return "skipped", now, action.reason


def _skipped(delivery: Delivery, reason: Reason) -> Delivery:
    return replace(delivery, status="skipped", due_at=delivery.created_at, reason=reason, batch_key="")
