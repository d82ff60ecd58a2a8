"""The mark that a move of the store leaves on each queue at both ends, so that no server serves the wrong one. No I/O.

While it lasts, the queue is `leaving` where it comes from and `filling` where it goes to: neither is served. Then it
has `left`, and is `filled`: that mark goes with the first start of a server there.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import orjson

from leaseway_server.core.errors import StoreRefused

State: TypeAlias = Literal["leaving", "left", "filling", "filled"]

_WHY: Final = {
    "leaving": "is being moved to {other} since {at}, and that did not end; run the same `leaseway move` again and let "
    "the server use the store there, or take it back by `leaseway move --undo` and start this server again",
    "left": "was moved to {other} at {at}, and what is there now is newer; let the server use the store there "
    "(docs/moving.md says how to go back)",
    "filling": "is being filled from {other} since {at}, and that did not end: not all is here; run the same "
    "`leaseway move` again, or take it back by `leaseway move --undo`",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """`id` is the move's, `other` its other end in words, without a password; `at` in ms since the epoch."""

    state: State
    id: str
    other: str
    at: int

    @property
    def text(self) -> str:
        """As it is stored."""
        return orjson.dumps(self).decode()

    @property
    def when(self) -> str:
        """For people."""
        return datetime.fromtimestamp(self.at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def why(self) -> str:
        """Why what bears it is not to be served; "" where it may be."""
        return _WHY.get(self.state, "").format(other=self.other, at=self.when)


def read_mark(text: str) -> Mark | None:
    """What is stored; "" is no mark."""
    return Mark(**orjson.loads(text)) if text else None


def refuse_moved(text: str, what: str) -> None:
    """Raises `StoreRefused` where what bears this mark is not to be used; `what` names it."""
    mark = read_mark(text)
    if mark and mark.why:
        raise StoreRefused(f"{what} {mark.why}")
