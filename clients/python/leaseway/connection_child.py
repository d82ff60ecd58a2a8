"""The connection process: one conversation with the server, for the worker at the other end of standard input.

It ends with its worker's process, and at once: then the server gives the items to others. It renews nothing for a
worker that is stopped (SIGSTOP), which is not the same as one that is busy. The worker's end is
`connection_process.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import socket
from pathlib import Path

import orjson

from leaseway.connection import Endpoint, Outside
from leaseway.conversation import Talk, Terms
from leaseway.errors import LeasewayError
from leaseway.frames import LINE_BYTES, Header, error_told, frame, heard
from leaseway.leases import Answered, Drained, Event, Lease, Quiet, Renewed, Settled, Start, Stop
from leaseway.outcome import Outcome

#: Seconds between two looks at whether the worker's process is there, where the system cannot tell us.
LOOK_EVERY = 1.0


def main() -> None:
    """Lives until the worker says so, or is gone."""
    asyncio.run(_live())


async def _live() -> None:
    pipe = socket.socket(fileno=os.dup(0))  # The other end sees an end only when this process is gone.
    reader, writer = await asyncio.open_unix_connection(sock=pipe, limit=LINE_BYTES)
    first = await heard(reader)
    if first is None:
        return
    begin, held = first
    _tell_logs(writer, begin["level"])
    writer.write(frame("ready"))
    child = _Child(begin, orjson.loads(held), writer)
    talking = asyncio.create_task(child.talk.run())
    hearing = asyncio.create_task(child.hear(reader))
    gone = asyncio.create_task(_gone(begin["worker"]))
    await asyncio.wait({talking, hearing, gone}, return_when=asyncio.FIRST_COMPLETED)
    if gone.done() or (hearing.done() and not hearing.result()):
        os._exit(1)
    talking.cancel()
    await asyncio.wait({talking})
    if not talking.cancelled() and isinstance(error := talking.exception(), LeasewayError):
        writer.write(frame("ended", error=error_told(error)))
    elif not talking.cancelled():
        talking.result()  # A fault of ours: its traceback is shown, and another process takes over.
    hearing.cancel()
    gone.cancel()
    writer.close()
    await writer.wait_closed()


class _Child:
    """The conversation, its leases by the numbers that both processes know."""

    def __init__(self, begin: Header, held: list[Header], writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._leases: dict[int, Lease] = {}
        self._numbers: dict[Lease, int] = {}
        self._next = itertools.count(begin["first_number"])
        worker = begin["worker"]
        self.talk = Talk(_terms(begin["terms"]), self._tell, Outside(), lambda: not _stopped(worker))
        for each in held:
            self._know(each["number"], _lease(each))
        self.talk.adopt(self._leases.values())
        if begin["draining"]:
            self.talk.drain()

    async def hear(self, reader: asyncio.StreamReader) -> bool:
        """Does what the worker says; whether its last word was to close, or it is gone."""
        while (said := await heard(reader)) is not None:
            header, body = said
            match header["verb"]:
                case "settle":
                    self.talk.settle(self._leases[header["number"]], _outcome(header["outcome"], body))
                case "progress":
                    self.talk.progress(self._leases[header["number"]], body, header["ref"])
                case "drain":
                    self.talk.drain()
                case "ping":
                    self._writer.write(frame("pong"))
                case "close":
                    return True
        return False

    def _know(self, number: int, lease: Lease) -> None:
        self._leases[number] = lease
        self._numbers[lease] = number

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            if data := self._told(event):
                self._writer.write(data)

    def _told(self, event: Event) -> bytes | None:
        match event:
            case Start(lease):
                self._know(next(self._next), lease)
                return _start(self._numbers[lease], lease)
            case Stop(lease, reason):
                return frame("stop", number=self._numbers[lease], reason=reason)
            case Renewed(lease):
                return frame("renewed", number=self._numbers[lease], until=lease.until)
            case Answered(ref, error):
                return frame("answered", ref=ref, error=error and error_told(error))
            case Settled(lease, ending) if lease in self._numbers:
                number = self._numbers.pop(lease)
                del self._leases[number]
                return frame("settled", number=number, ending=ending)
            case Drained():
                return frame("drained")
            case Quiet():
                return frame("quiet")
        return None


def _terms(told: Header) -> Terms:
    endpoint = Endpoint(told.pop("url"), told.pop("token"))
    return Terms(endpoint, **told)


def _lease(held: Header) -> Lease:
    """A lease that an earlier process held: its handler has its item."""
    return Lease(held["id"], held["attempts"], None, None, None, held["seconds"], -math.inf, math.inf)


def _start(number: int, lease: Lease) -> bytes:
    facts = {name: getattr(lease, name) for name in ("id", "attempts", "progress", "meta", "seconds", "until")}
    return frame("start", orjson.dumps(lease.item), number=number, lease=facts)


def _outcome(told: Header | None, value: bytes) -> Outcome | None:
    return None if told is None else Outcome(told["verb"], told["members"], value or None)


def _tell_logs(writer: asyncio.StreamWriter, level: int) -> None:
    """What this process logs is logged by the worker's, so that there is one place to look and to configure."""

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = self.format(record).encode("utf-8", "replace").decode()
            writer.write(frame("log", name=record.name, level=record.levelno, text=text))

    logger = logging.getLogger("leaseway")
    logger.setLevel(level)
    logger.addHandler(Telling())
    logger.propagate = False


async def _gone(worker: int) -> None:
    """Returns when the worker's process has ended. Not only the end of the pipe tells: a fork of it may hold that."""
    try:
        process = os.pidfd_open(worker)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        parent = os.getppid()
        while os.getppid() == parent:  # noqa: ASYNC110  nothing tells us of it
            await asyncio.sleep(LOOK_EVERY)
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, ended.set)
    await ended.wait()


def _stopped(worker: int) -> bool:
    """Whether the process is stopped (SIGSTOP, Ctrl-Z). Where the system has no /proc, none ever is."""
    try:
        return Path(f"/proc/{worker}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False
