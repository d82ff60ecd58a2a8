"""A whole worker, as the settings say: it executes deliveries, and does beside it what somebody has to do.

Posts what is not known to be in the queue, and keeps house. A resident one does all that until it is told to stop; a
drain, for a platform without resident processes, does it once and ends. Opens and closes; decides nothing.
"""

import asyncio
import logging
from typing import Any, Final

from leaseway import Client
from leaseway_notify.announcing import Announcer
from leaseway_notify.compose import execution
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.outbox import Outbox, keep_posting
from leaseway_notify.policy import Policies
from leaseway_notify.rounds import beside
from leaseway_notify.settings import Settings
from leaseway_notify.signals import until_signal
from leaseway_notify.stores.opening import open_store
from leaseway_notify.worker import DeliveryWorker

QUEUE_WITHIN: Final = 3.0
"""Seconds that what ends by itself waits for the queue."""
_log = logging.getLogger("leaseway.notify")


def run(settings: Settings, *, drain: bool = False, policies: Policies | None = None) -> None:
    """Works until SIGINT or SIGTERM, then lets what is being sent end; a second one ends it on the spot.

    To be called in the main thread. Raises as `work`.
    """
    until_signal(lambda stop: work(settings, stop, drain=drain, policies=policies))


async def work(
    settings: Settings, stop: asyncio.Event, *, drain: bool = False, policies: Policies | None = None
) -> None:
    """Works until `stop` is set, or with `drain` until nothing is due.

    A queue that is away is waited for, with `drain` not for long. Raises `StoreRefused`, `BadKey`, `ValueError` and
    `LeaseTooShort` for settings with which nothing can be sent, and what the queue's client and worker raise.
    """
    async with (
        await open_store(settings.store) as store,
        Announcer(settings.service) as announcer,
        execution(store, settings, policies=policies, announce=announcer) as executing,
    ):
        worker = DeliveryWorker(executing, settings, drain=drain)
        within = QUEUE_WITHIN if drain else 30.0
        queue: Client[Any, Any] = Client(settings.queue.url, settings.queue.token, open_timeout=within)
        outbox, housekeeper = Outbox(store, queue, settings.outbox), Housekeeper(store, settings.keep)
        _log.info("working on %s", settings.queue.url)
        if drain:
            async with queue:
                await outbox.repost()
                await outbox.ask()
            await _until_stopped(worker, stop)
            await housekeeper.sweep()
        else:
            async with beside(stop.set, keep_posting(queue, outbox), housekeeper.run()):
                await _until_stopped(worker, stop)


async def _until_stopped(worker: DeliveryWorker, stop: asyncio.Event) -> None:
    async def stopping() -> None:
        await stop.wait()
        worker.stop()

    async with beside(stop.set, stopping()):
        await worker.work()
