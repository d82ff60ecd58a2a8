"""A worker in a process of its own whose handler cannot be stopped: `stubborn_worker.py URL KIND`.

It writes a line when the handler begins and one when it is told to stop, so that a test knows when to go on.
"""

import asyncio
import os
import sys
import threading
from typing import Any

from leaseway import Attempt, ThreadAttempt, Worker

HOUR = 3_600.0


def write(line: str) -> None:
    """In one piece, also between two steps of another write."""
    os.write(1, f"{line}\n".encode())


class TellingWorker(Worker):
    """Says when it was told to stop."""

    def _stop_soon(self) -> None:
        super()._stop_soon()
        write("told")


async def swallows(_item: Any, _job: Attempt) -> None:
    """Does not let itself be cancelled."""
    write("begun")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def waits(_item: Any, _job: Attempt) -> None:
    """Could be cancelled, in the hour that the worker gives it."""
    write("begun")
    await asyncio.Event().wait()


async def blocks(_item: Any, _job: Attempt) -> None:
    """Holds up the event loop."""
    write("begun")
    threading.Event().wait()


async def spins(_item: Any, _job: Attempt) -> None:
    """Holds up the event loop, and is never outside of Python."""
    write("begun")
    while True:
        pass


def in_a_thread(_item: Any, _job: ThreadAttempt) -> None:
    """Holds up the end of the process, which waits for its threads."""
    write("begun")
    threading.Event().wait()


HANDLERS: dict[str, Any] = {each.__name__: each for each in (swallows, waits, blocks, spins, in_a_thread)}

if __name__ == "__main__":
    worker = TellingWorker(sys.argv[1], grace=HOUR)
    worker.handler(HANDLERS[sys.argv[2]])
    worker.run()
