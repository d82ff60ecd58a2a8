"""What a queue's configuration says about the life of its items. Values only."""

from dataclasses import dataclass, field

from leaseway_server.core.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Policy:
    """How long, how often and until when. Durations in ms; `progress_by` 0 is off."""

    lease: int = 300_000
    progress_by: int = 0
    max_attempts: int = 5
    max_losses: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    dedupe_window: int = 86_400_000
    """A key is held for so long after its post, at least."""
