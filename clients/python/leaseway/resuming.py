"""What a worker asks back on a new socket: leases that an earlier one held, until each has its answer.

Pure; what an answer means for a lease is `worker_state.py`'s business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from leaseway.leases import Lease

#: Leases in one `resume`; the server takes 10,000 (§3), and counts them in a batch (§4).
RESUME_AT_ONCE = 1_000


class Resuming:
    """The leases whose answer is to come, and the messages that asked for them, by their refs."""

    def __init__(self) -> None:
        #: When to ask again, after a refusal for the moment; infinity otherwise.
        self.due = math.inf
        self._leases: dict[str, Lease] = {}
        self._refs: set[int] = set()

    def begin(self, leases: Mapping[str, Lease]) -> None:
        """A new socket is there: all of these are to be asked for."""
        self._leases = dict(leases)

    def slices(self, held: Mapping[str, Lease]) -> list[list[Lease]]:
        """What to ask for now, a message each: of those without an answer, what is `held` (by id) still."""
        self.due = math.inf
        self._refs.clear()
        wanted = [lease for lease in self._leases.values() if held.get(lease.id) is lease]
        return [wanted[start : start + RESUME_AT_ONCE] for start in range(0, len(wanted), RESUME_AT_ONCE)]

    def said(self, ref: int) -> None:
        """A slice was asked for by this message."""
        self._refs.add(ref)

    def answered(self, item_id: str) -> Lease | None:
        """Takes the lease off; None where it was not asked for."""
        return self._leases.pop(item_id, None)

    def refused(self, ref: int, again: float) -> bool:
        """A message was refused for the moment: all without an answer is asked for again then. False for another's."""
        if ref in self._refs:
            self.due = again
        return ref in self._refs
