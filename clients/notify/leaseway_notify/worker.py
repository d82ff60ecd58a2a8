"""The worker of deliveries: claims them from the queue, and says how each attempt ended.

Owns what an item means, and the way to a stop. An attempt itself is `execute.py`'s.
"""

import asyncio
import logging
import time
from typing import Any, Final

from leaseway import Attempt, Permanent, Release, Retry, Worker
from leaseway_notify.classify import Kind
from leaseway_notify.errors import StoreAway
from leaseway_notify.execute import Again, Done, Execution, Failed, Wait
from leaseway_notify.message import Notes
from leaseway_notify.queue import TYPE, VERSION
from leaseway_notify.rules import LeaseTooShort, check_lease
from leaseway_notify.settings import Settings

_log = logging.getLogger("leaseway.notify")

SLACK: Final = 1.0
"""Seconds that the way of an item from the server may have taken of its lease."""


class DeliveryWorker:
    """Works on deliveries until it is stopped, or with `drain` until none is due.

    Raises `LeaseTooShort` where a claim may outlast the lease that the settings name.
    """

    def __init__(self, execution: Execution, settings: Settings, *, drain: bool = False) -> None:
        check_lease(settings, settings.queue.lease / 1000)
        self._execution = execution
        self._settings = settings
        self._refused: LeaseTooShort | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._worker = Worker(
            settings.queue.url,
            token=settings.queue.token,
            concurrency=settings.worker.in_flight,
            name="leaseway-notify",
            drain=drain,
            grace=settings.worst_case / 1000,
        )
        self._worker.handler(self._handle)
        self._worker.on_settled = self._on_settled

    async def work(self) -> None:
        """Works. Raises what ends the connection for good, and `LeaseTooShort` where the queue's own lease is.

        After `stop` what is being sent ends by itself, and nothing more is begun.
        """
        await self._worker.work()
        await asyncio.gather(*self._telling)
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """Begins the stop. To be called in the event loop's thread."""
        self._worker.stop()

    async def _handle(self, item: Any, job: Attempt) -> dict[str, str]:
        """One attempt at an item of the queue (`schemas/notification-deliveries/item.json`)."""
        self._check_lease(job)
        if not isinstance(item, dict) or (item.get("version"), item.get("type")) != (VERSION, TYPE):
            raise Permanent(f"expected a {TYPE} of version {VERSION}", code=Kind.UNSUPPORTED_TYPE)
        ending = await self._execution.run(item["deliveryId"], job.attempts, Notes(job.checkpoint, job.progress))
        match ending:
            case Done(status, reason):
                return {"status": status, "reason": reason}
            case Wait(seconds):
                raise Release(seconds)
            case Again(fault, seconds):
                raise Retry(fault, in_=seconds)
            case Failed(fault):
                raise Permanent(fault, code=fault.kind)

    def _check_lease(self, job: Attempt) -> None:
        """What the queue really gives comes with an item: nothing is sent where it is too little."""
        try:
            check_lease(self._settings, job.until - time.monotonic() + SLACK)
        except LeaseTooShort as error:
            self._refused = error
            self.stop()
            raise Release from error

    def _on_settled(self, lease: Any, ending: Any) -> None:
        """The queue knows when a delivery has spent its tries: see `Worker.on_settled`."""
        if ending is not None and ending.status == "dead":
            task = asyncio.create_task(self._give_up(lease.item["deliveryId"], lease.attempts, ending.error))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _give_up(self, delivery_id: str, fence: int, error: str) -> None:
        try:
            await self._execution.given_up(delivery_id, fence, error)
        except StoreAway as away:  # The outbox asks the queue, sooner or later, what became of it.
            _log.warning("%s is dead, which the store could not be told: %s", delivery_id, away)
