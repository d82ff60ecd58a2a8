"""Where handlers run: in the worker's event loop, or in threads. `handler_process.py` has them in processes.

Owns the call and how it is ended by force. When it is ended, and what its outcome means, is `worker.py`'s.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from leaseway.attempt import Attempt, ThreadAttempt
from leaseway.errors import HandlerSignal, LeaseLost
from leaseway.leases import Lease
from leaseway.outcome import Outcome

logger = logging.getLogger("leaseway")

Handler = Callable[[Any, Attempt], Awaitable[Any]] | Callable[[Any, ThreadAttempt], Any]
Post = Callable[[Lease, bytes], Awaitable[None]]
BlockingPost = Callable[[Lease, bytes], None]
J = TypeVar("J", bound=Attempt | ThreadAttempt)


class Place(Protocol, Generic[J]):
    """Runs handlers. `job` is what the handler sees of its attempt."""

    async def open(self) -> None:
        """Before the first item. Raises where no handler could ever run here."""

    def job(self, lease: Lease) -> J:
        """A new attempt."""

    async def call(self, lease: Lease, job: J) -> Outcome:
        """Runs the handler. Cancelled, it waits no longer; what runs in a thread or process goes on."""

    def cancel(self, job: J) -> None:
        """Tells the handler that its work is of no use."""

    def patience(self, job: J) -> float | None:
        """Seconds that a handler has to end by itself after `cancel`; None where it cannot be made to."""

    def end(self, job: J) -> None:
        """Makes it end, as far as the cancelled `call` does not."""

    def close(self) -> None:
        """No handler is called any more."""


class InLoop:
    """Coroutine functions, in the worker's event loop."""

    def __init__(self, handler: Any, post: Post, cancel_grace: float) -> None:
        self._handler = handler
        self._post = post
        self._cancel_grace = cancel_grace

    async def open(self) -> None:
        """There is nothing to open."""

    def job(self, lease: Lease) -> Attempt:
        """A new attempt."""
        return Attempt(lease, lambda value: self._post(lease, value))

    async def call(self, lease: Lease, job: Attempt) -> Outcome:
        """Runs the handler."""
        try:
            with _forks_ended():
                value = await self._handler(lease.item, job)
            return returned(lease, value)
        except (Exception, SystemExit) as error:  # noqa: BLE001  also sys.exit(): it ends an attempt, not the worker
            return raised(lease, error)

    def cancel(self, job: Attempt) -> None:
        """Sets the event."""
        job.cancel()

    def patience(self, job: Attempt) -> float | None:
        """None is needed by a handler that never looked whether it is cancelled."""
        return self._cancel_grace if job.looks else 0.0

    def end(self, job: Attempt) -> None:
        """The cancelled call has ended it."""

    def close(self) -> None:
        """There is nothing to close."""


class InThreads:
    """Plain functions, each in a thread. A thread cannot be ended: it keeps its slot until it ends by itself."""

    def __init__(self, handler: Any, post: BlockingPost, slots: int) -> None:
        self._handler = handler
        self._post = post
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="leaseway")

    async def open(self) -> None:
        """There is nothing to open."""

    def job(self, lease: Lease) -> ThreadAttempt:
        """A new attempt."""
        return ThreadAttempt(lease, lambda value: self._post(lease, value))

    async def call(self, lease: Lease, job: ThreadAttempt) -> Outcome:
        """Runs the handler in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, lease, job)

    def cancel(self, job: ThreadAttempt) -> None:
        """Sets the event."""
        job.cancel()

    def patience(self, job: ThreadAttempt) -> float | None:
        """A thread cannot be ended."""
        return None

    def end(self, job: ThreadAttempt) -> None:
        """A thread cannot be ended; a handler that looks learns that it should."""
        job.cancel()

    def close(self) -> None:
        """Threads that still run go on; the process waits for them at its end."""
        self._threads.shutdown(wait=False)

    def _run(self, lease: Lease, job: ThreadAttempt) -> Outcome:
        return called(self._handler, lease, job)


def called(handler: Any, lease: Lease, job: ThreadAttempt) -> Outcome:
    """Calls a plain handler; whatever it raises is an outcome too."""
    try:
        with _forks_ended():
            value = handler(lease.item, job)
        return returned(lease, value)
    except BaseException as error:  # noqa: BLE001  nothing of the handler's may end the thread or process around it
        return raised(lease, error)


@contextmanager
def _forks_ended() -> Iterator[None]:
    """A fork of the handler's that comes out of it ends: it would speak with its parent's voice."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(1)


def returned(lease: Lease, value: Any) -> Outcome:
    """The outcome of what a handler returned."""
    outcome = Outcome.result(value)
    if outcome.verb != "result":
        logger.error("%s fails for good: %s", lease, outcome.members["error"]["message"])
    return outcome


def raised(lease: Lease, error: BaseException) -> Outcome:
    """The outcome of what a handler raised."""
    if not isinstance(error, HandlerSignal | LeaseLost):
        logger.warning("the handler of %s failed", lease, exc_info=error)
    return Outcome.raised(error)


def is_async(handler: Any) -> bool:
    """Whether a call of it must be awaited."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
