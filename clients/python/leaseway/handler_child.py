"""A process for handlers: runs one after the other, as the worker at the other end of its pipe says.

It ends with its worker: on Linux at once, elsewhere as soon as the interpreter is free. The worker's end is
`handler_process.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Never

from leaseway.attempt import ThreadAttempt
from leaseway.frames import error_heard
from leaseway.handlers import called
from leaseway.leases import Lease
from leaseway.signals import pass_over_signals

#: Of <sys/prctl.h>: which signal to get when the parent (its thread that started us) ends.
PR_SET_PDEATHSIG = 1


def serve(handler: Any, pipe: Connection, level: int) -> Never:
    """The process."""
    pass_over_signals()
    _end_with_worker()
    desk = _Desk(pipe)
    _tell_logs(desk, level)
    threading.Thread(target=desk.read, daemon=True).start()
    desk.say("ready")
    while True:
        lease, job = desk.work.get()
        desk.say("ended", called(handler, lease, job))


class _Desk:
    """What comes in by the pipe and what goes out, between the handler's thread and the one that reads."""

    def __init__(self, pipe: Connection) -> None:
        self.work: SimpleQueue[tuple[Lease, ThreadAttempt]] = SimpleQueue()
        self._pipe = pipe
        self._saying = threading.Lock()
        self._asking = threading.Lock()
        self._answers: SimpleQueue[Any] = SimpleQueue()

    def say(self, verb: str, value: Any = None) -> None:
        """Says something to the worker, from any thread."""
        with self._saying:
            self._pipe.send((verb, value))

    def read(self) -> Never:
        """In a thread: does what the worker says, until it is gone."""
        try:
            said = self._pipe.recv()
            while True:
                _, lease = said
                job = _Attempt(lease, self)
                self.work.put((lease, job))
                while (said := self._pipe.recv())[0] != "item":
                    self._on_said(job, *said)
        except (EOFError, OSError):
            os._exit(1)

    def _on_said(self, job: ThreadAttempt, verb: str, value: Any) -> None:
        match verb:
            case "answer":
                self._answers.put(value)
            case "cancel":
                job.cancel()

    def ask(self, verb: str, value: Any = None) -> Any:
        """Says something to the worker, and waits for its answer."""
        with self._asking:
            self.say(verb, value)
            return self._answers.get()

    def post(self, value: bytes) -> None:
        """Posts a progress record, and waits until it is stored."""
        if refused := self.ask("progress", value):
            raise error_heard(refused)


class _Attempt(ThreadAttempt):
    """An attempt whose lease is held by another process."""

    def __init__(self, lease: Lease, desk: _Desk) -> None:
        super().__init__(lease, desk.post)
        self._desk = desk

    @property
    def until(self) -> float:
        """Renewals move it on, and are heard of over there."""
        until: float = self._desk.ask("until")
        return until


def _end_with_worker() -> None:
    """Has the system end this process with the one that started it, whatever a handler does: Linux can."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _tell_logs(desk: _Desk, level: int) -> None:
    """What `job.log` and this library log is logged by the worker's process, as it is configured there."""

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            desk.say("log", (record.name, record.levelno, self.format(record)))

    logger = logging.getLogger("leaseway")
    logger.handlers = [Telling()]
    logger.setLevel(level)
    logger.propagate = False
