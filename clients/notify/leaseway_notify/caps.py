"""Caps: how many messages of a type go to a recipient in an hour, and when so many come that they become a digest.

A place is taken before something is sent, and never counted after: two workers cannot both have the last one.
"""

from typing import Final

from leaseway_notify.delivery import Reason, Sending
from leaseway_notify.keys import key_of
from leaseway_notify.policy import HEARD, Policies
from leaseway_notify.settings import HOUR, StormSettings
from leaseway_notify.stores.base import CapStore
from leaseway_notify.verdict import PutOff

DIGEST: Final = 200
"""So many of an hour's storm wait for its digest; it would list no more of them, and the rest is skipped."""


class Caps:
    """Takes places for deliveries."""

    def __init__(self, store: CapStore, policies: Policies, storm: StormSettings) -> None:
        self._store = store
        self._policies = policies
        self._storm = storm

    async def look(self, sending: Sending, now: int) -> PutOff | Reason | None:
        """None where it has its places and may be sent, else when it is looked at again, or why it is never sent.

        The digest of a storm needs no place, and an immediate delivery is no part of a storm. `now` in ms. Raises
        `StoreAway`.
        """
        own, kind = sending.delivery, sending.notification.type
        if own.reason == "storm":
            return None
        most = self._policies.hourly(kind, own.channel)
        hourly = key_of("hourly", own.recipient, kind, own.channel)
        if most is not None and not await self._take(hourly, most, own.id, now):
            return "hourly_cap"
        if own.priority == "immediate" or own.channel not in HEARD:
            return None
        storm = key_of("storm", own.recipient, own.channel)
        window = now // self._storm.within
        until = (window + 1) * self._storm.within  # Kept by the hour of its end, which is one wherever it began.
        if await self._take(key_of(storm, window), self._storm.most, own.id, until):
            return None
        if await self._take(key_of(storm, "digest"), DIGEST, own.id, now):
            return PutOff(now + self._storm.digest_after, "storm", storm)
        return "storm"

    async def _take(self, key: str, most: int, delivery_id: str, at: int) -> bool:
        return await self._store.take_place(key, at // HOUR, most, delivery_id)
