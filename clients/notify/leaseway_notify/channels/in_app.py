"""The channel `in_app`: puts notifications into the recipient's inbox, and tells those who show it.

How open pages learn of it is whoever's that gives `announce`.
"""

import time
from collections.abc import Awaitable, Callable

from leaseway_notify.message import Message, Notes
from leaseway_notify.profile import Profile
from leaseway_notify.stores.base import InboxEntry, InboxStore

Announce = Callable[[InboxEntry], Awaitable[None]]


async def to_nobody(_entry: InboxEntry) -> None:
    """There is no page that shows the inbox at once."""


class InApp:
    """Puts messages into inboxes."""

    def __init__(self, store: InboxStore, announce: Announce = to_nobody) -> None:
        self._store = store
        self._announce = announce

    async def send(self, message: Message, _to: Profile, _notes: Notes) -> str:
        """Returns when all of it is in the inbox, each notification once, or the recipient has been forgotten. Raises
        `StoreAway`."""
        for notification in message.notifications:
            entry = await self._store.put_in_inbox(notification, int(time.time() * 1000))
            if entry is not None:
                await self._announce(entry)
        return ""
