"""How notifications and deliveries are told in JSON: the members and their names, in one place. Pure."""

from typing import Any

from leaseway_notify.delivery import Delivery, Sending
from leaseway_notify.plan import Plan
from leaseway_notify.stores.base import InboxEntry


def plan_shown(plan: Plan) -> dict[str, Any]:
    """What became of an event."""
    return {
        "id": plan.notification.id,
        "duplicateOf": plan.notification.duplicate_of or None,
        "deliveries": [delivery_shown(delivery) for delivery in plan.deliveries],
    }


def delivery_shown(delivery: Delivery) -> dict[str, Any]:
    """A delivery, without what it delivers. Times in ms since the epoch."""
    return {
        "id": delivery.id,
        "channel": delivery.channel,
        "status": delivery.label,
        "reason": delivery.reason,
        "dueAt": delivery.due_at,
        "failures": delivery.failures,
        "error": delivery.error,
        "updatedAt": delivery.updated_at,
    }


def sending_shown(sending: Sending) -> dict[str, Any]:
    """A delivery with what it delivers, for operators."""
    said = sending.notification
    return {
        **delivery_shown(sending.delivery),
        "notificationId": said.id,
        "recipient": said.recipient,
        "type": said.type,
        "title": said.title,
        "createdAt": said.created_at,
    }


def entry_shown(entry: InboxEntry) -> dict[str, Any]:
    """An entry of an inbox, for its recipient."""
    said = entry.notification
    return {
        "number": entry.number,
        "id": said.id,
        "type": said.type,
        "group": said.group_key,
        "title": said.title,
        "body": said.body,
        "actor": said.actor,
        "url": said.url or None,
        "payload": dict(said.payload),
        "createdAt": said.created_at,
        "deliveredAt": entry.delivered_at,
        "readAt": entry.read_at or None,
        "archivedAt": entry.archived_at or None,
    }
