"""Handlers in processes of their own, as the worker's process sees them: one for each slot, kept between items.

For code that holds the interpreter, or that takes its process down: a process that dies fails one attempt and is
replaced, and one whose work is of no use can be ended. A thread of the pool waits on each call; the process's
end of the pipe is `handler_child.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import pickle
import threading
from multiprocessing import resource_tracker
from typing import Any

from leaseway.attempt import ThreadAttempt
from leaseway.errors import HandlerDied, LeaseLost, Rejected
from leaseway.frames import error_told
from leaseway.handler_child import serve
from leaseway.handlers import BlockingPost, InThreads, raised
from leaseway.leases import Lease
from leaseway.outcome import Outcome
from leaseway.signals import how_ended, signals_held

GUARD = (
    "its own error is above; a program that works with executor='process' is imported by each of these processes, "
    "so that what it starts belongs under `if __name__ == '__main__':`"
)


class InProcesses(InThreads):
    """Plain functions, each in a process of its own."""

    def __init__(self, handler: Any, post: BlockingPost, slots: int, cancel_grace: float) -> None:
        super().__init__(handler, post, slots)
        self._cancel_grace = cancel_grace
        self._lock = threading.Lock()
        self._free: list[_HandlerProcess] = []
        self._busy: dict[ThreadAttempt, _HandlerProcess] = {}
        self._closed = False

    async def open(self) -> None:
        """Starts the first process. Raises `ValueError` for a handler that cannot be sent to it, and `HandlerDied`."""
        try:
            pickle.dumps(self._handler)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"with executor='process' a handler is a function of a module's top level: {error}"
            ) from None
        self._free.append(await asyncio.to_thread(_HandlerProcess, self._handler))

    def cancel(self, job: ThreadAttempt) -> None:
        """Sets the event there."""
        with self._lock:
            job.cancel()
            if process := self._busy.get(job):
                process.tell("cancel")

    def patience(self, job: ThreadAttempt) -> float | None:
        """A process can be ended."""
        return self._cancel_grace

    def end(self, job: ThreadAttempt) -> None:
        """Ends the process; the next item gets a new one."""
        with self._lock:
            job.cancel()
            if process := self._busy.get(job):
                process.kill()

    def close(self) -> None:
        """Ends all processes."""
        super().close()
        with self._lock:
            self._closed = True
            for process in self._free:
                process.retire()
            for process in self._busy.values():
                process.kill()

    def _run(self, lease: Lease, job: ThreadAttempt) -> Outcome:
        """In a thread of the pool."""
        try:
            process = self._process_for(job)
        except (HandlerDied, LeaseLost, OSError) as error:
            return raised(lease, error)
        try:
            outcome = process.call(lease, job)
        except HandlerDied as died:
            outcome = Outcome.raised(died) if process.killed else raised(lease, died)
        with self._lock:
            del self._busy[job]
            if process.alive:
                self._free.append(process)
            else:
                process.retire()
        return outcome

    def _process_for(self, job: ThreadAttempt) -> _HandlerProcess:
        process = self._free_process() or _HandlerProcess(self._handler)
        with self._lock:
            if self._closed or job.cancelled.is_set():
                process.retire()
                raise LeaseLost("it was taken away before its handler began")
            self._busy[job] = process
        return process

    def _free_process(self) -> _HandlerProcess | None:
        """One that is kept; what ended it while it was idle is no fault of the next item."""
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.alive:
                    return process
                process.retire()
        return None


class _HandlerProcess:
    """One process, and the pipe to it. Raises `HandlerDied` where it ends."""

    def __init__(self, handler: Any) -> None:
        context = multiprocessing.get_context("spawn")
        resource_tracker.ensure_running()  # Its own start would let the signals in again.
        self._pipe, theirs = context.Pipe()
        level = logging.getLogger("leaseway").getEffectiveLevel()
        self._process = context.Process(target=serve, args=(handler, theirs, level), name="leaseway-handler")
        with signals_held():
            self._process.start()
        theirs.close()
        self._sending = threading.Lock()
        self.killed = False
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            raise HandlerDied(f"the process for handlers {self._end()} before it began: {GUARD}") from None

    @property
    def alive(self) -> bool:
        """Whether it can have another item."""
        return not self.killed and self._process.is_alive()

    def tell(self, verb: str, value: Any = None) -> None:
        """Says something to it; what it does not hear because it has ended is told by `call`."""
        with self._sending, contextlib.suppress(OSError):
            self._pipe.send((verb, value))

    def call(self, lease: Lease, job: ThreadAttempt) -> Outcome:
        """Runs the handler there."""
        self.tell("item", lease)
        try:
            while True:
                verb, value = self._pipe.recv()
                if verb == "ended":
                    outcome: Outcome = value
                    return outcome
                if verb == "progress":
                    self.tell("answer", _posted(job, value))
                elif verb == "until":
                    self.tell("answer", job.until)
                else:
                    name, level, text = value
                    logging.getLogger(name).log(level, "%s", text)
        except (EOFError, OSError):
            raise HandlerDied(f"the handler's process {self._end()}") from None

    def kill(self) -> None:
        """Ends it."""
        self.killed = True
        self._process.kill()

    def retire(self) -> None:
        """Ends it, where no call waits on it."""
        self.kill()
        self._end()

    def _end(self) -> str:
        """Reaps it, and says how it ended."""
        self._process.join()
        self._pipe.close()
        status = self._process.exitcode or 0
        return how_ended(status)


def _posted(job: ThreadAttempt, value: bytes) -> list[Any] | None:
    try:
        job.post(value)
    except (LeaseLost, Rejected) as error:
        return error_told(error)
    return None
