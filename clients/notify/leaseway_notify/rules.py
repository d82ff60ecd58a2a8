"""How attempts at deliveries follow each other, and whether a claim of them fits into a lease. Values."""

from dataclasses import dataclass
from typing import Final

from leaseway_notify.policy import MINUTE
from leaseway_notify.settings import Settings

LED: Final = MINUTE
"""So long a delivery waits, in ms, for the one of its batch that takes it along."""
AWAY: Final = 30_000
"""And so long one whose store is away."""
BACKOFF: Final = (5 * MINUTE, 15 * MINUTE, 60 * MINUTE, 180 * MINUTE)
"""What the queue waits after failures, in ms, before its jitter, as `queue.toml` has it."""
SETTLE: Final = 10_000
"""So long the store is asked, in ms, to keep what became of a message that was sent."""
SHOWN: Final = 50
"""So many notifications a message lists."""


class LeaseTooShort(ValueError):
    """A whole claim may take longer than the lease, so that somebody else would send what is being sent."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures above, for tests that have others. ms."""

    backoff: tuple[int, ...] = BACKOFF
    led: int = LED
    away: int = AWAY
    settle: int = SETTLE
    shown: int = SHOWN

    def next_try(self, failures: int, asked: float | None) -> float | None:
        """Seconds until the attempt after so many failures, where the provider asked for so many: never earlier than
        the queue's own backoff, which is None. Else those that were shut out at once would come back at once."""
        own = self.backoff[min(failures, len(self.backoff)) - 1] / 1000
        return asked if asked is not None and asked > own else None


DEFAULT: Final = Rules()


def check_lease(settings: Settings, lease: float) -> None:
    """Raises `LeaseTooShort` where a claim may outlast the queue's lease, in seconds."""
    worst = settings.worst_case / 1000
    if worst > lease:
        raise LeaseTooShort(
            f"the queue's lease is {lease:g} s and a claim of {settings.worker.in_flight} may take {worst:g} s: "
            "lengthen the lease in the queue's configuration, or shorten email.timeout and push.timeout in notify.toml"
        )
