"""Handlers that run in processes of their own: functions of a module's top level, as these must be."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from leaseway import LeaseLost, Permanent, Rejected, Release, Retry, ThreadAttempt


def tells(item: Any, job: ThreadAttempt) -> Any:
    """What it sees."""
    job.progress({"percent": 50})
    job.log.warning("half of %s", item)
    return {
        "id": job.id,
        "attempts": job.attempts,
        "meta": job.meta,
        "checkpoint": job.checkpoint,
        "left": job.deadline - time.time(),
        "pid": os.getpid(),
    }


def ends(item: Any, job: ThreadAttempt) -> Any:
    """As the item asks."""
    value = HOW[item]() if job.attempts == 1 else None
    return {"attempts": job.attempts} if value is None else value


def _dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raises(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


HOW: dict[Any, Callable[[], Any]] = {
    "dies": _dies,
    "exits": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(2),
    "fails": _raises(ValueError("bad picture")),
    "permanent": _raises(Permanent("no such font", code="font")),
    "retry": _raises(Retry("later", in_=0)),
    "release": _raises(Release()),
    "no json": threading.Lock,
}


def forks(_item: Any, _job: Any) -> Any:
    """Its fork comes out of it too, if it can; the status with which that ended."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "the fork"


def posts_nonsense(_item: Any, job: ThreadAttempt) -> Any:
    """Is told what was wrong with it."""
    told = []
    for value in ({"percent": 101}, float("nan")):
        try:
            job.progress(value)
        except Rejected as error:
            told.append(error.code)
    return told


def waits(_item: Any, job: ThreadAttempt) -> Any:
    """Ends when its work is of no use."""
    job.progress("begun")
    job.cancelled.wait()
    try:
        job.progress("cancelled")
    except LeaseLost:
        logging.getLogger("leaseway.handler").warning("cancelled")


def never_ends(item: Any, job: ThreadAttempt) -> Any:
    """Does not look whether its work is of use."""
    if item == "short":
        return os.getpid()
    job.progress(os.getpid())
    threading.Event().wait()
    return None
