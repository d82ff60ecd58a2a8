"""What a channel is given to send: the notifications, and the identity that a repeated attempt keeps.

Values, and the interface of a channel. `execute.py` makes messages of deliveries; how they are sent is in `channels/`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from leaseway_notify.delivery import Notification, Reason
from leaseway_notify.event import Priority
from leaseway_notify.profile import Profile


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent at one time. `id` is that of the delivery it is sent for, the same in every attempt.

    `notifications` are oldest first: one, or those of a batch. `total` counts those too that are not shown.
    """

    id: str
    type: str
    group: str
    priority: Priority
    notifications: tuple[Notification, ...]
    total: int

    @property
    def newest(self) -> Notification:
        """The last one."""
        return self.notifications[-1]


class Skipped(Exception):
    """Raised by a channel: there is nobody to send to; `reason` is the word that is kept with the delivery."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Notes:
    """What an attempt leaves for the next one, kept with the item in the queue.

    `last` is what was noted so far, also by attempts before; `keep` writes all of it and returns when it is kept.
    """

    def __init__(self, last: Any, keep: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self.last: Mapping[str, Any] = last if isinstance(last, dict) else {}
        self._keep = keep

    def ids(self, name: str) -> frozenset[str]:
        """The ids that were noted under this name."""
        return frozenset(map(str, self.last.get(name, ())))

    async def note(self, name: str, ids: frozenset[str]) -> None:
        """Notes ids under this name, in place of those that were there."""
        self.last = {**self.last, name: sorted(ids)}
        await self._keep(dict(self.last))


class ChannelExecutor(Protocol):
    """A channel."""

    async def send(self, message: Message, to: Profile, notes: Notes) -> str:
        """Returns when it was taken, with what is worth keeping of that, such as the provider's id.

        Raises `NotSent`, and `Skipped` where there is nobody to send to.
        """
