"""The posts of one client that have no answer yet: which are still to be sent, and which a lost socket leaves unknown.

Pure. A post whose items all have keys is sent again on the next socket, since the server knows it again (PROTOCOL.md
§5); another one must not be said twice blindly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class PendingPost:
    """A post, of one item or of an array."""

    data: bytes
    repeatable: bool
    watch: bool
    #: On the socket that stands; and on any.
    sent: bool = False
    ever_sent: bool = False


class PendingPosts:
    """All of them, by ref, and the order in which they are to be sent."""

    def __init__(self) -> None:
        self._posts: dict[int, PendingPost] = {}
        self._unsent: deque[int] = deque()
        #: How many of them asked to be watched from the start.
        self.watching = 0

    def add(self, ref: int, post: PendingPost) -> None:
        """This is to be sent after the others."""
        self._posts[ref] = post
        self._unsent.append(ref)
        self.watching += post.watch

    def pop(self, ref: int) -> PendingPost | None:
        """It was answered, or nobody waits for it any more; None where there is none such."""
        post = self._posts.pop(ref, None)
        if post is not None:
            self.watching -= post.watch
        return post

    def next_message(self) -> bytes | None:
        """What to send next, or None. What was handed out counts as sent."""
        while self._unsent:
            post = self._posts.get(self._unsent.popleft())
            if post is not None:
                post.sent = post.ever_sent = True
                return post.data
        return None

    def lost(self) -> list[int]:
        """The socket is gone: those that are unknown for good, and forgotten. The others are sent again, first."""
        sent = [ref for ref, post in self._posts.items() if post.sent]
        unknown = [ref for ref in sent if not self._posts[ref].repeatable]
        for ref in unknown:
            self.pop(ref)
        again = [ref for ref in sent if ref in self._posts]
        for ref in again:
            self._posts[ref].sent = False
        self._unsent.extendleft(reversed(again))
        return unknown
