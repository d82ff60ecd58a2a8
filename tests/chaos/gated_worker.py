"""A worker whose handlers wait at a gate and keep a journal there: `gated_worker.py URL KIND`, KIND as in `KINDS`.

Each run of a handler speaks to the campaign on a socket of its own, which its item names: `begun ID ATTEMPTS`, then
`returned` or `cancelled`. Between them it waits for one byte: to post progress and return, or only to return. What was
said is there, also where the worker is killed the next moment. It logs to standard error.
"""

import asyncio
import logging
import socket
import sys
from contextlib import suppress
from typing import Any, Final

from leaseway import Attempt, LeaseLost, ThreadAttempt, Worker, connection_process

KINDS: Final = ("loop", "thread", "inside", "process")
"""Handlers in the event loop or in threads, beside a connection process; in threads, with the connection in the
worker's own process; in processes."""
WITH_CONNECTION_PROCESS: Final = ("loop", "thread")
PLACES: Final = 3
PROGRESS: Final = b"p"
LOOK_EVERY: Final = 0.05
"""Seconds between two looks of a plain handler at whether its work is still wanted."""
HASTY: Final = """
from leaseway import connection, connection_process, transport
transport.PING_EVERY, transport.PING_WITHIN = 0.5, 2.0
connection_process.ASK_EVERY = 1.0
connection.STEADY = connection_process.STEADY = 0.2
connection.URGENT_CEILING = 0.5
"""
"""For the worker and its connection process: what swallows bytes or hangs is noticed soon, and who is struck every few
seconds comes back as soon as one who is struck once."""


async def in_the_loop(item: Any, job: Attempt) -> Any:
    """Is cancelled when its work is of no use."""
    gate, journal = await asyncio.open_unix_connection(item["gates"])
    try:
        journal.write(_begun(job))
        if await gate.read(1) == PROGRESS:
            await job.progress(job.attempts)
        journal.write(b"returned\n")
    except (asyncio.CancelledError, LeaseLost):
        journal.write(b"cancelled\n")
        raise
    finally:
        journal.close()
    return _result(item, job)


def plainly(item: Any, job: ThreadAttempt) -> Any:
    """Looks now and then at whether its work is of use."""
    with socket.socket(socket.AF_UNIX) as gate:
        gate.connect(item["gates"])
        gate.sendall(_begun(job))
        gate.settimeout(LOOK_EVERY)
        word = None
        while word is None and not job.cancelled.is_set():
            with suppress(TimeoutError):
                word = gate.recv(1)
        try:
            if word == PROGRESS:
                job.progress(job.attempts)
        except LeaseLost:
            word = None
        gate.sendall(b"cancelled\n" if word is None else b"returned\n")
    return _result(item, job)


def _begun(job: Attempt | ThreadAttempt) -> bytes:
    return f"begun {job.id} {job.attempts}\n".encode()


def _result(item: Any, job: Attempt | ThreadAttempt) -> Any:
    return {"of": item["of"], "attempts": job.attempts}


def main(url: str, kind: str) -> None:
    """Works until a signal."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    exec(HASTY)  # noqa: S102
    connection_process.CODE = connection_process.CODE.replace("main()", f"exec({HASTY!r}); main()")
    if kind == "inside":
        setattr(sys, "frozen", True)  # noqa: B010  As in a program that brings no Python to start.
    executor: Any = "process" if kind == "process" else None
    worker = Worker(url, criteria={"for": kind}, concurrency=PLACES, executor=executor, name=kind)
    worker.handler(in_the_loop if kind == "loop" else plainly)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
