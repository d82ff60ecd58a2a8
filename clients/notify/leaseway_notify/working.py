"""A whole worker, as the settings say: it executes deliveries, and does beside it what somebody has to do.

Posts what is not known to be in the queue, and keeps house. A resident one does all that until it is told to stop; a
drain, for a platform without resident processes, does it once and ends. Opens and closes; decides nothing.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from leaseway import Client
from leaseway_notify.channels.in_app import Announce, to_nobody
from leaseway_notify.compose import execution
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.outbox import Outbox
from leaseway_notify.policy import Policies
from leaseway_notify.settings import Settings
from leaseway_notify.stores.opening import open_store
from leaseway_notify.worker import DeliveryWorker

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings, *, drain: bool = False, policies: Policies | None = None) -> None:
    """Works until SIGINT or SIGTERM, then lets what is being sent end; a second one ends it on the spot.

    To be called in the main thread. Raises as `work`.
    """
    asyncio.run(_until_signal(settings, drain, policies))


async def work(
    settings: Settings,
    stop: asyncio.Event,
    *,
    drain: bool = False,
    policies: Policies | None = None,
    announce: Announce = to_nobody,
) -> None:
    """Works until `stop` is set, or with `drain` until nothing is due.

    Raises `StoreRefused`, `BadKey`, `ValueError` and `LeaseTooShort` for settings with which nothing can be sent, and
    what the queue's client and worker raise.
    """
    async with (
        await open_store(settings.store) as store,
        Client[Any, Any](settings.queue.url, settings.queue.token) as queue,
        execution(store, settings, policies=policies, announce=announce) as executing,
    ):
        outbox, housekeeper = Outbox(store, queue, settings.outbox), Housekeeper(store, settings.keep)
        worker = DeliveryWorker(executing, settings, drain=drain)
        if drain:
            await outbox.repost()
            await outbox.ask()
            await _until_stopped(worker, stop)
            await housekeeper.sweep()
        else:
            async with _beside(stop.set, outbox.run(), housekeeper.run()):
                await _until_stopped(worker, stop)


async def _until_stopped(worker: DeliveryWorker, stop: asyncio.Event) -> None:
    async def stopping() -> None:
        await stop.wait()
        worker.stop()

    async with _beside(stop.set, stopping()):
        await worker.work()


@asynccontextmanager
async def _beside(ended: Callable[[], None], *works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does these beside the body, and no longer. `ended` is called when one of them ends; what it raised is raised."""
    tasks = [asyncio.create_task(one) for one in works]
    for task in tasks:
        task.add_done_callback(lambda _: ended())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _until_signal(settings: Settings, drain: bool, policies: Policies | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        for number in SIGNALS:  # The next one does what the system does with it.
            loop.remove_signal_handler(number)
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, told)
    await work(settings, stop, drain=drain, policies=policies)
