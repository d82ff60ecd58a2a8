"""What a producer says of an item beside the item itself, as the body of a post (PROTOCOL.md §5), one or many.

Pure. When a post is sent, and again, is `unanswered.py`'s; who waits for its answer is `client.py`'s.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict

import orjson

from leaseway.errors import JsonObject, Rejected
from leaseway.protocol import Message, check_seconds, encode, is_number
from leaseway.shapes import to_json

if TYPE_CHECKING:  # Only type checkers know defaults of type variables before Python 3.13.
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Any)
else:
    from typing import TypeVar

    Item = TypeVar("Item")

AROUND: Final = 200
"""Bytes of a message that are left for what is around its bodies."""
LATEST: Final = 1e11
"""Seconds since the epoch, in the year 5138: what is later was meant as milliseconds."""


class Options(TypedDict, total=False):
    """What a post may say beside its item and its key; None is as if it were not said.

    `priority`: −100 … 100, the higher the sooner. `delay`, `ttl`: seconds. `due_at`: seconds since the epoch, as of
    `time.time()`, or a `datetime` with a time zone. `max_attempts`: 1 … 1,000. `meta`: an object of at most 2 kB.
    """

    priority: int | None
    delay: float | None
    due_at: float | datetime | None
    ttl: float | None
    max_attempts: int | None
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Post(Generic[Item]):
    """An item to post with what is said of it; see `Options` for what each means."""

    item: Item
    _: dataclasses.KW_ONLY
    key: str | None = None
    priority: int | None = None
    delay: float | None = None
    due_at: float | datetime | None = None
    ttl: float | None = None
    max_attempts: int | None = None
    meta: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, item: Item | Post[Item], key: str | None, options: Options) -> Post[Item]:
        """The item with these options; where it is a `Post` already, what that says comes first."""
        if not isinstance(item, Post):
            return Post(item, key=key, **options)
        said: dict[str, Any] = {"key": key, **options}
        more = {name: value for name, value in said.items() if getattr(item, name) is None}
        return dataclasses.replace(item, **more)

    def body(self) -> Message:
        """The body of the post. Raises `ValueError` for an option that means nothing, `Rejected` for the item."""
        if self.delay is not None and self.due_at is not None:
            raise ValueError("delay and due_at are both there; give one of them")
        if self.meta is not None and not isinstance(self.meta, Mapping):
            raise ValueError(f"meta is an object of at most 2 kB, and not {self.meta!r}")
        members = {
            "key": self.key,
            "priority": self.priority,
            "delayMs": _duration("delay", self.delay),
            "dueAt": _time("due_at", self.due_at),
            "ttlMs": _duration("ttl", self.ttl),
            "maxAttempts": self.max_attempts,
            "meta": None if self.meta is None else to_json(dict(self.meta)),
        }
        return {"item": to_json(self.item)} | {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Slice:
    """Posts that are said in one array, so in one transaction; `first` is the index of the first of them."""

    first: int
    bodies: list[orjson.Fragment]
    keyed: bool
    """Whether each has a key, so that the array may be said again."""

    def placed(self, error: Rejected) -> Rejected:
        """The server's refusal, with paths that begin with the index among all that is posted."""
        return Rejected(error.code, [_moved(fault, self.first) for fault in error.errors])


class _Filling:
    """A slice that is being filled."""

    def __init__(self, first: int) -> None:
        self.bodies: list[orjson.Fragment] = []
        self._first = first
        self._size = 0
        self._keyed = True

    def takes(self, body: bytes, most: int, most_bytes: int) -> bool:
        """Whether there is room for it; for one body there always is."""
        return not self.bodies or (len(self.bodies) < most and self._size + len(body) < most_bytes)

    def add(self, body: bytes, *, keyed: bool) -> None:
        """Puts it in, with a comma."""
        self.bodies.append(orjson.Fragment(body))
        self._size += len(body) + 1
        self._keyed = self._keyed and keyed

    def slice(self) -> Slice:
        """What there is by now."""
        return Slice(self._first, self.bodies, self._keyed)


async def slices(posts: AsyncIterable[Post[Any]], most: int, most_bytes: int) -> AsyncIterator[Slice]:
    """The posts in slices of at most so many, whose messages have at most so many bytes.

    Raises what a body raises, once all that came before it was given out.
    """
    index, filling = 0, _Filling(0)
    async for post in posts:
        try:
            body = _encoded(post, index, most_bytes - AROUND)
        except (Rejected, ValueError):
            if filling.bodies:
                yield filling.slice()
            raise
        if not filling.takes(body, most, most_bytes - AROUND):
            yield filling.slice()
            filling = _Filling(index)
        filling.add(body, keyed=post.key is not None)
        index += 1
    if filling.bodies:
        yield filling.slice()


async def posts_of(
    items: Iterable[Item | Post[Item]] | AsyncIterable[Item | Post[Item]],
    key: Callable[[Item], str] | None,
    options: Options,
) -> AsyncIterator[Post[Item]]:
    """All of them as posts; `key` makes the key of each that has none."""
    async for item in _each(items):
        post = Post.of(item, None, options)
        yield post if key is None or post.key is not None else dataclasses.replace(post, key=key(post.item))


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _encoded(post: Post[Any], index: int, most_bytes: int) -> bytes:
    try:
        return encode(post.body(), most_bytes)
    except Rejected as error:
        raise Rejected(error.code, [{**fault, "path": f"/{index}{fault['path']}"} for fault in error.errors]) from None
    except ValueError as error:
        raise ValueError(f"number {index}: {error}") from None


def _moved(fault: JsonObject, first: int) -> JsonObject:
    index, slash, rest = str(fault.get("path", "")).removeprefix("/").partition("/")
    return {**fault, "path": f"/{int(index) + first}{slash}{rest}"} if index.isdecimal() else fault


def _duration(name: str, seconds: float | None) -> int | None:
    """Milliseconds."""
    if seconds is None:
        return None
    check_seconds(name, seconds)
    return round(seconds * 1000)


def _time(name: str, at: float | datetime | None) -> int | None:
    """Milliseconds since the epoch."""
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{name} is a datetime without a time zone; datetime.now(timezone.utc) has one")
        at = at.timestamp()
    if at is not None and not is_number(at, LATEST):
        raise ValueError(f"{name} is seconds since the epoch, as of time.time(), and not {at!r}")
    return None if at is None else round(at * 1000)
