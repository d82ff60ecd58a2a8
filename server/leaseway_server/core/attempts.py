"""Which attempts of an item are remembered (PROTOCOL.md §5): those that were lost, parted, failed or released.

Pure, and asked at each step of an item's life: a turn may end one attempt and begin the next.
"""

from dataclasses import dataclass
from typing import Final

from leaseway_server.core.model import Ending, Item

REMEMBERED: Final[frozenset[Ending]] = frozenset({"lost", "parted", "failed", "released"})
PRESUMED: Final[frozenset[Ending]] = frozenset({"lost", "parted"})
"""Endings that the server took for granted, and that the worker may yet disprove."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that ended. `attempts` is its number; times are ms since the epoch; `error` is JSON, "" for none."""

    attempts: int
    worker: str
    started_at: int
    ended_at: int
    ending: Ending
    error: str


def remembered(before: Item, after: Item) -> Attempt | None:
    """The attempt that this step ended; or ended otherwise than it was taken to have: a late fail."""
    if after.ending == before.ending or after.ending not in REMEMBERED:
        return None
    error = after.error if after.ending == "failed" else ""
    return Attempt(after.attempts, after.worker, after.started_at, after.updated_at, after.ending, error)


def forgotten(before: Item, after: Item) -> int:
    """The number of the attempt that this step proved not to be over, by a resume or a late result; 0 for none."""
    disproved = before.ending in PRESUMED and after.ending in ("open", "finished")
    return before.attempts if disproved and after.attempts == before.attempts else 0
