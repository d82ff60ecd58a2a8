"""The body of a post, from JSON to a `NewItem`, the same over HTTP and on the monitor socket (PROTOCOL.md §5)."""

from typing import Final

from leaseway_server.core.errors import BadMessage, Refused, TooManyPosts
from leaseway_server.core.events import Adjust
from leaseway_server.core.jsontext import Json
from leaseway_server.core.match import texts_of
from leaseway_server.core.members import Members, an_object, integer, name_of, required
from leaseway_server.core.model import NewItem
from leaseway_server.core.queue import META_LIMIT, Queue, check_in

PRIORITY: Final = 100
_OPTIONS: Final = frozenset({"key", "priority", "delayMs", "dueAt", "ttlMs", "maxAttempts", "meta"})
_FIXED: Final = ("item", "key", "delayMs", "ttlMs", "maxAttempts", "meta")
"""What a post says for good."""


def parse_post(value: Json, queue: Queue, user: str) -> NewItem:
    """What the body of a post asks for. Raises `BadMessage`, `SchemaMismatch`, `TooLarge` or `BadJson`."""
    body = an_object(value, "the body of a post")
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
        key=name_of(body, "key"),
        match=match,
    )


def parse_posts(values: list[Json], queue: Queue, user: str) -> tuple[NewItem, ...]:
    """What an array of such bodies asks for. Raises as `parse_post`, with paths that begin with the index."""
    check_number(len(values), queue)
    return tuple(parse_one_of(index, value, queue, user) for index, value in enumerate(values))


def parse_one_of(index: int, value: Json, queue: Queue, user: str) -> NewItem:
    """One body of an array, at this index. Raises as `parse_post`."""
    try:
        return parse_post(value, queue, user)
    except Refused as refused:
        raise refused.within(f"/{index}") from None


def check_number(posts: int, queue: Queue) -> None:
    """Raises `BadMessage` or `TooManyPosts` where an array has so many posts."""
    if not posts:
        raise BadMessage("an array of posts must have at least one")
    if posts > queue.limits.bulk_items:
        raise TooManyPosts(f"at most {queue.limits.bulk_items} items are posted at once, and here are {posts}")


def parse_adjust(value: Json) -> Adjust:
    """What the body of a PATCH asks for. Raises `BadMessage`."""
    body = an_object(value, "the body of a PATCH")
    for name in _FIXED:
        if name in body:
            raise BadMessage(f"{name} cannot be changed; priority and dueAt can", path=f"/{name}")
    adjust = Adjust(integer(body, "priority", least=-PRIORITY, most=PRIORITY), integer(body, "dueAt"))
    if adjust == Adjust():
        raise BadMessage("nothing is to be changed: priority or dueAt is missing")
    return adjust


def _meta(body: Members) -> str:
    if "meta" not in body:
        return ""
    an_object(body["meta"], "meta", "/meta")
    return check_in(body["meta"], None, META_LIMIT, "meta", "/meta")
