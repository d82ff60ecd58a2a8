"""Which sockets are whose: each start of a server is an epoch, a part of the numbers of its sockets.

An epoch is this server's own, or that of another server which is alive, or it is gone, with all its sockets: what those
hold may be resumed until the grace is over. Where one process serves the queue, all that are not its own are gone. All
times are ms since the epoch of Unix.
"""

from collections.abc import Collection
from typing import Final

from leaseway_server.core.model import HTTP, Item

BITS: Final = 32
"""The sockets of one start are numbered with so many."""


class Epochs:
    """What is known of the epochs of one server's queues. `own` began at `at`, and found no other server `alive`."""

    def __init__(self, own: int, at: int, grace_until: int) -> None:
        self.own = own
        self.alive: frozenset[int] = frozenset()
        """The epochs of other servers that are alive."""
        self._newest = own
        self._first = (at, grace_until)
        self._gone: dict[int, tuple[int, int]] = {}
        """Those that went while this server ran: when that was seen, and until when their workers may resume."""
        self._last_gone = self._first
        self._among = False
        self._left: set[int] = set()
        self._left_until = 0

    def holder(self, number: int) -> int:
        """The number of this start's socket `number`."""
        return self.own << BITS | number

    def elsewhere(self, holder: int) -> bool:
        """Whether this is a socket of another server that is alive, as far as is known: a newer one may be."""
        epoch = holder >> BITS
        return epoch in self.alive or epoch > self._newest

    def orphaned(self, holder: int) -> bool:
        """Whether this is a socket of a server that is gone, or one that was sent away."""
        if holder in self._left:
            return True
        return holder > HTTP and holder >> BITS != self.own and not self.elsewhere(holder)

    def grace_until(self, holder: int, leased_at: int = 0) -> int:
        """Until when what this socket held may be resumed; `leased_at`: when it was leased or renewed last.

        Who did that after it was seen to be gone was there: the grace counts from then.
        """
        if holder in self._left:
            return self._left_until
        if (gone := self._gone.get(holder >> BITS)) is None:
            return self._first[1]
        seen_at, grace_until = gone
        return grace_until + max(0, leased_at - seen_at)

    def progress_from(self, item: Item) -> int:
        """An attempt that outlived its server has its clock of `progress_by` begin again at the end of the grace (§1).

        So has one over HTTP that was there before the first of the servers started.
        """
        epoch = item.holder >> BITS
        if item.ending == "parted":
            seen_at, grace_until = self._last_gone
        elif not epoch and self._among:
            return 0
        else:
            seen_at, grace_until = self._gone.get(epoch, self._first)
        return grace_until if item.started_at < seen_at else 0

    def send_away(self, holder: int) -> None:
        """A socket of this server is closed since the store is away: as if the server were gone for it."""
        self._left.add(holder)

    def store_back(self, grace_until: int) -> None:
        """The store was away, so that nobody could resume: all graces that are not over by then last until then."""
        self._left_until = grace_until
        self._first, self._last_gone = _longer(self._first, grace_until), _longer(self._last_gone, grace_until)
        self._gone = {epoch: _longer(gone, grace_until) for epoch, gone in self._gone.items()}

    def shift(self, by: int) -> None:
        """The store's clock was set by so much (ms): what is left of each grace stays as long."""
        self._first, self._last_gone = _shifted(self._first, by), _shifted(self._last_gone, by)
        self._gone = {epoch: _shifted(gone, by) for epoch, gone in self._gone.items()}
        self._left_until += by

    def begin_among(self, alive: Collection[int], newest: int) -> None:
        """These others were alive when this one began: what is no socket's goes on as it was."""
        self.alive, self._newest = frozenset(alive), max(self._newest, newest)
        self._among = bool(alive)

    def look(self, alive: Collection[int], newest: int, now: int, grace: int) -> bool:
        """These other servers are alive now, and `newest` is the latest epoch that ever began. Gives whether they
        are others than before; those that went have `grace` (ms) from now on."""
        before, self.alive = self.alive, frozenset(alive)
        young = range(self._newest + 1, newest + 1)
        self._newest = max(self._newest, newest)
        went = [epoch for epoch in (*before, *young) if epoch not in self.alive]
        for epoch in went:
            self._last_gone = self._gone[epoch] = (now, now + grace)
        for epoch in self.alive:
            self._gone.pop(epoch, None)
        return bool(went) or self.alive != before


def _shifted(gone: tuple[int, int], by: int) -> tuple[int, int]:
    seen_at, grace_until = gone
    return seen_at + by, grace_until + by


def _longer(gone: tuple[int, int], until: int) -> tuple[int, int]:
    seen_at, grace_until = gone
    return seen_at, max(grace_until, until)
