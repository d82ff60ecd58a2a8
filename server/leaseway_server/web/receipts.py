"""What the peer of a WebSocket has proved to have: what was written before a ping that it answered (RFC 6455 §5.5.3).

That a write succeeded proves nothing: it may lie in a buffer of a connection that is dead. Nor does a message of the
peer, which may have been said before.
"""

from collections.abc import Callable
from typing import TypeAlias

Told: TypeAlias = Callable[[], None]


class Receipts:
    """Who is to be told of the receipt of what was written, by the ping that was sent after it."""

    def __init__(self) -> None:
        self._unasked: list[Told] = []
        self._asked: dict[bytes, list[Told]] = {}
        """By payload, in the order of the pings."""

    @property
    def due(self) -> bool:
        """Whether a ping is to be sent: something was written since the last one, and none is under way."""
        return bool(self._unasked) and not self._asked

    def want(self, told: Told) -> None:
        """`told` is to be called once the peer has all that was written so far."""
        self._unasked.append(told)

    def asked(self, payload: bytes) -> None:
        """A ping was sent. A peer may answer the last of several only, so that it counts for those before, too."""
        if self._unasked or self._asked:
            self._asked[payload] = self._unasked
            self._unasked = []

    def answered(self, payload: bytes) -> list[Told]:
        """A pong came. Gives who is to be told, in the order of the writes; nobody where no ping was like that."""
        told: list[Told] = []
        if payload in self._asked:
            for sent in list(self._asked):
                told += self._asked.pop(sent)
                if sent == payload:
                    break
        return told

    def clear(self) -> None:
        """The connection is over: of what was not proved nobody is told."""
        self._unasked.clear()
        self._asked.clear()
