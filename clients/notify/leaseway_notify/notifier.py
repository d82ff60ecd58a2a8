"""Notifies: loads whom an event is for, plans, writes the plan in one transaction, and posts after the commit."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from leaseway import Client
from leaseway_notify.clock import now_ms
from leaseway_notify.errors import StoreAway, UnknownRecipient
from leaseway_notify.event import Event
from leaseway_notify.outbox import Outbox
from leaseway_notify.plan import Plan, plan
from leaseway_notify.policy import Policies
from leaseway_notify.profile import CHANNELS
from leaseway_notify.settings import Settings
from leaseway_notify.stores.base import Connection, NotificationStore, OutboxStore

_log = logging.getLogger("leaseway.notify")


class NotifierStore(NotificationStore, OutboxStore, Protocol):
    """What a notifier sees of the store."""


class Notifier:
    """Turns events into notifications. `queue` is an open client of `notification-deliveries`, and `settings` are those
    of the workers: a channel that they do not configure is skipped. Without any, none is.

        notifier = Notifier(store, queue, settings)
        await notifier.notify(Event(type="mention", recipient="ada", title="Bob mentioned you"))

    Where the store is the caller's PostgreSQL, a notification can be part of its own transaction:

        async with notifier.transaction(connection) as notify:
            await connection.execute("INSERT INTO comment …")
            await notify(event)

    An event is refused by `UnknownRecipient` and `UnknownType`; then, and on `StoreAway`, nothing was changed, or the
    same `Event` may be notified again: by its id it stays one notification. That the queue is away is no error: what
    was written is posted when it is back, by whoever runs the outbox.
    """

    def __init__(
        self,
        store: NotifierStore,
        queue: Client[Any, Any],
        settings: Settings | None = None,
        policies: Policies | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._configured = CHANNELS if settings is None else settings.channels
        settings = settings or Settings()
        self._store = store
        self._outbox = Outbox(store, queue, settings.outbox, clock)
        self._window = settings.plan.dedupe_window
        self._policies = policies or settings.policies()
        self._clock = clock

    async def notify(self, event: Event) -> Plan:
        """What became of it, as it is kept."""
        (kept,) = await self.notify_many([event])
        return kept

    async def notify_many(self, events: Sequence[Event]) -> list[Plan]:
        """All of them or none, in one transaction; what became of each, in the same order."""
        kept = await self.write(events)
        await self.post(kept)
        return kept

    @asynccontextmanager
    async def transaction(self, connection: Connection) -> AsyncIterator[Callable[[Event], Awaitable[Plan]]]:
        """A transaction on this connection, whose notifications are posted after its commit.

        Raises `ValueError` within another transaction: nothing may be posted before the outermost one has committed.
        There `write`, and `post` after the commit, do the same.
        """
        if connection.is_in_transaction():
            raise ValueError("the connection is in a transaction; use write() in it, and post() after its commit")
        kept: list[Plan] = []

        async def notify(event: Event) -> Plan:
            kept.extend(await self.write([event], connection))
            return kept[-1]

        async with connection.transaction():
            yield notify
        await self.post(kept)

    async def write(self, events: Sequence[Event], within: Connection = None) -> list[Plan]:
        """Plans and writes them all, or none, and posts nothing; `within` the transaction that a connection is in."""
        now = self._clock()
        profiles = await self._store.profiles([event.recipient for event in events], within)
        for event in events:
            if event.recipient not in profiles:
                raise UnknownRecipient(event.recipient)
        plans = [plan(event, profiles[event.recipient], now, self._policies, self._configured) for event in events]
        return await self._store.write(plans, now=now, held_until=now + self._window, within=within)

    async def post(self, plans: Sequence[Plan]) -> None:
        """Posts what was written, once that is committed. What cannot be posted now is posted by the outbox."""
        try:
            await self._outbox.post([one for each in plans for one in each.deliveries if not one.posted_at])
        except StoreAway as error:  # It is committed, and it is in the queue: only the mark is missing.
            _log.warning("deliveries could not be marked as posted, and will be posted again: %s", error)
