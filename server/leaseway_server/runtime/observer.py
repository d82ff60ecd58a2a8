"""What an engine tells of its turns to whoever measures them. Told a few times a turn, and never once an item.

Nothing is counted here. An observer must not wait, and is not asked for anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from leaseway_server.core.model import Changes, Status


@dataclass(frozen=True, slots=True)
class Gauges:
    """How much of what there is in an engine now. `counts` are items by status, as far as they are kept."""

    counts: Mapping[Status, int]
    waiting_claims: int
    leases: int


class Observer(Protocol):
    """Who measures the turns of one engine."""

    def began(self) -> None:
        """A turn begins."""
        ...

    def committing(self) -> None:
        """Its work is done; the commit begins."""
        ...

    def committed(self, commands: int, durable: bool) -> None:
        """The commit is over. `durable`: it was synced to the disk."""
        ...

    def changed(self, changes: Changes) -> None:
        """What the turn changed; its answers are given by now."""
        ...


class Nobody:
    """Measures nothing."""

    def began(self) -> None:
        """Nothing."""

    def committing(self) -> None:
        """Nothing."""

    def committed(self, commands: int, durable: bool) -> None:
        """Nothing."""

    def changed(self, changes: Changes) -> None:
        """Nothing."""
