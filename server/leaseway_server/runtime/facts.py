"""How many items a queue has of each status, and what happened to them in this minute; kept, never counted.

Ends are counted from the start of the server on.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, get_args

from leaseway_server.core.model import Item, Status

MINUTE_MS: Final = 60_000
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


@dataclass(slots=True)
class Minute:
    """What happened in the minute that began `at` (ms since the epoch)."""

    at: int = 0
    posted: int = 0
    claimed: int = 0
    finished: int = 0
    failed: int = 0
    dead: int = 0
    requeued: int = 0


class Facts:
    """The figures of one queue; call it for the `counts` and `rates` of a `stats` message (PROTOCOL.md §3)."""

    def __init__(self) -> None:
        self._counts: dict[Status, int] = dict.fromkeys(STATUSES, 0)
        self._minute = Minute()

    def start(self, pending: int, processing: int) -> None:
        """So many there are at the start."""
        self._counts["pending"], self._counts["processing"] = pending, processing

    def take(self, changes: Iterable[tuple[Item | None, Item]], now: int) -> None:
        """What was committed, as (before, after)."""
        if now - self._minute.at >= MINUTE_MS:
            self._minute = Minute(now - now % MINUTE_MS)
        for before, after in changes:
            self._count(before, after)

    def _count(self, before: Item | None, after: Item) -> None:
        minute, was, attempts = self._minute, before.status if before else "", before.attempts if before else 0
        minute.posted += before is None
        minute.claimed += after.attempts - attempts
        if before and before.status == after.status:
            return
        self._counts[after.status] += 1
        if before:
            self._counts[before.status] -= 1
        minute.finished += after.status == "finished"
        minute.failed += after.status == "failed"
        minute.dead += after.status == "dead"
        minute.requeued += was == "processing" and after.status == "pending"

    def __call__(self) -> dict[str, object]:
        """The counts of each status, and the newest minute."""
        return {"counts": self._counts, "rates": asdict(self._minute)}
