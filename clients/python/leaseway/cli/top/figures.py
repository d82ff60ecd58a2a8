"""The figures of one queue, put together from what the server pushes and from what it is asked for.

Pure. How they look is in `screens.py`, where they come from in `sources.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Minute = dict[str, int]
"""What happened in the minute that began at `at` (PROTOCOL.md §5)."""
MINUTE_MS: Final = 60_000


@dataclass(slots=True)
class Figures:
    """One queue. What was not told yet, or may not be told, is None; times are ms since the epoch."""

    queue: str
    url: str
    counts: dict[str, int]
    paused: bool = False
    oldest_ready_at: int | None = None
    workers: int | None = None
    newest: Minute | None = None
    before: Minute | None = None
    """The minute before `newest`, as it was pushed last."""
    minutes: list[Minute] | None = None
    """The last hour, oldest first."""
    connections: list[dict[str, Any]] | None = None
    """Who is connected, with what it holds."""
    trouble: str = ""
    """Why there is no connection; empty while there is one."""
    told: bool = False
    """Whether the server pushed figures since the connection came about."""

    def take_stats(self, stats: dict[str, Any]) -> None:
        """A `stats` message (§3)."""
        if self.newest is not None and self.newest["at"] < stats["rates"]["at"]:
            self.before = self.newest
        self.counts, self.workers, self.newest = stats["counts"], stats["workers"], stats["rates"]
        self.trouble, self.told = "", True

    def take_facts(self, facts: dict[str, Any]) -> None:
        """The queue's own page, whose counts are older than those that are pushed."""
        self.paused, self.oldest_ready_at = facts["paused"], facts.get("oldestReadyAt")  # Older servers have none.
        if not self.told:
            self.counts = facts["counts"]

    def lose(self, why: str) -> None:
        """The connection is gone."""
        self.trouble, self.told = why, False

    def per_minute(self, what: str) -> int | None:
        """How often it happened in the last full minute, or in this one where that is more already.

        `what` is a member of a minute. It is counted and not estimated: it stands still while nothing happens.
        """
        if self.newest is None:
            return None
        known: list[Minute] = [self.newest, *filter(None, [self.before]), *(self.minutes or ())]
        return max(minute[what] for minute in known if minute["at"] >= self.newest["at"] - MINUTE_MS)

    def oldest(self, now: int) -> int | None:
        """For how long the item is ready that is so longest, ms; None where there is none."""
        return None if self.oldest_ready_at is None else max(0, now - self.oldest_ready_at)

    def document(self) -> dict[str, Any]:
        """All of it, for programs."""
        rates = ("posted", "claimed", "finished", "failed", "dead", "requeued")
        return {
            "queue": self.queue,
            "url": self.url,
            "connected": not self.trouble,
            "trouble": self.trouble or None,
            "paused": self.paused,
            "counts": self.counts,
            "perMinute": {what: self.per_minute(what) for what in rates},
            "oldestReadyAt": self.oldest_ready_at,
            "workers": self.workers,
            "connections": self.connections,
        }
