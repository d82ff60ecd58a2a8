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

    A finished item must carry its `result` (`Turn.read_results`).
    """
    # Written out: a view is made for every change of every item, and a dictionary for each costs twice as much.
    return (
        f'{{"type":"status","id":"{item.id}","status":"{item.status}",'
        f'"postedBy":{_quoted(item.posted_by) if item.posted_by else "null"},'
        f'"postedAt":{item.posted_at},"updatedAt":{item.updated_at},"finishedAt":{item.finished_at or "null"},'
        f'"attempts":{item.attempts},"progress":{item.progress or "null"},"result":{item.result or "null"},'
        f'"error":{item.error or "null"},"rev":{item.rev},"label":"{label(item, now)}","dueAt":{item.due_at},'
        f'"startedAt":{item.started_at or "null"},"worker":{_quoted(item.worker) if item.worker else "null"},'
        f'"priority":{-item.rank},"key":{_quoted(item.key) if item.key else "null"},'
        f'"failures":{item.failures},"losses":{item.losses},"maxAttempts":{item.max_attempts},'
        f'"expiresAt":{item.expires_at or "null"},"meta":{item.meta or "null"}}}'
    ).encode()


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


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
