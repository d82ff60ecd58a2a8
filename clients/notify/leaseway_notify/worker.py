"""The worker of deliveries: claims them from the queue, and says how each attempt ended.

Owns what an item means, and the way to a stop. An attempt itself is `execute.py`'s.
"""

import time
from typing import Any, Final

from leaseway import Attempt, Permanent, Release, Retry, Worker
from leaseway_notify.classify import Kind
from leaseway_notify.execute import Again, Done, Execution, Failed, Wait
from leaseway_notify.message import Notes
from leaseway_notify.rules import LeaseTooShort, Rules

VERSION: Final = 1
TYPE: Final = "notification_delivery.execute"


class DeliveryWorker:
    """Works on deliveries until it is stopped, or with `drain` until none is due.

    Raises `LeaseTooShort` where the figures do not fit the queue's `lease`, seconds, as far as that is said.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        execution: Execution,
        rules: Rules,
        *,
        drain: bool = False,
        lease: float | None = None,
        grace: float | None = None,
    ) -> None:
        if lease is not None:
            rules.check(lease)
        self._execution = execution
        self._rules = rules
        self._refused: LeaseTooShort | None = None
        self._worker = Worker(
            url,
            token=token,
            concurrency=rules.in_flight,
            name="leaseway-notify",
            drain=drain,
            grace=rules.worst_case if grace is None else grace,
        )
        self._worker.handler(self._handle)

    async def work(self) -> None:
        """Works. Raises what ends the connection for good, and `LeaseTooShort` where the queue's lease is too short."""
        await self._worker.work()
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """Begins the stop: what is being sent ends by itself."""
        self._worker.stop()

    async def _handle(self, item: Any, job: Attempt) -> dict[str, str]:
        """One attempt at an item of the queue (`schemas/notification-deliveries/item.json`)."""
        self._check_lease(job)
        if item["version"] != VERSION or item["type"] != TYPE:
            raise Permanent(f"expected a {TYPE} of version {VERSION}", code=Kind.UNSUPPORTED_TYPE)
        notes = Notes(job.checkpoint, job.progress)
        ending = await self._execution.run(item["deliveryId"], item["channel"], job.attempts, notes)
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
        """The queue's own figure comes with the first item: nothing is sent where it is too small."""
        try:
            self._rules.check(job.until - time.monotonic() + 1.0)
        except LeaseTooShort as error:
            self._refused = error
            self.stop()
            raise Release from error
