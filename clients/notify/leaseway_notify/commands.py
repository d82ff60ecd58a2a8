"""What the commands do, once it is known what was asked. They print nothing themselves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from leaseway import Client, ConnectionLost
from leaseway_notify.clock import now_ms
from leaseway_notify.delivery import Delivery, Sending
from leaseway_notify.event import Event
from leaseway_notify.mail_address import check_mail_address
from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox
from leaseway_notify.plan import Plan
from leaseway_notify.profile import Profile
from leaseway_notify.serving import serving
from leaseway_notify.settings import Settings, is_loopback
from leaseway_notify.stores.base import Store
from leaseway_notify.stores.opening import open_store
from leaseway_notify.working import QUEUE_WITHIN

PORTION: Final = 100
MOST: Final = 10_000
"""So many deliveries a command shows."""
_log = logging.getLogger("leaseway.notify")


async def run_service(settings: Settings, stop: asyncio.Event) -> int:
    """Serves until the stop. Gives the exit status."""
    async with await open_store(settings.store) as store, serving(store, settings) as served:
        _log.info("serving %s", served.url)
        if not is_loopback(settings.service.host):
            _log.warning(
                "this is plain HTTP, and others than this machine may reach it: tokens travel in it; "
                "listen on 127.0.0.1 behind a proxy that does TLS, or let only that one into this network"
            )
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, served.ended}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    return 0 if stop.is_set() else 1


async def save_contact(
    settings: Settings, recipient: str, address: str | None, name: str | None, zone: str | None
) -> None:
    """Writes who a recipient is; what is None stays as it was. Raises `Refused`."""
    check_mail_address(address or "")
    async with await open_store(settings.store) as store:
        known = await store.profile(recipient) or Profile(recipient)
        await store.save_contact(
            Profile(
                recipient,
                known.address if address is None else address,
                known.name if name is None else name,
                known.zone if zone is None else zone,
            )
        )


async def is_known(settings: Settings, recipient: str) -> bool:
    """Whether there is a profile of them."""
    async with await open_store(settings.store) as store:
        return await store.profile(recipient) is not None


async def forget_recipient(settings: Settings, recipient: str) -> bool:
    """Whether there was somebody to forget."""
    async with await open_store(settings.store) as store:
        return await store.forget(recipient)


async def send_event(settings: Settings, said: object) -> tuple[Plan, bool]:
    """What became of an event, and whether its deliveries are in the queue."""
    event = Event.of(said)
    async with await open_store(settings.store) as store, _queue(settings) as queue:
        plan = await Notifier(store, queue, settings).notify(event)
        kept = await store.notification(event.id)
    assert kept is not None
    return plan, all(one.posted_at or one.ended for one in kept.deliveries)


async def look(settings: Settings) -> list[Sending]:
    """What needs a person, newest first, `MOST` at most."""
    async with await open_store(settings.store) as store:
        found: list[Sending] = []
        async for one in _attention(store):
            found.append(one)
            if len(found) == MOST:
                break
        return found


async def _attention(store: Store) -> AsyncIterator[Sending]:
    """All that needs a person, newest first."""
    last = ""
    while portion := await store.attention(PORTION, last):
        for one in portion:
            yield one
        last = portion[-1].delivery.id


async def reopen(settings: Settings, ids: Sequence[str], status: str, told: Callable[[Delivery], object]) -> list[str]:
    """Begins these, and all of this status, anew; gives those that are not among what needs a person."""
    missing: list[str] = []
    async with await open_store(settings.store) as store, _queue(settings) as queue:
        outbox = Outbox(store, queue, settings.outbox)
        wanted = list(ids)
        if status:  # All of them before the first is begun: those that fail again meanwhile are for the next time.
            wanted += [one.delivery.id async for one in _attention(store) if one.delivery.status == status]
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
