"""One monitor socket, without I/O: messages in give commands, outcomes and changes give messages out (PROTOCOL.md §3).

A slow reader costs its subscriptions and no more: what waits to be told is in `watch.py`, what is still to be read in
`first_views.py`.
"""

from dataclasses import replace
from typing import ClassVar, Final

from leaseway_server.core.access import may_cancel
from leaseway_server.core.cancels import NOT_ALLOWED, cancel_ack, parse_cancel
from leaseway_server.core.commands import Changed, Followed, Found, Outcome, Post, PostAll, Posted, PostedAll, Read
from leaseway_server.core.conversation import IDS_A_MESSAGE, Conversation, Exchange, frames
from leaseway_server.core.errors import BadMessage, LimitReached, NotAllowed, TooManyPosts
from leaseway_server.core.first_views import FirstViews
from leaseway_server.core.jsontext import Json
from leaseway_server.core.members import an_object, flag
from leaseway_server.core.model import Item
from leaseway_server.core.posting import check_number, parse_post, parse_posts
from leaseway_server.core.queue import Queue
from leaseway_server.core.watch import ALL, View, WatchList, view_of

POSTED_BYTES: Final = 80
"""What the answer to one post of an array takes, at most."""


class Lookout:
    """What a monitor's session has of the world: who tells it of changes, and the queue's figures.

    This one has nothing, as that of a socket that is gone.
    """

    def watch(self, item_id: str) -> None:
        """From now on changes of the item are offered."""

    def unwatch(self, item_id: str) -> None:
        """Ends `watch`."""

    def follow(self, poster: str) -> None:
        """From now on changes of this poster's items are offered; with `ALL` those of all."""

    def unfollow(self, poster: str) -> None:
        """Ends `follow`."""

    def show_stats(self) -> bytes:
        """The `stats` message; from now on it is offered when it changes."""
        return b""

    def hide_stats(self) -> None:
        """Ends `show_stats`."""


class MonitorSession(Conversation):
    """What one monitor's socket says and is told.

    `lookout` is told of this socket's interest before the first view is read: no change between the two is missed.
    """

    verbs: ClassVar[frozenset[str]] = frozenset(
        {"subscribe", "unsubscribe", "post", "cancel", "stats", "hello", "batch"}
    )

    def __init__(self, queue: Queue, user: str, rights: frozenset[str], lookout: Lookout) -> None:
        super().__init__(queue)
        self.watching = WatchList()
        self._user = user
        self._rights = rights
        self._lookout = lookout
        self._promised: dict[Exchange, tuple[int, ...]] = {}
        """Posts under way of which some are to be watched: which, by index."""
        self._room_promised = 0
        """How many those are in all."""
        self._first_views = FirstViews()
        self._stats = b""
        self._pushed_at = 0
        """When something went out that answers nothing."""
        self._waits_since = 0
        """When it was seen that something of this kind waits; 0 where nothing does."""

    def close(self) -> None:
        """The socket is gone: nobody watches here any more."""
        for item_id in self.watching:
            self._lookout.unwatch(item_id)
        for poster in self.watching.followed:
            self._lookout.unfollow(poster)
        self._lookout.hide_stats()
        self._lookout = Lookout()

    def offer(self, view: View) -> None:
        """The hub has a change of an item that this socket named."""
        if self._sees(view.posted_by):
            self.watching.offer(view)

    def end(self, item_id: str) -> bool:
        """An item that this socket named is gone. Gives whether its end was missed, as `WatchList.end` has it."""
        self._first_views.forget(item_id)
        return self.watching.end(item_id)

    def offer_stats(self, message: bytes) -> None:
        """The queue's figures are others now; only the newest wait to be told."""
        if self._may_see_stats():
            self._stats = message

    def weight(self) -> int:
        """How many bytes wait to be taken, views included."""
        return self._weight + self.watching.weight

    def _sees(self, posted_by: str) -> bool:
        return not self.queue.own_only or self.queue.shows(posted_by, self._user, self._rights)

    def _may_see_stats(self) -> bool:
        return not self.queue.own_only or "admin" in self._rights

    def take_with_views(self, now: int) -> tuple[list[bytes], list[View]]:
        """The frames to send now: direct answers, the newest views, the figures; and the views told to a producer.

        What answers nothing is among them only where the pace allows a push by now, ms since the epoch.
        """
        messages = self._take_messages()
        self._waits_since = self._waits_since or now
        if now < self.push_at:
            views = self.watching.take_asked()
            messages += [view.encoded for view in views]
        else:
            if self._pushing:
                self._pushed_at = now
            self._waits_since = 0
            views = self.watching.take()
            messages += [view.encoded for view in views] + ([self._stats] if self._stats else [])
            self._stats = b""
        told = [view for view in views if self.greeting.stamp and self.watching.for_producer(view)]
        return frames(messages, self.greeting.batch, self.queue.limits.message_bytes), told

    @property
    def push_at(self) -> int:
        """When what the pace holds back may go out, ms since the epoch; 0 where it holds nothing."""
        return self.greeting.push_at(self._pushed_at, self._waits_since) if self._pushing else 0

    def hurry(self) -> None:
        """What the pace holds back may go out at once: the socket will be closed."""
        self.greeting = replace(self.greeting, pace_ms=0, pace_offset_ms=None)

    @property
    def _pushing(self) -> bool:
        return self.watching.pushing or bool(self._stats)

    def _handle(self, verb: str, value: Json, exchange: Exchange, said: list[Exchange]) -> None:
        match verb:
            case "post":
                said.append(self._begin(self._post(value, exchange)))
            case "cancel":
                said += self._cancel(value, exchange)
            case "stats":
                self._show_stats(value, exchange)
            case "subscribe":
                self._subscribe(value)
                said += self.read_on(exchange)
            case _:
                self._unsubscribe(value)

    def _cancel(self, value: Json, exchange: Exchange) -> list[Exchange]:
        if "post" not in self._rights:
            raise NotAllowed("this token may watch here, but not cancel")
        if not isinstance(value, list):
            raise BadMessage("cancel must be an array of ids")
        return self._each(value, exchange, self.queue.limits.ids, self._cancel_one)

    def _cancel_one(self, value: Json, exchange: Exchange) -> None:
        exchange.command = parse_cancel(value, self._why_not_cancel)
        exchange.id = exchange.command.id

    def _why_not_cancel(self, item: Item) -> str:
        if not self._sees(item.posted_by):
            return "unknown"
        return "" if may_cancel(item.posted_by, self._user, self._rights) else NOT_ALLOWED

    def _show_stats(self, value: Json, exchange: Exchange) -> None:
        if not isinstance(value, bool):
            raise BadMessage("stats must be true or false")
        self._stats = b""
        if not value:
            self._lookout.hide_stats()
        elif self._may_see_stats():
            self._reply(exchange, self._lookout.show_stats())
        else:
            raise NotAllowed("here each sees only its own items; only an administrator is told how many there are")

    def _post(self, value: Json, exchange: Exchange) -> Exchange:
        if "post" not in self._rights:
            raise NotAllowed("this token may watch here, but not post")
        command: Post | PostAll
        if isinstance(value, list):
            self._check_answer(len(value))
            check_number(len(value), self.queue)
            self.heard += len(value) - 1
            command = PostAll(parse_posts(value, self.queue, self._user))
            watched = tuple(index for index, post in enumerate(value) if _subscribes(post, f"/{index}"))
        else:
            command = Post(parse_post(value, self.queue, self._user))
            watched = (0,) if _subscribes(value, "") else ()
        self._check_room(len(watched))
        if watched:
            self._promised[exchange] = watched
            self._room_promised += len(watched)
        exchange.command = command
        return exchange

    def _check_answer(self, posts: int) -> None:
        """No message of the server's is larger than a message may be (PROTOCOL.md §5)."""
        most = self.queue.limits.value_bytes // POSTED_BYTES
        if posts > most:
            raise TooManyPosts(f"the answer to more than {most} posts would be too large for a message")

    def _subscribe(self, value: Json) -> None:
        if isinstance(value, dict):
            self._follow(self._poster(value, "subscribe"))
        else:
            self._name(_ids(value, "subscribe", self.queue))

    def _unsubscribe(self, value: Json) -> None:
        if isinstance(value, dict):
            poster = self._poster(value, "unsubscribe")
            self.watching.unfollow(poster)
            self._first_views.unfollow(poster)
            self._lookout.unfollow(poster)
        else:
            for item_id in _ids(value, "unsubscribe", self.queue):
                self._forget(item_id)

    def _name(self, ids: tuple[str, ...]) -> None:
        self._check_room(sum(item_id not in self.watching for item_id in ids))
        self.heard += len(ids) // IDS_A_MESSAGE
        for item_id in ids:
            self._start(item_id)
        self._first_views.name(ids)

    def _follow(self, poster: str) -> None:
        self.watching.follow(poster)
        self._lookout.follow(poster)
        self._first_views.follow(poster)

    def _poster(self, value: Json, verb: str) -> str:
        """Whose items `{"mine": true}` and `{"all": true}` mean."""
        match value:
            case {"mine": True, **more} if not more:
                if not self._user:
                    raise NotAllowed("without a token there is nobody whose items these could be", path="/mine")
                return self._user
            case {"all": True, **more} if not more:
                if "admin" not in self._rights:
                    raise NotAllowed("only an administrator may watch all items", path="/all")
                return ALL
        raise _no_subscription(verb)

    def read_on(self, exchange: Exchange | None = None) -> list[Exchange]:
        """What is to be submitted next of the first views. `exchange` is the `subscribe` that asks."""
        command = self._first_views.next()
        if command is None:
            return []
        exchange = exchange or Exchange("subscribe")
        exchange.command, exchange.ordered = command, False
        return [exchange]

    def _check_room(self, more: int) -> None:
        limit = self.queue.limits.subscriptions
        if more and len(self.watching) + self._room_promised + more > limit:
            raise LimitReached(f"a socket watches at most {limit} items")

    def _start(self, item_id: str) -> None:
        self.watching.add(item_id)
        self._lookout.watch(item_id)

    def _forget(self, item_id: str) -> None:
        self.watching.discard(item_id)
        self._first_views.forget(item_id)
        self._lookout.unwatch(item_id)

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Takes an outcome of the exchange's command."""
        promised = self._promised.pop(exchange, ())
        self._room_promised -= len(promised)
        self._first_views.answered(exchange.command, outcome)
        super().settle(exchange, outcome)
        if promised and isinstance(outcome, Posted | PostedAll):  # `posted` comes before its first `status`.
            posted = outcome.items if isinstance(outcome, PostedAll) else (outcome,)
            for index in promised:
                self._watch_posted(posted[index])

    def _watch_posted(self, posted: Posted) -> None:
        """What is new is told with this very commit; what was there before has to be read, unless it is watched."""
        item_id = posted.item.id
        if posted.duplicate and item_id not in self.watching:
            self._first_views.name((item_id,))
        self._start(item_id)

    def _answer(self, exchange: Exchange, outcome: Outcome) -> None:
        match outcome:
            case Posted():
                self._say(exchange, {"type": "posted", **_posted(outcome)})
            case PostedAll(posted):
                self._say(exchange, {"type": "posted", "items": [_posted(each) for each in posted]})
            case Changed():
                self._say(exchange, cancel_ack(exchange.id or "", outcome))
            case Followed(items, now):
                for item in items:  # Its own, or an administrator's: all of them are there for it.
                    self.watching.answer(view_of(item, now), again=True)
            case _:
                assert isinstance(outcome, Found)
                assert isinstance(exchange.command, Read)
                self._show(exchange.command.ids, outcome)

    def _show(self, ids: tuple[str, ...], found: Found) -> None:
        for item_id in ids:
            item = found.items.get(item_id)
            if item_id in found.left:
                continue
            if item is None or not self._sees(item.posted_by):
                self._forget(item_id)  # Unknown ids are ignored, and cost nothing.
            elif item_id in self.watching:
                self.watching.answer(view_of(item, found.now))


def _subscribes(post: Json, path: str) -> bool:
    try:
        return flag(an_object(post, "post"), "subscribe", default=False)
    except BadMessage as refused:
        raise refused.within(path) from None


def _posted(posted: Posted) -> dict[str, object]:
    return {"id": posted.item.id, "status": posted.item.status, "duplicate": posted.duplicate}


def _ids(value: Json, verb: str, queue: Queue) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _no_subscription(verb)
    if len(value) > queue.limits.ids:
        raise LimitReached(f"a message names at most {queue.limits.ids} ids, and here are {len(value)}")
    return tuple(dict.fromkeys(item_id for item_id in value if isinstance(item_id, str)))


def _no_subscription(verb: str) -> BadMessage:
    return BadMessage(f'{verb} takes an array of ids, or {{"mine": true}}, or {{"all": true}}')
