"""What a handler sees of its attempt: the item's facts, whether it is still wanted, and the way to post progress.

No decision is made here; `worker.py` hands in what to do with a progress record.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from leaseway.leases import Lease
from leaseway.protocol import encode_value
from leaseway.shapes import to_json

#: What handlers log goes here, beside what the worker logs to `leaseway`.
logger = logging.getLogger("leaseway.handler")


class _Named(logging.LoggerAdapter[logging.Logger]):
    """Begins each line with the item's id and the attempt's number."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{(self.extra or {})['attempt']}: {msg}", kwargs


class Facts:
    """What is known of one attempt at an item."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        #: A logger (`leaseway.handler`) whose lines begin with the item's id and the attempt's number.
        self.log = _Named(logger, {"attempt": str(lease)})

    @property
    def id(self) -> str:
        """The item's id."""
        return self._lease.id

    @property
    def attempts(self) -> int:
        """How many times the item was claimed, this attempt included."""
        return self._lease.attempts

    @property
    def checkpoint(self) -> Any:
        """The last progress record of the attempt before: what to go on from, or None."""
        return self._lease.progress

    @property
    def meta(self) -> Any:
        """What the producer sent along, or None."""
        return self._lease.meta

    @property
    def until(self) -> float:
        """The same as `deadline`, as `time.monotonic()` counts."""
        return self._lease.until

    @property
    def deadline(self) -> float:
        """Until when the item is ours for certain, as `time.time()` counts.

        The worker renews it in time while it has a connection, so that it moves on; it is of interest to who must
        know how long the item stays ours without one. A queue's `progress_by` is another clock: only a progress
        record moves that.
        """
        return time.time() + self.until - time.monotonic()


class Attempt(Facts):
    """An attempt at an item, as an `async def` handler sees it."""

    def __init__(self, lease: Lease, post: Callable[[bytes], Awaitable[None]]) -> None:
        super().__init__(lease)
        self._post = post
        self._cancelled = asyncio.Event()
        #: Whether the handler has looked at `cancelled`, so that it may end by itself.
        self.looks = False

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the item is no longer wanted of us: cancelled, expired, lapsed, or finished by somebody else.

        A handler that has looked at this event before then has the worker's `cancel_grace` to end by itself;
        then, and all others at once, it is cancelled as any task is.
        """
        self.looks = True
        return self._cancelled

    def cancel(self) -> None:
        """Sets the event, for the worker."""
        self._cancelled.set()

    async def progress(self, value: Any) -> None:
        """Posts a progress record and waits until the server has stored it, over reconnects too.

        Raises `Rejected` where the schema refuses it, and `LeaseLost`.
        """
        await self._post(encode_value(to_json(value)))


class ThreadAttempt(Facts):
    """An attempt at an item, as a plain `def` handler sees it, which runs in a thread or in a process."""

    def __init__(self, lease: Lease, post: Callable[[bytes], None]) -> None:
        super().__init__(lease)
        #: Posts what is JSON already.
        self.post = post
        #: Set when the item is no longer wanted of us: cancelled, expired, lapsed, or finished by somebody else.
        #: A thread cannot be stopped from outside: a long handler looks here. A process is ended after the worker's
        #: `cancel_grace`.
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        """Sets the event, for the worker."""
        self.cancelled.set()

    def progress(self, value: Any) -> None:
        """Posts a progress record and blocks until the server has stored it, over reconnects too.

        Raises `Rejected` where the schema refuses it, and `LeaseLost`.
        """
        self.post(encode_value(to_json(value)))
