"""The queue `notification-deliveries`: what an item of it is, and how it wants to be configured."""

from importlib.resources import files
from typing import Any, Final

from leaseway import Post
from leaseway_notify.delivery import Delivery
from leaseway_schemas import example_folder

QUEUE: Final = "notification-deliveries"
VERSION: Final = 1
TYPE: Final = "notification_delivery.execute"
PRIORITIES: Final = {"immediate": 10, "normal": 0, "low": -10}


def post_of(delivery: Delivery) -> Post[dict[str, Any]]:
    """The post of a delivery: the same each time, so that its key makes a repeated one harmless."""
    return Post(
        item_of(delivery),
        key=item_key(delivery),
        priority=PRIORITIES[delivery.priority],
        due_at=delivery.due_at / 1000 if delivery.status == "scheduled" else None,
    )


def item_key(delivery: Delivery) -> str:
    """The delivery's id; another one after each time that a person began it anew, since the queue knows the first."""
    return f"{delivery.id}.{delivery.round}" if delivery.round else delivery.id


def item_of(delivery: Delivery) -> dict[str, Any]:
    """The item, as the schema of the queue wants it. It says which delivery, and nothing of what is delivered."""
    return {
        "version": VERSION,
        "type": TYPE,
        "deliveryId": delivery.id,
        "notificationId": delivery.notification_id,
        "channel": delivery.channel,
        "priority": delivery.priority,
        "queuedAt": delivery.created_at,
    }


def configuration() -> str:
    """What the server's `leaseway.toml` should say of the queue."""
    text = files("leaseway_notify").joinpath("queue.toml").read_text(encoding="utf-8")
    return text.replace("{schemas}", str(example_folder(QUEUE)))
