"""What a channel is given to send: the words, to whom, and the identity that a repeated attempt keeps.

Data only, and no rows of a store: `execute.py` makes it of those.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

Priority = Literal["immediate", "normal", "low"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One notification, as it is read. `at` is when it came about, ms since the epoch."""

    title: str
    body: str
    url: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent at one time. `id` is that of the delivery it is sent for, the same in every attempt.

    `entries` are oldest first; one, or the notifications of a batch. `total` counts those too that are not shown.
    """

    id: str
    recipient: str
    type: str
    group: str
    priority: Priority
    entries: tuple[Entry, ...]
    total: int

    @property
    def newest(self) -> Entry:
        """The last entry."""
        return self.entries[-1]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message was taken. `detail` is what is worth keeping of it, such as the provider's id; no payload."""

    status: Literal["sent", "delivered"]
    detail: str = ""


class Skipped(Exception):
    """Raised by a channel: there is nobody to send to; `reason` is the word that is kept with the delivery."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Notes:
    """What an attempt leaves for the next one: `last` is what the one before noted, `note` keeps a new one durably."""

    last: Any
    note: Callable[[dict[str, Any]], Awaitable[None]]
