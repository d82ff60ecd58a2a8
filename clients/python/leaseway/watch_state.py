"""One monitor socket without I/O: posts and watched items, over as many sockets as it takes.

Messages go in; messages to send and events come out (PROTOCOL.md §3). Who waits for an item, and how, is
`client.py`'s business.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from leaseway.errors import Rejected
from leaseway.pending_posts import PendingPost, PendingPosts
from leaseway.protocol import CLIENT, DEFAULT_MAX_BYTES, Mailbox, Message, View, encode, flatten, rejected

logger = logging.getLogger("leaseway")

ITEM_ID = re.compile("[0-9a-f]{16}")
#: Seconds in which a live server tells the state of a subscribed item, or there is no such item.
ANSWER_WITHIN = 30.0
#: Ids in one `subscribe`; the server takes 10,000 (§3).
SUBSCRIBE_IDS = 1_000
#: How many posted items are watched from the start, so that a producer that only posts stays far below the
#: server's limit of subscriptions. The others are subscribed when somebody watches them.
WATCH_POSTS_UP_TO = 1_000


@dataclass(eq=False, slots=True, weakref_slot=True)
class Watched:
    """One item and the newest state seen of it. It outlives its subscription: the end is kept."""

    id: str
    view: View | None = None
    #: The ref of the latest `subscribe` that named it; 0 before the first.
    ref: int = 0

    @property
    def ended(self) -> bool:
        """Whether its terminal state was seen."""
        return self.view is not None and self.view.ended


@dataclass(frozen=True, slots=True)
class Online:
    """A socket stands."""


@dataclass(frozen=True, slots=True)
class Offline:
    """The socket is gone."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An item that was posted; `duplicate` where its key was known, so that nothing new was posted."""

    watched: Watched
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Posted:
    """A post was committed; of an array all items, in order."""

    ref: int
    items: list[Accepted]


@dataclass(frozen=True, slots=True)
class PostRefused:
    """A post was refused; nothing was stored."""

    ref: int
    error: Rejected


@dataclass(frozen=True, slots=True)
class PostLost:
    """The socket dropped after a post was sent and before it was answered."""

    ref: int


@dataclass(frozen=True, slots=True)
class Changed:
    """There is a newer view of an item."""

    watched: Watched


@dataclass(frozen=True, slots=True)
class NotWatched:
    """An item cannot be watched: refused by the server, or (`error` is None) unknown to it."""

    watched: Watched
    error: Rejected | None


Event = Online | Offline | Posted | PostRefused | PostLost | Changed | NotWatched


class WatchState(Mailbox[Event]):
    """What one client has posted and watches."""

    urgent = False

    def __init__(self) -> None:
        super().__init__()
        self._refs = itertools.count(1)
        #: The largest message that the server reads.
        self.max_bytes = DEFAULT_MAX_BYTES
        self.online = False
        #: Those that are subscribed; and all that somebody holds, so that one item is one object.
        self._watched: dict[str, Watched] = {}
        self._known: WeakValueDictionary[str, Watched] = WeakValueDictionary()
        self._asked: dict[str, float] = {}
        self._posts = PendingPosts()

    # What the connection asks and tells

    @property
    def deadline(self) -> float:
        """When the oldest question for a state is overdue."""
        return next(iter(self._asked.values()), math.inf) + ANSWER_WITHIN

    def hello(self) -> bytes:
        """Asks for the server's limits, and for what it says at one moment as one message."""
        return encode({"hello": {"client": CLIENT, "batch": True}})

    def opened(self, hello: Message, now: float) -> None:
        """Subscribes anew, which brings the newest state of each (§3)."""
        self.online = True
        self.max_bytes = hello["maxMessageBytes"]
        self.events.append(Online())
        self._subscribe(list(self._watched.values()), now)

    def lost(self) -> None:
        """What was posted without a key and not answered is unknown: it must not be posted again blindly."""
        self.online = False
        self.outgoing.clear()
        self._asked.clear()
        self.events.append(Offline())
        self.events += [PostLost(ref) for ref in self._posts.lost()]

    def next_message(self) -> bytes | None:
        """What to send next, or None; a post that was handed out counts as sent."""
        return self.outgoing.popleft() if self.outgoing else self._posts.next_message()

    def tick(self, now: float) -> None:
        """Gives up the items of which a live server told nothing."""
        while self._asked and self.deadline <= now:
            self._give_up(self._watched[next(iter(self._asked))], None)

    def received(self, message: Message, now: float) -> None:
        """Takes one message of the server."""
        for one in flatten(message):
            match one.get("type"):
                case "posted":
                    self._on_posted(one, now)
                case "status":
                    self._on_status(one)
                case "error":
                    self._on_error(one)
                case other:
                    logger.debug("a message of type %r was ignored", other)

    # What the client says

    def post(self, body: Message) -> int:
        """Says a post and gives its ref. Raises `Rejected` for what cannot be sent."""
        watch = len(self._watched) + self._posts.watching < WATCH_POSTS_UP_TO
        return self._post(body | {"subscribe": True} if watch else body, repeatable="key" in body, watch=watch)

    def post_all(self, bodies: Sequence[object], *, repeatable: bool) -> int:
        """Says an array of posts and gives its ref; its items are watched when somebody does. Raises as `post`."""
        return self._post(bodies, repeatable=repeatable, watch=False)

    def forget_post(self, ref: int) -> bool:
        """Nobody waits for this post any more. True if it was never sent, so that nothing was posted."""
        post = self._posts.pop(ref)
        return post is not None and not post.ever_sent

    def item(self, item_id: str) -> Watched:
        """The one `Watched` of an item that has not ended. Raises `ValueError` for what is no id."""
        if not ITEM_ID.fullmatch(item_id):
            raise ValueError("an id is 16 lower-case hex digits")
        known = self._known.get(item_id)
        if known is None or known.ended:  # An administrator may have retried it since.
            known = self._known[item_id] = Watched(item_id)
        return known

    def watch(self, items: Iterable[Watched], now: float) -> None:
        """Subscribes to those that are not watched yet and have not ended."""
        new = [watched for watched in items if watched.id not in self._watched and not watched.ended]
        self._watched.update((watched.id, watched) for watched in new)
        if self.online:
            self._subscribe(new, now)

    def unwatch(self, watched: Watched) -> None:
        """Ends the subscription of an item, if it has one."""
        if self._watched.get(watched.id) is watched:
            del self._watched[watched.id]
            self._asked.pop(watched.id, None)
            self._unsubscribe([watched.id])

    def seen(self, watched: Watched, view: View) -> None:
        """Somebody saw this state of the item, on this socket or another way."""
        if watched.view is not None and _stale(view, watched.view):
            return
        watched.view = view
        if view.ended:
            self.unwatch(watched)
        self.events.append(Changed(watched))

    # What the server said

    def _on_posted(self, message: Message, now: float) -> None:
        post = self._posts.pop(message["ref"])
        items = message.get("items", [message])
        if post is None:  # Nobody waits for it any more.
            self._unsubscribe([one["id"] for one in items])
            return
        accepted = [Accepted(self.item(one["id"]), one["duplicate"]) for one in items]
        if post.watch:
            self._watched_from_now(accepted[0], now)
        self.events.append(Posted(message["ref"], accepted))

    def _watched_from_now(self, accepted: Accepted, now: float) -> None:
        """The post subscribed to it. One that was there before may have been unsubscribed while the post was on its
        way, and then its state would not be told: it is asked for again.
        """
        watched = accepted.watched
        if accepted.duplicate:
            self.watch([watched], now)
        elif watched.id not in self._watched:
            self._watched[watched.id] = watched
            self._asked[watched.id] = now

    def _on_status(self, message: Message) -> None:
        watched = self._watched.get(message["id"])
        if watched is None:  # It was on its way while the subscription ended.
            return
        self._asked.pop(watched.id, None)
        self.seen(watched, View.of(message))

    def _on_error(self, message: Message) -> None:
        ref, error = message.get("ref", 0), rejected(message)
        if self._posts.pop(ref) is not None:
            self.events.append(PostRefused(ref, error))
            return
        refused = [watched for watched in self._watched.values() if watched.ref == ref != 0]
        if not refused:
            logger.error("the server refused a message: %s", error.code)
            return
        for watched in refused:
            self._give_up(watched, error)

    # The parts

    def _post(self, value: object, *, repeatable: bool, watch: bool) -> int:
        ref = next(self._refs)
        self._posts.add(ref, PendingPost(encode({"post": value, "ref": ref}, self.max_bytes), repeatable, watch))
        return ref

    def _give_up(self, watched: Watched, error: Rejected | None) -> None:
        del self._watched[watched.id]
        self._asked.pop(watched.id, None)
        self.events.append(NotWatched(watched, error))

    def _subscribe(self, new: list[Watched], now: float) -> None:
        for start in range(0, len(new), SUBSCRIBE_IDS):
            ref, some = next(self._refs), new[start : start + SUBSCRIBE_IDS]
            self.outgoing.append(encode({"subscribe": [watched.id for watched in some], "ref": ref}))
            for watched in some:
                watched.ref = ref
                self._asked[watched.id] = now

    def _unsubscribe(self, ids: list[str]) -> None:
        if self.online:
            self.outgoing.append(encode({"unsubscribe": ids}))


def _stale(view: View, seen: View) -> bool:
    """Whether a view tells nothing newer; without a `rev` each one counts as news."""
    return view.rev is not None and seen.rev is not None and view.rev <= seen.rev
