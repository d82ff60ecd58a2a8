"""How long ended items stay, and which of them may go. Pure; the store looks for them, the turn deletes them."""

from dataclasses import dataclass
from typing import Final

from leaseway_server.core.model import Status

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Outstayed:
    """Items of this status whose time is over: those that a producer was told of by `until` (ms since the epoch), or
    where not `fetched`, those that ended by then and, if finished, that no producer was told of."""

    status: Status
    fetched: bool
    until: int


@dataclass(frozen=True, slots=True)
class Keep:
    """How long ended items stay, ms; `fetched` are those finished ones whose producer saw it (PROTOCOL.md §3)."""

    fetched: int = HOUR
    finished: int = 7 * DAY
    failed: int = 90 * DAY
    dead: int = 90 * DAY
    cancelled: int = DAY
    expired: int = DAY

    def outstayed(self, now: int) -> tuple[Outstayed, ...]:
        """What may go at `now`. A held key keeps its item all the same (PROTOCOL.md §5)."""
        return (
            Outstayed("finished", True, now - self.fetched),
            Outstayed("finished", False, now - self.finished),
            Outstayed("failed", False, now - self.failed),
            Outstayed("dead", False, now - self.dead),
            Outstayed("cancelled", False, now - self.cancelled),
            Outstayed("expired", False, now - self.expired),
        )
