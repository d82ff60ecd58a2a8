"""A worker in a process of its own, whose handlers hold what they can: `held_worker.py URL KIND [without_pidfd]`.

It writes a line when a handler begins, so that a test knows when to go on, and logs to standard error.
"""

import ctypes
import logging
import multiprocessing
import os
import sys
from typing import Any

from leaseway import Attempt, ThreadAttempt, Worker, connection_process

LIBC = ctypes.PyDLL(None)
"""Calls into C that keep the interpreter's lock, as a careless extension does."""


def write(line: str) -> None:
    """In one piece."""
    os.write(1, f"{line}\n".encode())


async def holds_the_interpreter(item: float, job: Attempt) -> Any:
    """In C, in the event loop."""
    write(f"begun {job.attempts}")
    LIBC.usleep(int(item * 1_000_000))
    return {"attempts": job.attempts}


def holds_it_in_a_thread(item: float, job: ThreadAttempt) -> Any:
    """In C, in a thread: the event loop stands still as well."""
    write(f"begun {job.attempts}")
    LIBC.usleep(int(item * 1_000_000))
    return {"attempts": job.attempts}


def holds_it_in_a_process(item: float, job: ThreadAttempt) -> Any:
    """In C, in a process of its own."""
    return holds_it_in_a_thread(item, job)


def forks(item: Any, job: ThreadAttempt) -> Any:
    """Leaves a child that has inherited all that this process had open, and outlives it."""
    process = multiprocessing.get_context("fork").Process(target=holds_on, daemon=True)
    process.start()
    write(f"forked {process.pid}")
    process.join()


def holds_on() -> None:
    """Until a test ends it, or for twenty seconds."""
    LIBC.sleep(20)


def waits(_item: Any, job: ThreadAttempt) -> Any:
    """Until it is told that its work is of no use."""
    write(f"begun {job.attempts}")
    job.cancelled.wait()
    write(f"cancelled {job.attempts}")
    return {"attempts": job.attempts}


ALL = (holds_the_interpreter, holds_it_in_a_thread, holds_it_in_a_process, forks, waits)
HANDLERS: dict[str, Any] = {each.__name__: each for each in ALL}

if __name__ == "__main__":
    connection_process.ASK_EVERY = 0.2
    if "without_pidfd" in sys.argv:  # As on a system that has none.
        connection_process.CODE = f"import os; del os.pidfd_open; {connection_process.CODE}"
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    executor: Any = "process" if "process" in sys.argv[2] else None
    token = sys.stdin.readline().strip() or None
    worker = Worker(sys.argv[1], token=token, executor=executor, grace=0.0)
    worker.handler(HANDLERS[sys.argv[2]])
    worker.run()
