"""How an item looks on the wire: the view, and the `item` message. Stored JSON is spliced in, never parsed again."""

import orjson

from leaseway_server.core.model import Item


def json_or_null(text: str) -> orjson.Fragment | None:
    """Stored JSON text as a part of a larger document."""
    return orjson.Fragment(text) if text else None


def label(item: Item, now: int) -> str:
    """`scheduled`, `retrying` or the status; derived, never stored (PROTOCOL.md §1)."""
    if item.status == "pending" and item.due_at > now:
        return "retrying" if item.attempts else "scheduled"
    return item.status


def encode_view(item: Item, now: int) -> bytes:
    """The view of PROTOCOL.md §3, the same for pushes and for `GET /<queue>/items/<id>`.

    A finished item must carry its `result` (`Turn.results`).
    """
    return orjson.dumps(
        {
            "type": "status",
            "id": item.id,
            "status": item.status,
            "postedBy": item.posted_by or None,
            "postedAt": item.posted_at,
            "updatedAt": item.updated_at,
            "finishedAt": item.finished_at or None,
            "attempts": item.attempts,
            "progress": json_or_null(item.progress),
            "result": json_or_null(item.result),
            "error": json_or_null(item.error),
            "rev": item.rev,
            "label": label(item, now),
            "dueAt": item.due_at,
            "startedAt": item.started_at or None,
            "worker": item.worker or None,
            "priority": -item.rank,
            "key": None,
            "failures": item.failures,
            "losses": item.losses,
            "maxAttempts": item.max_attempts,
            "expiresAt": item.expires_at or None,
            "meta": json_or_null(item.meta),
        }
    )


def encode_item(item: Item, lease_ms: int) -> bytes:
    """The `item` message: this item is yours, leased (PROTOCOL.md §4). Needs the item's `body`."""
    return orjson.dumps(
        {
            "type": "item",
            "id": item.id,
            "item": orjson.Fragment(item.body),
            "attempts": item.attempts,
            "leaseUntil": item.lease_until,
            "leaseMs": lease_ms,
            "progress": json_or_null(item.progress),
            "meta": json_or_null(item.meta),
        }
    )
