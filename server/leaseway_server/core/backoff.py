"""How long an item waits before it is worked on again. Chance is an argument: nothing here draws it."""

from dataclasses import dataclass
from typing import Final

MINUTE: Final = 60_000
LONGEST_ASKED: Final = 365 * 24 * 60 * MINUTE
"""A worker that asks for a longer delay than this year (ms) gets the year."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays of a queue after retryable fails, in ms. `delays` is not empty; its last one repeats.

    `cap` bounds the delays before jitter; a delay that a worker asks for is its own affair and not capped by it.
    `jitter` is a share of the delay: 0.15 spreads it by up to 15 % either way.
    """

    delays: tuple[int, ...] = (MINUTE // 2, 2 * MINUTE, 8 * MINUTE, 32 * MINUTE)
    cap: int = 60 * MINUTE
    jitter: float = 0.15


def retry_delay(policy: Backoff, failures: int, chance: float, asked: int | None = None) -> int:
    """The delay in ms after the `failures`-th fail (1 or more, this one counted).

    `chance` in [0, 1) decides the jitter. `asked` is the worker's `retryInMs` and takes the place of the queue's delay,
    up to `LONGEST_ASKED`; jitter only ever lengthens it (PROTOCOL.md §4).
    """
    if asked is not None:
        return round(min(asked, LONGEST_ASKED) * (1 + policy.jitter * chance))
    delay = min(policy.delays[min(failures, len(policy.delays)) - 1], policy.cap)
    return round(delay * (1 + policy.jitter * (2 * chance - 1)))
