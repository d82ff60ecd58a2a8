"""The worker: claims items, runs a handler for each, reports how it ended.

Owns the handlers' tasks and the way to a clean stop. What is said to the server is decided in
`worker_state.py`; sockets are `connection.py`'s.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import itertools
import logging
import operator
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Never, Self, TypeVar

from leaseway.attempt import Attempt, ThreadAttempt
from leaseway.connection import Endpoint, Outside, until
from leaseway.connection_process import InProcess, NoProcess
from leaseway.conversation import Conversation, InThread, Talk, Terms
from leaseway.errors import LeaseLost
from leaseway.handlers import Handler, InLoop, InThreads, Place, is_async, raised
from leaseway.leases import Answered, Drained, Ending, Event, Lease, Quiet, Settled, Start, Stop
from leaseway.outcome import Outcome, fault
from leaseway.protocol import Message, check_seconds, encode
from leaseway.signals import at_first_signal

logger = logging.getLogger("leaseway")

#: Seconds that the server has for its last answers, and handlers for their last words, when a worker stops.
LAST_ANSWERS = 5.0
#: Seconds between two looks of a waiting thread at whether the event loop is there.
LOOK_EVERY = 1.0
#: Bytes of a worker's labels (PROTOCOL.md §4).
LABELS_BYTES = 2048

Executor = Literal["thread", "process"]
H = TypeVar("H", bound=Handler)
Answer = asyncio.Future[None] | concurrent.futures.Future[None]


@dataclass(slots=True)
class _Running:
    """A handler at work, and what its attempt ends with if its task is cancelled."""

    lease: Lease
    job: Attempt | ThreadAttempt
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
        return self.task.result() if error is None else raised(self.lease, error)


class Worker:
    """Works on the items of one queue until it is told to stop.

        worker = Worker("ws://127.0.0.1:8787/resize", criteria={"format": ["jpg", "png"]}, concurrency=4)

        @worker.handler
        async def resize(item, job):
            await job.progress({"percent": 40})
            return {"image": ...}

        worker.run()

    What the handler returns is the item's result. `Permanent` ends the item as failed, `Retry` asks for another
    attempt at a time of its own, `Release` gives the item back, any other exception is a fault that the queue
    retries. An `async def` handler runs in the event loop, a plain `def` in a thread; with `executor="process"` a
    plain one runs in a process of its own.

    A lost connection is no error: the worker reconnects for ever, resumes its leases and says again what had
    no answer. `work` and `run` raise `Unauthorized`, `Forbidden` and `NoSuchQueue`, and `Rejected` where the
    server does not take the criteria. A worker works once: make a new one after it has stopped.

    `grace` is how long handlers may go on after a stop, `cancel_grace` how long one may that has looked at
    `job.cancelled`, seconds. With `drain` it stops by itself when it finds no claimable item and no handler runs.
    `labels` (an object of at most 2 kB) are shown to administrators. docs/worker.md has the rest.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        criteria: dict[str, Any] | None = None,
        concurrency: int = 1,
        executor: Executor | None = None,
        name: str | None = None,
        labels: dict[str, Any] | None = None,
        grace: float = 30.0,
        cancel_grace: float = 5.0,
        drain: bool = False,
        outside: Outside | None = None,
    ) -> None:
        if operator.index(concurrency) < 1:
            raise ValueError("concurrency is 1 or more")
        check_seconds("grace", grace)
        check_seconds("cancel_grace", cancel_grace)
        if executor not in (None, "thread", "process"):
            raise ValueError("executor is 'thread', 'process' or None")
        self.name = _own_name(name or socket.gethostname())
        _check(criteria, labels)
        endpoint = Endpoint.of(url, "work", token)
        self._terms = Terms(endpoint, self.name, concurrency, criteria, labels, until_empty=drain)
        self._executor = executor
        self._grace = grace
        self._cancel_grace = cancel_grace
        self._outside = outside
        #: Called with each attempt that has ended, once the server has said what became of it (`Settled`).
        self.on_settled: Callable[[Lease, Ending | None], None] = lambda _lease, _ending: None
        self._handler: Handler | None = None
        self._here: Place[Any]
        self._conversation: Conversation | None = None
        self._running: dict[Lease, _Running] = {}
        self._refs = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._stopping = asyncio.Event()
        self._quiet = asyncio.Event()
        self._gone = False
        self._background: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def handler(self, function: H) -> H:
        """Decorates the function that does the work: `(item, job)` in, the result out. Raises `TypeError`."""
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a handler is a function of (item, job) that returns its result, and no generator")
        self._handler = function
        return function

    # Running and stopping

    def run(self) -> None:
        """Works until SIGINT or SIGTERM, then stops in order. To be called in the main thread.

        A second signal ends the process on the spot, whatever a handler does: its items are requeued.
        """
        with at_first_signal(self._stop_soon):
            asyncio.run(self.work())

    async def work(self) -> None:
        """Works until `stop` is called. Raises what ends the connection for good, `RuntimeError` where it has worked.

        After `stop` it withdraws its claims, lets handlers go on for the grace, gives back what is left and
        closes; the server charges no loss for it.
        """
        if self._loop is not None:
            raise RuntimeError("a worker works once: make a new one")
        self._loop = asyncio.get_running_loop()
        place = self._here = self._place_for_handlers()
        try:
            await place.open()
            if not self._stopping.is_set():
                await self._converse()
        finally:
            self._gone = True
            place.close()

    async def _converse(self) -> None:
        conversation = self._conversation = await self._begun()
        connection = asyncio.create_task(conversation.run(), name="leaseway-connection")
        try:
            await until(self._stopping, connection)
            conversation.drain()  # It may have been told to stop before there was one.
            await self._finish(conversation, connection)
        finally:
            await self._close(connection)

    async def _begun(self) -> Conversation:
        """Where the conversation lives: away from what handlers may hold up (docs/worker.md)."""
        if self._outside is not None:
            return Talk(self._terms, self._on_events, self._outside)
        if self._executor != "process":
            try:
                return await InProcess.started(self._terms, self._on_events)
            except NoProcess as why:
                logger.warning("no connection process (%s): a handler that holds the interpreter loses its item", why)
        return InThread(self._terms, self._on_events)

    async def _finish(self, conversation: Conversation, connection: asyncio.Task[Never]) -> None:
        """Lets handlers end, then makes them, then gives back what is left: no item waits for its lease to lapse."""
        if self._running:
            logger.info("no new items; handlers that run: %d, with %g s to end", len(self._running), self._grace)
        await until(self._quiet, connection, self._grace)
        for lease in list(self._running):
            self._end(lease, Outcome.release())
        await until(self._quiet, connection, LAST_ANSWERS)
        for lease in list(self._running):
            logger.warning("the handler of %s does not end: its item is given back", lease)
            del self._running[lease]
            conversation.settle(lease, Outcome.release())
        await until(self._quiet, connection, LAST_ANSWERS)

    async def _close(self, connection: asyncio.Task[Never]) -> None:
        """Nothing is held any more. A thread that still runs cannot be ended: its work is of no use."""
        self._gone = True
        for ref in list(self._answers):
            self._answer(ref, LeaseLost("the worker has stopped"))
        for lease in list(self._running):
            self._end(lease, None)
        tasks = [running.task for running in self._running.values()]
        connection.cancel()
        await asyncio.wait([connection])
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_ANSWERS)
        logger.info("stopped")

    def stop(self) -> None:
        """Begins the stop; `work` returns when it is done. Call it in the event loop's thread."""
        self._stopping.set()
        if self._conversation is not None:
            self._conversation.drain()

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

    # Handlers

    def _place_for_handlers(self) -> Place[Any]:
        if self._handler is None:
            raise RuntimeError("a worker needs a handler: decorate a function with @worker.handler")
        if is_async(self._handler):
            if self._executor is not None:
                raise ValueError(f"executor={self._executor!r} is for plain functions: this handler is `async def`")
            return InLoop(self._handler, self._post, self._cancel_grace)
        if self._executor == "process":
            from leaseway.handler_process import InProcesses  # `multiprocessing` is large, and for few

            return InProcesses(self._handler, self._post_blocking, self._terms.slots, self._cancel_grace)
        return InThreads(self._handler, self._post_blocking, self._terms.slots)

    def _on_events(self, events: list[Event]) -> None:
        for event in events if not self._gone else ():
            match event:
                case Start(lease):
                    self._start(lease)
                case Stop(lease):
                    self._cancel(lease)
                case Answered(ref, error):
                    self._answer(ref, error)
                case Settled(lease, ending):
                    self.on_settled(lease, ending)
                case Drained():
                    logger.info("the queue is empty")
                    self.stop()
                case Quiet():
                    self._quiet.set()

    def _start(self, lease: Lease) -> None:
        job = self._here.job(lease)
        task = asyncio.create_task(self._here.call(lease, job), name=f"leaseway-{lease.id}")
        by_itself = Outcome.fail(fault("the handler was cancelled", "CancelledError"), retryable=True)
        self._running[lease] = _Running(lease, job, task, by_itself)
        # Not in the task: one that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda _: self._ended(lease))

    def _ended(self, lease: Lease) -> None:
        running = self._running.pop(lease, None)
        if running is not None and self._conversation is not None:
            self._conversation.settle(lease, running.outcome())

    def _cancel(self, lease: Lease) -> None:
        """Its work is of no use: the handler is told, and made to end where it does not by itself."""
        if lease not in self._running:
            return
        job = self._running[lease].job
        self._here.cancel(job)
        patience = self._here.patience(job)
        if patience:
            asyncio.get_running_loop().call_later(patience, self._end, lease, None)
        elif patience is not None:
            self._end(lease, None)

    def _end(self, lease: Lease, ending: Outcome | None) -> None:
        """Ends the handler by force, as far as that is possible where it runs."""
        running = self._running.get(lease)
        if running is not None:
            self._here.end(running.job)
            running.cancel(ending)

    # Progress

    async def _post(self, lease: Lease, value: bytes) -> None:
        answer = asyncio.get_running_loop().create_future()
        self._say(lease, value, answer)
        await answer

    def _post_blocking(self, lease: Lease, value: bytes) -> None:
        """In a thread. Every wait has an end, also where the event loop has none any more to answer."""
        answer: concurrent.futures.Future[None] = concurrent.futures.Future()
        loop = self._loop
        assert loop is not None
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._say, lease, value, answer)
        while not loop.is_closed():
            with contextlib.suppress(TimeoutError):
                return answer.result(LOOK_EVERY)
        raise LeaseLost("the worker has stopped")

    def _say(self, lease: Lease, value: bytes, answer: Answer) -> None:
        ref = next(self._refs)
        self._answers[ref] = answer
        if self._gone or self._conversation is None or lease not in self._running:
            self._answer(ref, LeaseLost(f"{lease.id} is no longer ours"))
        else:
            self._conversation.progress(lease, value, ref)

    def _answer(self, ref: int, error: Exception | None) -> None:
        answer = self._answers.pop(ref, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


def _check(criteria: Message | None, labels: Message | None) -> None:
    """Raises here rather than at the first connection: `Rejected` for what is no JSON, `ValueError` for labels."""
    encode({"claim": {"criteria": criteria}})
    if labels is not None and (not isinstance(labels, dict) or len(encode(labels)) > LABELS_BYTES):
        raise ValueError(f"labels are an object of at most {LABELS_BYTES} bytes")


def _own_name(name: str) -> str:
    """A name that no other process uses: what resumes a lease must be what claimed it (§4)."""
    if not name.isprintable() or len(name) > 150:
        raise ValueError("a worker's name is at most 150 printable characters")
    return f"{name}-{os.getpid()}-{secrets.token_hex(4)}"
