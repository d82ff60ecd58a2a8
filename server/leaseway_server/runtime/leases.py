"""The leases that are committed, in memory: who holds what, and when the next one ends.

Read at the start and kept by each commit, instead of an index of their ends that every renewal would write. What
sockets of other servers hold is theirs to look after. Where there are others, a row may have changed without this
memory: the row is the truth, and whoever finds it other than remembered says so here.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from leaseway_server.core.events import ClockSet, GraceEnd, LeaseEnd
from leaseway_server.core.guards import progress_deadline
from leaseway_server.core.model import Item
from leaseway_server.core.policy import Policy
from leaseway_server.runtime.epochs import Epochs

SPARE_ENDS: Final = 1_000
AT_ONCE: Final = 1
"""When a lease ends that is to count anew: long ago, whatever the clock says."""


@dataclass(slots=True)
class Lease:
    """One committed lease: since and until when it is given, and where its clock of `progress_by` began.

    `ends` is when the sweep is to look at it, `queued` where it stands in the heap. `anew`: the store's clock was set
    since, and the sweep is to have it count anew.
    """

    holder: int
    attempts: int = 0
    since: int = 0
    until: int = 0
    progress_at: int = 0
    ends: int = 0
    queued: int = 0
    anew: bool = False


class Leases:
    """All leases of one queue, but for those of other servers' sockets."""

    def __init__(self, policy: Policy, epochs: Epochs) -> None:
        self._policy = policy
        self._epochs = epochs
        self._leases: dict[str, Lease] = {}
        self._by_holder: dict[int, set[str]] = {}
        self._ends: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._leases)

    def number(self, holder: int) -> int:
        """How many items a socket holds."""
        return len(self._by_holder.get(holder, ()))

    def of_holder(self, holder: int, most: int) -> list[str]:
        """The ids of what a socket holds; at most so many."""
        return list(islice(self._by_holder.get(holder, ()), most))

    def held(self, holder: int, most: int) -> list[tuple[str, Lease]]:
        """What a socket holds, by id; at most so many."""
        return [(item_id, self._leases[item_id]) for item_id in self.of_holder(holder, most)]

    def get(self, item_id: str) -> Lease | None:
        """An item's lease, where it is known here."""
        return self._leases.get(item_id)

    def among(self, ids: Iterable[str]) -> list[str]:
        """Those of these items whose lease is known here."""
        return [item_id for item_id in ids if item_id in self._leases]

    def end_of(self, item_id: str) -> tuple[int, bool]:
        """When an item's lease is taken away where nothing is done for it (0: it is not leased here), and whether it is
        of a socket whose server is gone."""
        lease = self._leases.get(item_id)
        return (lease.ends, self._epochs.orphaned(lease.holder)) if lease else (0, False)

    def update(self, items: Iterable[Item]) -> None:
        """Takes in what was committed."""
        elsewhere = self._epochs.elsewhere
        for item in items:
            lease = self._leases.get(item.id)
            if item.status == "processing" and not elsewhere(item.holder):
                self._put(item, lease)
            elif lease is not None:
                self._forget(item.id, lease)

    def correct(self, item_id: str, item: Item | None) -> None:
        """The row was looked at, and stands so; None: it is gone."""
        lease = self._leases.get(item_id)
        if item is not None:
            self.update((item,))
        elif lease is not None:
            self._forget(item_id, lease)

    def restore(self, items: Iterable[Item], *, anew: bool = False) -> dict[str, Lease]:
        """Takes in all that is leased by now, in place of what was known; to count `anew`, where the store's clock was
        set of late. Gives the leases that are no more."""
        rows = {item.id: item for item in items}
        ended = {item_id: lease for item_id, lease in self._leases.items() if not _stands(lease, rows.get(item_id))}
        for item_id, lease in ended.items():
            self._forget(item_id, lease)
        self.update(rows.values())
        if anew:
            self._count_anew()
        return ended

    def reconfigure(self, policy: Policy) -> None:
        """From now on the policy is another; `progress_by` of the leases that are there too."""
        self._policy = policy
        for item_id, lease in self._leases.items():
            self._set_end(item_id, lease)

    def shift(self, by: int) -> None:
        """The store's clock was set by so much (ms)."""
        self._epochs.shift(by)
        self._count_anew()

    def _count_anew(self) -> None:
        """What is left of these leases is not known any more: the sweep sees to them at once."""
        for item_id, lease in self._leases.items():
            lease.anew = True
            self._set_end(item_id, lease)

    def regroup(self) -> None:
        """Servers went or came back: who of them is back looks after what is held there."""
        for item_id, lease in list(self._leases.items()):
            if self._epochs.elsewhere(lease.holder):
                self._forget(item_id, lease)
            else:
                self._set_end(item_id, lease)

    def next_end(self) -> int:
        """When the first lease is to be looked at, ms since the epoch; 0 where there is none."""
        while self._ends:
            ends, item_id = self._ends[0]
            lease = self._leases.get(item_id)
            if lease is not None and lease.ends == lease.queued == ends:
                return ends
            heapq.heappop(self._ends)
            if lease is not None and lease.queued == ends:
                self._queue(item_id, lease)  # It was renewed since.
        return 0

    def over(self, now: int, limit: int) -> tuple[str, ...]:
        """The ids of leases that are to be swept, the earliest first. They stay until a commit ends them."""
        due: dict[str, None] = {}
        while len(due) < limit and 0 < self.next_end() <= now:
            due[heapq.heappop(self._ends)[1]] = None
        for item_id in due:
            self._queue(item_id, self._leases[item_id])
        return tuple(due)

    def put_off(self, ids: Iterable[str], until: int) -> None:
        """Another server has these in hand: they are to be swept then."""
        for item_id in ids:
            if (lease := self._leases.get(item_id)) is not None:
                lease.ends = until
                self._queue(item_id, lease)

    def sweep_event(self, item: Item) -> ClockSet | LeaseEnd | GraceEnd:
        """What the sweep asks of the item."""
        if (lease := self._leases.get(item.id)) is not None and lease.anew:
            return ClockSet()
        if self._epochs.orphaned(item.holder):
            return GraceEnd(item.holder, self._grace_until(item.holder, item.lease_until))
        return LeaseEnd(self._epochs.progress_from(item))

    def _put(self, item: Item, lease: Lease | None) -> None:
        if lease is None:
            lease = self._leases[item.id] = Lease(item.holder)
            self._by_holder.setdefault(item.holder, set()).add(item.id)
        elif lease.holder != item.holder:
            self._let_go(item.id, lease.holder)
            self._by_holder.setdefault(item.holder, set()).add(item.id)
            lease.holder = item.holder
        lease.anew &= lease.until == item.lease_until  # What was written since is by the clock as it is now.
        lease.attempts, lease.since, lease.until = item.attempts, item.started_at, item.lease_until
        lease.progress_at = max(item.progress_at, self._epochs.progress_from(item))
        self._set_end(item.id, lease)

    def _set_end(self, item_id: str, lease: Lease) -> None:
        """Where it ends later than it is queued for, it is queued anew when that time has come."""
        lease.ends = self._ends_at(lease)
        if not 0 < lease.queued <= lease.ends:
            self._queue(item_id, lease)

    def _ends_at(self, lease: Lease) -> int:
        if lease.anew:
            return AT_ONCE
        if self._epochs.orphaned(lease.holder):
            return self._grace_until(lease.holder, lease.until)
        silent = progress_deadline(lease.progress_at, self._policy)
        return min(lease.until, silent) if silent else lease.until

    def _grace_until(self, holder: int, lease_until: int) -> int:
        return self._epochs.grace_until(holder, lease_until - self._policy.lease)

    def _queue(self, item_id: str, lease: Lease) -> None:
        lease.queued = lease.ends
        heapq.heappush(self._ends, (lease.ends, item_id))
        if len(self._ends) > 2 * len(self._leases) + SPARE_ENDS:  # Most are of leases that ended before their time.
            self._ends = [(lease.queued, item_id) for item_id, lease in self._leases.items()]
            heapq.heapify(self._ends)

    def _forget(self, item_id: str, lease: Lease) -> None:
        del self._leases[item_id]
        self._let_go(item_id, lease.holder)

    def _let_go(self, item_id: str, holder: int) -> None:
        held = self._by_holder[holder]
        held.discard(item_id)
        if not held:
            del self._by_holder[holder]


def _stands(lease: Lease, item: Item | None) -> bool:
    """Whether the row is leased as it is known."""
    return item is not None and (item.holder, item.attempts) == (lease.holder, lease.attempts)
