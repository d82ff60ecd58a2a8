"""What a handler sees of its attempt: the item's facts, and the way to post progress.

No decision is made here; `worker.py` hands in what to do with a progress record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from leaseway.worker_state import Lease

PostProgress = Callable[[Lease, Any], Coroutine[Any, Any, None]]


class Facts:
    """What is known of one attempt at an item."""

    def __init__(self, lease: Lease, post_progress: PostProgress) -> None:
        self._lease = lease
        self._post_progress = post_progress

    @property
    def id(self) -> str:
        """The item's id."""
        return self._lease.id

    @property
    def attempts(self) -> int:
        """How many times the item was claimed, this attempt included."""
        return self._lease.attempts

    @property
    def last_progress(self) -> Any:
        """The last progress record of the attempt before: a checkpoint, or None."""
        return self._lease.progress

    @property
    def meta(self) -> Any:
        """What the producer sent along, or None."""
        return self._lease.meta


class Attempt(Facts):
    """An attempt at an item, as an `async def` handler sees it."""

    async def progress(self, value: Any) -> None:
        """Posts a progress record and waits until the server has stored it, over reconnects too.

        Raises `Rejected` where the schema refuses it.
        """
        await self._post_progress(self._lease, value)


class ThreadAttempt(Facts):
    """An attempt at an item, as a plain `def` handler sees it, which runs in a thread."""

    def __init__(self, lease: Lease, post_progress: PostProgress) -> None:
        super().__init__(lease, post_progress)
        self._loop = asyncio.get_running_loop()

    def progress(self, value: Any) -> None:
        """Posts a progress record and blocks until the server has stored it, over reconnects too.

        Raises `Rejected` where the schema refuses it, and `LeaseLost`: a thread cannot be stopped from
        outside, so a long handler learns here that its work is of no use any more.
        """
        posting = self._post_progress(self._lease, value)
        asyncio.run_coroutine_threadsafe(posting, self._loop).result()
