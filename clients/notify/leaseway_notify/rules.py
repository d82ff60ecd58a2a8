"""The figures by which deliveries are executed, and whether they fit together. Values; `notify.toml` says them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from leaseway_notify.profile import CHANNELS, Channel

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0
STORE_PATIENCE: Final = 10.0
"""Seconds that the store may take for all that is asked of it in one attempt, before something is sent."""


class LeaseTooShort(ValueError):
    """A whole claim may take longer than the lease, so that somebody else would send what is being sent."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How much a channel may send at a time, and how long one message may take at most, seconds."""

    parallel: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in seconds.

    `in_flight` is the size of a claim. `backoff` are the queue's delays, `tries` its number of attempts.
    `settle` is how long the store is asked again to take what became of a message that was sent. `led` is how long a
    delivery waits for the one of its batch that takes it along, `away` how long one does when the store is away.
    `read_types`: an email of these is not sent for what was read in the application. `storm`: so many messages go to a
    recipient on a channel in an hour, 0 for any number; the others become one digest. `shown` are the notifications
    that a message lists.
    """

    in_flight: int = 25
    lanes: Mapping[Channel, Lane] = field(
        default_factory=lambda: {"in_app": Lane(25, 10.0), "email": Lane(5, 21.0), "push": Lane(25, 10.0)}
    )
    backoff: tuple[float, ...] = (5 * MINUTE, 15 * MINUTE, 60 * MINUTE, 180 * MINUTE)
    tries: int = 5
    settle: float = 10.0
    led: float = MINUTE
    away: float = 30.0
    read_types: frozenset[str] = frozenset({"chat", "mention"})
    storm: int = 30
    storm_channels: frozenset[Channel] = frozenset[Channel]({"email", "push"})
    shown: int = 50

    @property
    def worst_case(self) -> float:
        """Seconds from a claim to the end of its last message, where every one takes its whole time."""
        lanes = (self.lanes[channel] for channel in CHANNELS if channel in self.lanes)
        slowest = max(math.ceil(self.in_flight / lane.parallel) * (lane.timeout + STORE_PATIENCE) for lane in lanes)
        return slowest + self.settle

    def check(self, lease: float) -> None:
        """Raises `LeaseTooShort` where a claim may outlast the queue's lease, seconds."""
        if self.worst_case > lease:
            raise LeaseTooShort(
                f"a claim of {self.in_flight} may take {self.worst_case:g} s and the queue's lease is {lease:g} s: "
                "claim fewer (in_flight), send more at a time (parallel), shorten the timeouts, or lengthen the lease"
            )

    def delay(self, failures: int) -> float:
        """How long the queue waits after so many failures, before its jitter."""
        return self.backoff[min(failures, len(self.backoff)) - 1]
