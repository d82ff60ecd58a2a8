"""The outbox: what was committed comes into the queue, whatever crashes between.

Deliveries that are not marked as posted are posted again, and their keys make that harmless. Those that are due and of
which nothing is heard are asked for: what the queue has given up is dead here too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Never

from leaseway import Client, Job, LeasewayError
from leaseway_notify.clock import now_ms
from leaseway_notify.delivery import WAITS, Delivery
from leaseway_notify.queue import post_of
from leaseway_notify.rounds import Pause, every
from leaseway_notify.settings import OutboxSettings
from leaseway_notify.stores.base import OutboxStore

QUEUE_AGAIN: Final = 5.0
"""Seconds after which a queue that could not be reached, or refused us, is tried again."""
_log = logging.getLogger("leaseway.notify")


class Outbox:
    """Posts deliveries to the queue. `queue` is an open client of `notification-deliveries`."""

    def __init__(
        self,
        store: OutboxStore,
        queue: Client[Any, Any],
        settings: OutboxSettings = OutboxSettings(),  # noqa: B008  A frozen value.
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._store = store
        self._queue = queue
        self._settings = settings
        self._clock = clock

    async def post(self, deliveries: Sequence[Delivery]) -> bool:
        """Posts those that wait, and marks them. False where the queue does not take them for now: they are posted
        later, by `run`. Raises `StoreAway` where they cannot be marked: then they are posted once more, to no effect.
        """
        waiting = [delivery for delivery in deliveries if delivery.status in WAITS]
        if not waiting:
            return True
        try:
            await self._post(waiting)
        except (LeasewayError, TimeoutError) as error:
            _log.warning("%d deliveries wait for the queue, from %s on: %s", len(waiting), waiting[0].id, error)
            return False
        await self._store.mark_posted([delivery.id for delivery in waiting], self._clock())
        return True

    async def repost(self) -> int:
        """Posts all that is not marked, and says how many that were."""
        posted, last = 0, ""
        while (portion := await self._store.unposted(self._settings.portion, last)) and await self.post(portion):
            posted, last = posted + len(portion), portion[-1].id
        return posted

    async def ask(self) -> int:
        """Asks for what is silent, and says how many of it are dead by now."""
        before = self._clock() - self._settings.silence
        dead = 0
        while portion := await self._store.silent(before, self._settings.portion):
            jobs = await self._post(portion)
            for delivery, job in zip(portion, jobs, strict=True):
                dead += await self._settle(delivery, job, before)
            await self._store.mark_posted([delivery.id for delivery in portion], self._clock())
        return dead

    async def run(self, pause: Pause = asyncio.sleep) -> Never:
        """Does both at once, and again every minute."""
        await every(self._settings.repost_every, self._round, pause)

    async def _round(self) -> None:
        await self.repost()
        await self.ask()

    async def _post(self, deliveries: Sequence[Delivery]) -> list[Job[Any]]:
        return await self._queue.post_many(map(post_of, deliveries), timeout=self._settings.patience / 1000)

    async def _settle(self, delivery: Delivery, job: Job[Any], before: int) -> bool:
        """Whether the queue has ended what nobody has settled here, so that it is dead."""
        if not job.duplicate:
            return False
        view = (await self._queue.get(job.id)).view
        if view is None or not view.ended:
            return False
        error = f"its item in the queue, {job.id}, has ended as {view.status} without a word of it here"
        return await self._store.give_up(delivery.id, error, before, self._clock())


async def keep_posting(queue: Client[Any, Any], outbox: Outbox) -> None:
    """Keeps the client of the queue open, and the outbox going. Until then what is notified waits in the outbox."""
    while True:
        try:
            async with queue:
                await outbox.run()
        except (LeasewayError, TimeoutError, OSError) as error:
            _log.warning("the queue cannot be reached, deliveries wait in the outbox: %s", error)
        await asyncio.sleep(QUEUE_AGAIN)
