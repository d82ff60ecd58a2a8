"""What the commands do, once it is known what was asked. They print nothing themselves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from leaseway import Client, ConnectionLost
from leaseway_notify.announcing import Announcer
from leaseway_notify.compose import execution
from leaseway_notify.delivery import Delivery, Sending
from leaseway_notify.event import Event
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox, now_ms
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Profile
from leaseway_notify.serving import keep_posting, serving
from leaseway_notify.settings import Settings
from leaseway_notify.stores.opening import open_store
from leaseway_notify.worker import DeliveryWorker

QUEUE_WITHIN: Final = 3.0
"""Seconds that a command which ends by itself waits for the queue."""
PORTION: Final = 100
MOST: Final = 10_000
"""So many deliveries a command shows."""
_log = logging.getLogger("leaseway.notify")


async def run_service(settings: Settings, stop: asyncio.Event) -> int:
    """Serves until the stop. Gives the exit status."""
    async with await open_store(settings.store) as store, serving(store, settings) as served:
        _log.info("serving %s", served.url)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, served.ended}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    return 0 if stop.is_set() else 1


async def run_worker(settings: Settings, stop: asyncio.Event, *, drain: bool) -> int:
    """Works until the stop, or with `drain` until nothing is due. Keeps the outbox and the house besides."""
    async with (
        await open_store(settings.store) as store,
        Announcer(settings.service) as announcer,
        execution(store, settings, announce=announcer) as executing,
    ):
        worker = DeliveryWorker(executing, settings, drain=drain)
        within = QUEUE_WITHIN if drain else 30.0
        queue: Client[Any, Any] = Client(settings.queue.url, settings.queue.token, open_timeout=within)
        outbox, housekeeper = Outbox(store, queue, settings.outbox), Housekeeper(store, settings.keep)
        if drain:
            async with queue:
                await outbox.repost()
                await outbox.ask()
            await housekeeper.sweep()
        beside = [asyncio.create_task(_stopped(worker, stop))]
        if not drain:
            beside += [asyncio.create_task(keep_posting(queue, outbox)), asyncio.create_task(housekeeper.run())]
        _log.info("working on %s", settings.queue.url)
        try:
            await worker.work()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
    return 0


async def _stopped(worker: DeliveryWorker, stop: asyncio.Event) -> None:
    await stop.wait()
    worker.stop()


async def save_contact(settings: Settings, profile: Profile) -> None:
    """Writes who a recipient is."""
    async with await open_store(settings.store) as store:
        await store.save_contact(profile)


async def send_event(settings: Settings, said: object) -> tuple[Plan, bool]:
    """What became of an event, and whether its deliveries are in the queue."""
    event = Event.of(said)
    async with await open_store(settings.store) as store, _queue(settings) as queue:
        plan = await Notifier(store, queue, settings).notify(event)
        kept = await store.notification(event.id)
    assert kept is not None
    return plan, all(one.posted_at or one.ended for one in kept.deliveries)


async def look(settings: Settings) -> list[Sending]:
    """What needs a person, newest first."""
    async with await open_store(settings.store) as store:
        found: list[Sending] = []
        while len(found) < MOST:
            portion = await store.attention(PORTION, found[-1].delivery.id if found else "")
            found += portion
            if len(portion) < PORTION:
                break
        return found


async def reopen(settings: Settings, ids: Sequence[str], status: str, told: Callable[[Delivery], object]) -> list[str]:
    """Begins these, and all of this status, anew; gives those that are not among what needs a person."""
    wanted = list(ids)
    if status:
        wanted += [one.delivery.id for one in await look(settings) if one.delivery.status == status]
    missing: list[str] = []
    async with await open_store(settings.store) as store, _queue(settings) as queue:
        outbox = Outbox(store, queue, settings.outbox)
        for delivery_id in dict.fromkeys(wanted):
            opened = await store.reopen(delivery_id, now_ms())
            if opened is None:
                missing.append(delivery_id)
                continue
            await outbox.post([opened])
            told(opened)
    return missing


@asynccontextmanager
async def _queue(settings: Settings) -> AsyncIterator[Client[Any, Any]]:
    """A client of the queue, open where the queue can be reached."""
    client: Client[Any, Any] = Client(settings.queue.url, settings.queue.token, open_timeout=QUEUE_WITHIN)
    async with AsyncExitStack() as stack:
        with suppress(ConnectionLost):
            await stack.enter_async_context(client)
        yield client
