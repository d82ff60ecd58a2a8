"""The body of a post, from JSON to a `NewItem`, the same over HTTP and on the monitor socket (PROTOCOL.md §5)."""

from typing import Final

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.match import texts_of
from leaseway_server.core.members import Members, an_object, integer, required
from leaseway_server.core.model import NewItem
from leaseway_server.core.queue import META_LIMIT, Queue, check_in

PRIORITY: Final = 100
_OPTIONS: Final = frozenset({"priority", "delayMs", "dueAt", "ttlMs", "maxAttempts", "meta"})


def parse_post(value: Json, queue: Queue, user: str) -> NewItem:
    """What the body of a post asks for. Raises `BadMessage`, `SchemaMismatch`, `TooLarge` or `BadJson`."""
    body = an_object(value, "the body of a post")
    if "key" in body:
        raise BadMessage("keys are not supported by this version of the server; post without one", path="/key")
    if "delayMs" in body and "dueAt" in body:
        raise BadMessage("delayMs and dueAt are both there; give one of them", path="/dueAt")
    item = check_in(required(body, "item"), queue.schemas.item, queue.limits.value_bytes, "the item", "/item")
    match = texts_of(body["item"], queue.match) if queue.match else ()
    if _OPTIONS.isdisjoint(body):
        return NewItem(item, user, match=match)
    return NewItem(
        body=item,
        posted_by=user,
        priority=integer(body, "priority", least=-PRIORITY, most=PRIORITY) or 0,
        delay_ms=integer(body, "delayMs") or 0,
        due_at=integer(body, "dueAt") or 0,
        ttl_ms=integer(body, "ttlMs"),
        max_attempts=integer(body, "maxAttempts", least=1, most=1_000) or 0,
        meta=_meta(body),
        match=match,
    )


def _meta(body: Members) -> str:
    if "meta" not in body:
        return ""
    an_object(body["meta"], "meta", "/meta")
    return check_in(body["meta"], None, META_LIMIT, "meta", "/meta")
