"""One monitor socket, without I/O: what it watches, and what it has still to be told (PROTOCOL.md §3).

A slow reader costs its subscriptions and no more: of each item only the newest view waits. Who watches what over all
sockets is the hub's.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from leaseway_server.core.commands import Found, Outcome, Post, PostAll, Posted, PostedAll, Read
from leaseway_server.core.conversation import IDS_A_MESSAGE, Conversation, Exchange, frames
from leaseway_server.core.errors import BadMessage, LimitReached, NotAllowed, TooManyPosts
from leaseway_server.core.jsontext import Json
from leaseway_server.core.members import an_object, flag
from leaseway_server.core.model import Item
from leaseway_server.core.posting import parse_post, parse_posts
from leaseway_server.core.queue import Queue
from leaseway_server.core.view import encode_view

POSTED_BYTES: Final = 80
"""What the answer to one post of an array takes, at most."""
READ_AT_ONCE: Final = 500
"""Of so many ids the first views are read at a time."""


@dataclass(slots=True)
class View:
    """An encoded view; encoded once however many watch it. `unfetched`: it is an end that no producer was told yet."""

    id: str
    posted_by: str
    rev: int
    encoded: bytes
    terminal: bool
    unfetched: bool


class WatchList:
    """The subscriptions of one socket, and what it has still to be told."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._pending: dict[str, View] = {}
        self.weight = 0
        """How many bytes wait to be told."""

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._newest

    def __iter__(self) -> Iterator[str]:
        return iter(self._newest)

    @property
    def pending(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._pending)

    def add(self, item_id: str) -> None:
        """Watches the item, from the next view on that it is offered."""
        self._newest.setdefault(item_id, 0)

    def discard(self, item_id: str) -> None:
        """Stops watching it; what was not told is not told any more."""
        self._newest.pop(item_id, None)
        self._drop(item_id)

    def end(self, item_id: str) -> None:
        """The item is gone. What was not told of it still is."""
        self._newest.pop(item_id, None)

    def offer(self, view: View) -> None:
        """A change of an item: told unless this or a newer view was offered before."""
        if view.rev > self._newest.get(view.id, view.rev):
            self._hold(view)

    def answer(self, view: View) -> None:
        """The immediate view of a new subscription: told, unless a newer one was offered before."""
        if view.rev >= self._newest.get(view.id, view.rev + 1):
            self._hold(view)

    def take(self) -> list[View]:
        """What is to be told now, oldest change first."""
        views = list(self._pending.values())
        self._pending.clear()
        self.weight = 0
        return views

    def _hold(self, view: View) -> None:
        self._newest[view.id] = view.rev
        self._drop(view.id)
        self._pending[view.id] = view
        self.weight += len(view.encoded)

    def _drop(self, item_id: str) -> None:
        held = self._pending.pop(item_id, None)
        if held is not None:
            self.weight -= len(held.encoded)


class MonitorSession(Conversation):
    """What one monitor's socket says and is told.

    `watch` and `unwatch` tell the hub of this socket's interest, before the first view is read: no change between the
    two is missed.
    """

    verbs: ClassVar[frozenset[str]] = frozenset({"subscribe", "unsubscribe", "post", "hello", "batch"})

    def __init__(
        self,
        queue: Queue,
        user: str,
        rights: frozenset[str],
        *,
        watch: Callable[[str], None],
        unwatch: Callable[[str], None],
    ) -> None:
        super().__init__(queue)
        self.watching = WatchList()
        self._user = user
        self._rights = rights
        self._watch = watch
        self._unwatch = unwatch
        self._promised: dict[Exchange, tuple[int, ...]] = {}
        """Posts under way of which some are to be watched: which, by index."""
        self._unread: deque[str] = deque()
        self._reading = False

    def close(self) -> None:
        """The socket is gone: nobody watches here any more."""
        for item_id in self.watching:
            self._unwatch(item_id)
        self._watch = self._unwatch = _nobody

    def offer(self, view: View) -> None:
        """The hub has a change of an item that this socket named."""
        if self._sees(view.posted_by):
            self.watching.offer(view)

    def end(self, item_id: str) -> None:
        """An item that this socket named is gone."""
        self.watching.end(item_id)

    def weight(self) -> int:
        """How many bytes wait to be taken, views included."""
        return self._weight + self.watching.weight

    def _sees(self, posted_by: str) -> bool:
        return self.queue.shows(posted_by, self._user, self._rights)

    def take_with_views(self) -> tuple[list[bytes], list[View]]:
        """The frames to send now: direct answers, then the newest views; and the views that are among them."""
        messages = self._take_messages()
        views = self.watching.take()
        messages.extend(view.encoded for view in views)
        return frames(messages, self.batches, self.queue.limits.message_bytes), views

    def _handle(self, verb: str, value: Json, exchange: Exchange, said: list[Exchange]) -> None:
        if verb == "post":
            said.append(self._begin(self._post(value, exchange)))
        elif verb == "subscribe":
            self._subscribe(_ids(value, verb, self.queue))
            said += self.read_on(exchange)
        else:
            for item_id in _ids(value, verb, self.queue):
                self._forget(item_id)

    def _post(self, value: Json, exchange: Exchange) -> Exchange:
        if "post" not in self._rights:
            raise NotAllowed("this token may watch here, but not post")
        command: Post | PostAll
        if isinstance(value, list):
            self.heard += max(0, len(value) - 1)
            self._check_answer(len(value))
            command = PostAll(parse_posts(value, self.queue, self._user))
            watched = tuple(index for index, post in enumerate(value) if _subscribes(post, f"/{index}"))
        else:
            command = Post(parse_post(value, self.queue, self._user))
            watched = (0,) if _subscribes(value, "") else ()
        self._check_room(len(watched))
        if watched:
            self._promised[exchange] = watched
        exchange.command = command
        return exchange

    def _check_answer(self, posts: int) -> None:
        """No message of the server's is larger than a message may be (PROTOCOL.md §5)."""
        most = self.queue.limits.value_bytes // POSTED_BYTES
        if posts > most:
            raise TooManyPosts(f"the answer to more than {most} posts would be too large for a message")

    def _subscribe(self, ids: tuple[str, ...]) -> None:
        self.heard += len(ids) // IDS_A_MESSAGE
        self._check_room(sum(item_id not in self.watching for item_id in ids))
        for item_id in ids:
            self._start(item_id)
        self._unread.extend(ids)

    def read_on(self, exchange: Exchange | None = None) -> list[Exchange]:
        """What is to be submitted next of the first views: a part at a time, and the next when that one was sent.

        So a reader costs what it takes at a time, however much it asked for. `exchange` is the `subscribe` that asks.
        """
        if self._reading or not self._unread:
            return []
        self._reading = True
        ids = tuple(self._unread.popleft() for _ in range(min(READ_AT_ONCE, len(self._unread))))
        exchange = exchange or Exchange("subscribe")
        exchange.command, exchange.ordered = Read(ids), False
        return [exchange]

    def _check_room(self, more: int) -> None:
        limit = self.queue.limits.subscriptions
        if more and len(self.watching) + sum(map(len, self._promised.values())) + more > limit:
            raise LimitReached(f"a socket watches at most {limit} items")

    def _start(self, item_id: str) -> None:
        self.watching.add(item_id)
        self._watch(item_id)

    def _forget(self, item_id: str) -> None:
        self.watching.discard(item_id)
        self._unwatch(item_id)

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Takes an outcome of the exchange's command."""
        promised = self._promised.pop(exchange, ())
        self._reading = self._reading and not isinstance(exchange.command, Read)
        super().settle(exchange, outcome)
        if promised and isinstance(outcome, Posted | PostedAll):  # `posted` comes before its first `status`.
            posted = outcome.items if isinstance(outcome, PostedAll) else (outcome,)
            for index in promised:
                self._watch_posted(posted[index])

    def _watch_posted(self, posted: Posted) -> None:
        """What is new is told with this very commit; what was there before has to be read, unless it is watched."""
        item_id = posted.item.id
        if posted.duplicate and item_id not in self.watching:
            self._unread.append(item_id)
        self._start(item_id)

    def _answer(self, exchange: Exchange, outcome: Outcome) -> None:
        if isinstance(outcome, Posted):
            self._say(exchange, {"type": "posted", **_posted(outcome)})
        elif isinstance(outcome, PostedAll):
            self._say(exchange, {"type": "posted", "items": [_posted(each) for each in outcome.items]})
        else:
            assert isinstance(outcome, Found)
            assert isinstance(exchange.command, Read)
            self._show(exchange.command.ids, outcome)

    def _show(self, ids: tuple[str, ...], found: Found) -> None:
        self._unread.extendleft(reversed(found.left))
        for item_id in ids:
            item = found.items.get(item_id)
            if item_id in found.left:
                continue
            if item is None or not self._sees(item.posted_by):
                self._forget(item_id)  # Unknown ids are ignored, and cost nothing.
            elif item_id in self.watching:
                self.watching.answer(view_of(item, found.now))


def _nobody(_item_id: str) -> None:
    """Watches nothing."""


def view_of(item: Item, now: int) -> View:
    """The item's view at `now`, encoded."""
    return View(
        item.id, item.posted_by, item.rev, encode_view(item, now), item.terminal, item.terminal and not item.fetched_at
    )


def _subscribes(post: Json, path: str) -> bool:
    try:
        return flag(an_object(post, "post"), "subscribe", default=False)
    except BadMessage as refused:
        raise refused.within(path) from None


def _posted(posted: Posted) -> dict[str, object]:
    return {"id": posted.item.id, "status": posted.item.status, "duplicate": posted.duplicate}


def _ids(value: Json, verb: str, queue: Queue) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadMessage(f"{verb} must be an array of ids")
    if len(value) > queue.limits.ids:
        raise LimitReached(f"a message names at most {queue.limits.ids} ids, and here are {len(value)}")
    return tuple(dict.fromkeys(item_id for item_id in value if isinstance(item_id, str)))
