"""`cancel` on the monitor socket (PROTOCOL.md §3, plus): from ids to commands, and its answers."""

from collections.abc import Callable

from leaseway_server.core.commands import Change, Changed
from leaseway_server.core.errors import BadMessage
from leaseway_server.core.events import Cancel
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item

NOT_ALLOWED = "not-allowed"


def parse_cancel(value: Json, guard: Callable[[Item], str]) -> Change:
    """One member of a `cancel`. Raises `BadMessage`; whether there is such an item is not decided here."""
    if not isinstance(value, str):
        raise BadMessage("cancel takes ids, which are texts")
    return Change(value, Cancel(), guard)


def cancel_ack(item_id: str, changed: Changed) -> dict[str, object]:
    """The answer for one item; accepted also where it is cancelled already."""
    status = changed.item.status if changed.item else None
    accepted = changed.accepted or (changed.reason == "terminal" and status == "cancelled")
    message: dict[str, object] = {"type": "cancel-ack", "id": item_id, "accepted": accepted, "status": status}
    if not accepted:
        message["reason"] = changed.reason
    return message
