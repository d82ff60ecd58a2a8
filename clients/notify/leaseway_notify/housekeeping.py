"""Keeping house: what was kept long enough goes, in portions, so that nothing waits for long behind it."""

import asyncio
from collections.abc import Callable
from typing import Never

from leaseway_notify.clock import now_ms
from leaseway_notify.rounds import Pause, every
from leaseway_notify.settings import HOUR, KeepSettings
from leaseway_notify.stores.base import HousekeepingStore, Leftover


class Housekeeper:
    """Drops what is over."""

    def __init__(
        self,
        store: HousekeepingStore,
        settings: KeepSettings = KeepSettings(),  # noqa: B008  A frozen value.
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._store = store
        self._keep = settings
        self._clock = clock

    async def sweep(self) -> dict[Leftover, int]:
        """Drops all that is over by now, and says how many of each."""
        now, keep = self._clock(), self._keep
        before: dict[Leftover, int] = {
            "tokens": now,
            "keys": now,
            "places": now,
            "work": now,
            "dead": now - keep.dead,
            "settled": now - keep.settled,
            "inbox": now - keep.inbox,
        }
        return {what: await self._drop(what, until) for what, until in before.items()}

    async def run(self, pause: Pause = asyncio.sleep) -> Never:
        """Sweeps at once, and every hour."""
        await every(HOUR, self.sweep, pause)

    async def _drop(self, what: Leftover, before: int) -> int:
        dropped = 0
        while went := await self._store.drop(what, before, self._keep.portion):
            dropped += went
        return dropped
