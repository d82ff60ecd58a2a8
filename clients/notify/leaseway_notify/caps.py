"""Caps: how many messages of a type go to a recipient in an hour, and when so many come that they become a digest.

A place is taken before something is sent, and never counted after: two workers cannot both have the last one. The
windows stand still, each with places of its own: around the end of one up to twice as many may come.
"""

from typing import Final

from leaseway_notify.delivery import Delivery, Reason, Sending
from leaseway_notify.keys import canonical, storm_key
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
        if of_storm(own):
            return None
        most = self._policies.hourly(kind, own.channel)
        hourly = canonical(["hourly", own.recipient, kind, own.channel])
        if most is not None and not await self._take(hourly, most, own.id, now):
            return "hourly_cap"
        if own.priority == "immediate" or own.channel not in HEARD:
            return None
        storm = ["storm", own.recipient, own.channel]
        window = now // self._storm.within
        until = (window + 1) * self._storm.within  # Kept by the hour of its end, which is one wherever it began.
        if await self._take(canonical([*storm, window]), self._storm.most, own.id, until):
            return None
        if await self._take(canonical([*storm, "digest"]), DIGEST, own.id, now):
            return PutOff(now + self._storm.digest_after, "storm", storm_key(own.recipient, own.channel))
        return "storm"

    async def _take(self, key: str, most: int, delivery_id: str, at: int) -> bool:
        return await self._store.take_place(key, at // HOUR, most, delivery_id)


def of_storm(delivery: Delivery) -> bool:
    """Whether it goes out in the digest of a storm, at whichever attempt."""
    return delivery.batch_key == storm_key(delivery.recipient, delivery.channel)
