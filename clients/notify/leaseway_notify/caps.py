"""Caps: how many messages of a type go to a recipient in an hour, and when so many come that they become a digest.

A place is taken before something is sent, and never counted after: two workers cannot both have the last one.
"""

from typing import Final

from leaseway_notify.delivery import Sending
from leaseway_notify.keys import key_of
from leaseway_notify.policy import Policies
from leaseway_notify.rules import Rules
from leaseway_notify.stores.base import CapStore
from leaseway_notify.verdict import Drop, PutOff

HOUR_MS: Final = 3_600_000
SPREAD_MS: Final = 300_000
"""Digests of a storm are sent within so long from the beginning of an hour: not all at one moment."""


class Caps:
    """Takes places for deliveries."""

    def __init__(self, store: CapStore, policies: Policies, rules: Rules) -> None:
        self._store = store
        self._policies = policies
        self._rules = rules

    async def look(self, sending: Sending, now: int) -> Drop | PutOff | None:
        """None where it has its places and may be sent. Raises `StoreAway`.

        An immediate one, and the digest of a storm, are no part of a storm.
        """
        own, kind = sending.delivery, sending.notification.type
        hour = now // HOUR_MS
        most = self._policies.hourly(kind, own.channel)
        key = key_of("hourly", own.recipient, kind, own.channel)
        if own.reason != "storm" and most is not None and not await self._store.take_place(key, hour, most, own.id):
            return Drop("hourly_cap")
        if own.reason == "storm" or own.priority == "immediate" or own.channel not in self._rules.storm_channels:
            return None
        key = key_of("storm", own.recipient, own.channel)
        if not self._rules.storm or await self._store.take_place(key, hour, self._rules.storm, own.id):
            return None
        return PutOff((hour + 1) * HOUR_MS + int(key, 16) % SPREAD_MS, "storm", key)
