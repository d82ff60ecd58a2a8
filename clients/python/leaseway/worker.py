"""The worker: claims items, runs a handler for each, reports how it ended.

Owns the handlers' tasks and the way to a clean stop. What is said to the server is decided in
`worker_state.py`; sockets are `connection.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Never, Self, TypeVar

from leaseway.attempt import Attempt, ThreadAttempt
from leaseway.connection import Endpoint, Link, Outside, until
from leaseway.errors import HandlerSignal, LeaseLost
from leaseway.outcome import Outcome, fault
from leaseway.worker_state import Answered, Event, Lease, Start, Stop, WorkerState

logger = logging.getLogger("leaseway")

#: Seconds that the server has for its last answers, and handlers for their last words, when a worker stops.
LAST_ANSWERS = 5.0

Handler = Callable[[Any, Attempt], Awaitable[Any]] | Callable[[Any, ThreadAttempt], Any]
H = TypeVar("H", bound=Handler)


@dataclass(slots=True)
class _Running:
    """A handler at work, and what its attempt ends with if its task is cancelled."""

    task: asyncio.Task[Outcome]
    if_cancelled: Outcome | None

    def cancel(self, ending: Outcome | None) -> None:
        self.if_cancelled = ending
        self.task.cancel()

    def outcome(self) -> Outcome | None:
        """How the attempt ended, once the task is done; whatever the task raised is an outcome too."""
        if self.task.cancelled():
            return self.if_cancelled
        error = self.task.exception()
        return self.task.result() if error is None else Outcome.raised(error)


class Worker:
    """Works on the items of one queue until it is told to stop.

        worker = Worker("ws://127.0.0.1:8787/resize", criteria={"format": ["jpg", "png"]}, concurrency=4)

        @worker.handler
        async def resize(item, job):
            await job.progress({"percent": 40})
            return {"image": ...}

        worker.run()

    What the handler returns is the item's result. `Permanent` ends the item as failed, `Release` gives it
    back, any other exception is a fault that the queue retries. A plain `def` handler runs in a thread.

    A lost connection is no error: the worker reconnects for ever, resumes its leases and says again what had
    no answer. `work` and `run` raise `Unauthorized`, `Forbidden` and `NoSuchQueue`, and `Rejected` where the
    server does not take the criteria. `grace` is how long handlers may go on after a stop, seconds. With `drain` it
    stops by itself when the queue has nothing for it. A worker works once: make a new one after it has stopped.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        criteria: dict[str, Any] | None = None,
        concurrency: int = 1,
        name: str | None = None,
        grace: float = 30.0,
        drain: bool = False,
        outside: Outside | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency is 1 or more")
        self.name = _own_name(name or socket.gethostname())
        self._grace = grace
        self._state = WorkerState(self.name, concurrency, criteria, until_empty=drain)
        self._outside = outside or Outside()
        self._link = Link(Endpoint.of(url, "work", token), self._state, self._on_events, self._outside)
        self._handler: Handler | None = None
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="leaseway")
        self._running: dict[Lease, _Running] = {}
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._stopping = asyncio.Event()
        self._quiet = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handler(self, function: H) -> H:
        """Decorates the function that does the work: `(item, job)` in, the result out."""
        self._handler = function
        return function

    # Running and stopping

    def run(self) -> None:
        """Works until SIGINT or SIGTERM, then stops in order. To be called in the main thread.

        A second signal ends the process on the spot, whatever a handler does: its items are requeued.
        """
        with _at_first_signal(self._stop_soon):
            asyncio.run(self.work())

    async def work(self) -> None:
        """Works until `stop` is called. Raises what ends the connection for good.

        After `stop` it withdraws its claims, lets handlers go on for the grace, gives back what is left and
        closes; the server charges no loss for it.
        """
        if self._handler is None:
            raise RuntimeError("a worker needs a handler: decorate a function with @worker.handler")
        self._loop = asyncio.get_running_loop()
        connection = asyncio.create_task(self._link.run(), name="leaseway-connection")
        try:
            await until(self._stopping, connection)
            self._note_quiet()
            await until(self._quiet, connection, self._grace)
            for running in list(self._running.values()):
                running.cancel(Outcome.release())
            await until(self._quiet, connection, LAST_ANSWERS)
        finally:
            await self._close(connection)

    def stop(self) -> None:
        """Begins the stop; `work` returns when it is done. Call it in the event loop's thread."""
        self._stopping.set()
        self._state.drain()
        self._link.wake()

    async def __aenter__(self) -> Self:
        """Starts to work beside the body."""
        self._background = asyncio.create_task(self.work(), name="leaseway-worker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops in order. Raises what `work` raises."""
        self.stop()
        if self._background is not None:
            await self._background

    def _stop_soon(self) -> None:
        """Between any two steps of the main thread: before there is a loop, in it, or after it."""
        if self._loop is None:
            self.stop()
        else:
            with contextlib.suppress(RuntimeError):  # The loop is closed: it has stopped already.
                self._loop.call_soon_threadsafe(self.stop)

    async def _close(self, connection: asyncio.Task[Never]) -> None:
        """Nothing is held any more. A thread that still runs cannot be ended: its work is of no use."""
        self._state.abandon()
        for ref in list(self._answers):
            self._answer(ref, LeaseLost("the worker has stopped"))
        for running in self._running.values():
            running.cancel(None)
        connection.cancel()
        tasks = [running.task for running in self._running.values()]
        await asyncio.wait([connection, *tasks], timeout=LAST_ANSWERS)
        self._threads.shutdown(wait=False)

    def _note_quiet(self) -> None:
        if self._stopping.is_set() and self._state.quiet:
            self._quiet.set()

    # Handlers

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Start(lease):
                    self._start(lease)
                case Stop(lease):
                    self._cancel(lease)
                case Answered(ref, error):
                    self._answer(ref, error)
        if self._state.emptied and not self._stopping.is_set():
            self.stop()
        self._note_quiet()

    def _start(self, lease: Lease) -> None:
        task = asyncio.create_task(self._attempt(lease), name=f"leaseway-{lease.id}")
        by_itself = Outcome.fail(fault("the handler was cancelled", "CancelledError"), retryable=True)
        self._running[lease] = _Running(task, by_itself)
        # Not in the task: one that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda _: self._ended(lease))

    async def _attempt(self, lease: Lease) -> Outcome:
        try:
            return Outcome.result(await self._call(lease))
        except (HandlerSignal, LeaseLost) as signalled:
            return Outcome.raised(signalled)
        except (Exception, SystemExit) as error:  # A library's sys.exit() ends an attempt, not the worker.
            logger.warning("handler of %s/%d failed", lease.id, lease.attempts, exc_info=True)
            return Outcome.raised(error)

    async def _call(self, lease: Lease) -> Any:
        handler: Any = self._handler
        if inspect.iscoroutinefunction(handler):
            return await handler(lease.item, Attempt(lease, self._progress))
        job = ThreadAttempt(lease, self._progress)
        return await asyncio.get_running_loop().run_in_executor(self._threads, _called, handler, lease.item, job)

    def _ended(self, lease: Lease) -> None:
        outcome = self._running.pop(lease).outcome()
        self._state.settle(lease, outcome, self._outside.clock())
        self._note_quiet()
        self._link.wake()

    def _cancel(self, lease: Lease) -> None:
        """Its work is of no use. A thread cannot be stopped: it keeps its slot until it ends."""
        running = self._running.get(lease)
        if running is not None and inspect.iscoroutinefunction(self._handler):
            running.cancel(None)

    # Progress

    async def _progress(self, lease: Lease, value: Any) -> None:
        ref = self._state.progress(lease, value)
        answer = self._answers[ref] = asyncio.get_running_loop().create_future()
        self._link.wake()
        try:
            await answer
        finally:
            del self._answers[ref]

    def _answer(self, ref: int, error: Exception | None) -> None:
        answer = self._answers.get(ref)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


@contextlib.contextmanager
def _at_first_signal(told: Callable[[], None]) -> Iterator[None]:
    """Calls `told` at the first SIGINT or SIGTERM. From then on both do what the system does with them: they kill.

    Nothing of ours needs to run for that, so that it works whatever holds up the event loop or the interpreter.
    """

    def on_signal(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        told()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, on_signal)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None is one that Python did not set and cannot set.


def _called(handler: Any, item: Any, job: ThreadAttempt) -> Any:
    """Calls a plain handler in its thread."""
    try:
        return handler(item, job)
    except StopIteration as error:  # No future takes one: nobody would ever learn that the handler has ended.
        raise RuntimeError("the handler raised StopIteration") from error


def _own_name(name: str) -> str:
    """A name that no other process uses: what resumes a lease must be what claimed it (§4)."""
    if not name.isprintable() or len(name) > 150:
        raise ValueError("a worker's name is at most 150 printable characters")
    return f"{name}-{os.getpid()}-{secrets.token_hex(4)}"
