"""A conversation in a process of its own, as the worker's process sees it.

A handler may hold the interpreter for minutes: no thread beside it could answer the server's pings or renew a
lease. So the socket lives in another process, which this file starts, tells and hears, and replaces when it ends
or falls silent. The other end of the pipe is `connection_child.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import subprocess
import sys
import time
from typing import Any, Never, Self

import orjson

from leaseway.connection import STEADY, reconnect_delay
from leaseway.conversation import Deliver, Terms
from leaseway.errors import LeasewayError
from leaseway.frames import LINE_BYTES, Header, error_heard, frame, heard
from leaseway.leases import Answered, Drained, Ending, Event, Lease, Quiet, Renewed, Settled, Start, Stop
from leaseway.outcome import Outcome
from leaseway.signals import how_ended, signals_held

logger = logging.getLogger("leaseway")

#: The child finds our code, and what it needs, where we found it.
CODE = "import sys; sys.path[:] = sys.argv[1:]; from leaseway.connection_child import main; main()"
#: Seconds that the process has to begin, between two questions whether it lives, and for its end.
START_WITHIN = 20.0
ASK_EVERY = 10.0
END_WITHIN = 8.0
#: Questions without an answer, each while our own loop ran: then it hangs.
UNANSWERED = 3


class NoProcess(Exception):
    """A connection process cannot be had here."""


class InProcess:
    """The worker's end. What had no answer from a process that ended is said again to the next one."""

    def __init__(self, terms: Terms, deliver: Deliver) -> None:
        self._terms = terms
        self._deliver = deliver
        self._process: _Process | None = None
        self._draining = False
        self._closing = False
        #: What no reconnect can mend.
        self._failure: LeasewayError | None = None
        self._held: dict[int, Lease] = {}
        self._numbers: dict[Lease, int] = {}
        self._first_number = 1
        self._unanswered: dict[tuple[str, int], bytes] = {}

    @classmethod
    async def started(cls, terms: Terms, deliver: Deliver) -> Self:
        """Starts the process. Raises `NoProcess` where that cannot be done."""
        here = cls(terms, deliver)
        await here._start()
        return here

    async def run(self) -> Never:
        """Keeps it going; cancel it to close. Raises what no reconnect can mend."""
        living = asyncio.create_task(self._live())
        try:
            await asyncio.shield(living)
        finally:
            await self._close(living)

    def settle(self, lease: Lease, outcome: Outcome | None) -> None:
        """The handler of a lease has ended."""
        number = self._numbers[lease]
        said = {"verb": outcome.verb, "members": outcome.members} if outcome else None
        value = outcome.value if outcome else None
        # The empty value is no JSON: it stands for none.
        self._say_until_answered(("settle", number), frame("settle", value or b"", number=number, outcome=said))

    def progress(self, lease: Lease, value: bytes, ref: int) -> None:
        """Says a progress record."""
        number = self._numbers[lease]
        self._say_until_answered(("progress", ref), frame("progress", value, number=number, ref=ref))

    def drain(self) -> None:
        """Claims nothing from now on."""
        self._draining = True
        if self._process is not None:
            self._process.say(frame("drain"))

    def _say_until_answered(self, key: tuple[str, int], data: bytes) -> None:
        self._unanswered[key] = data
        if self._process is not None:
            self._process.say(data)

    # One process after the other

    async def _live(self) -> Never:
        failures = 0
        while True:
            began = time.monotonic()
            how = await self._listen()
            if self._closing:
                raise asyncio.CancelledError
            failures = 1 if time.monotonic() - began >= STEADY else failures + 1
            delay = reconnect_delay(failures, random.random(), urgent=bool(self._held))  # noqa: S311
            logger.error("the connection process %s; a new one takes over in %.1f s", how, delay)
            await asyncio.sleep(delay)
            try:
                await self._start()
            except NoProcess as why:
                logger.error("no connection process: %s", why)  # noqa: TRY400  no traceback helps

    async def _start(self) -> None:
        process = self._process = await _Process.started()  # What is said from now on is said to this one.
        for data in (self._begin(), *self._unanswered.values()):
            process.say(data)
        try:
            async with asyncio.timeout(START_WITHIN):
                ready = await process.heard()
        except BaseException as error:
            self._process = None
            how = await process.end()
            if isinstance(error, TimeoutError):
                raise NoProcess(f"it did not begin within {START_WITHIN:.0f} s and {how}") from None
            raise
        if ready is None:
            self._process = None
            raise NoProcess(f"it {await process.end()} before it began")

    def _begin(self) -> bytes:
        """The first frame; the token travels here, and stands in no list of processes."""
        terms = self._terms
        held = [_facts(number, lease) for number, lease in self._held.items()]
        return frame(
            "begin",
            orjson.dumps(held),
            worker=os.getpid(),
            level=logger.getEffectiveLevel(),
            terms={
                "url": terms.endpoint.url,
                "token": terms.endpoint.token,
                "name": terms.name,
                "slots": terms.slots,
                "criteria": terms.criteria,
                "labels": terms.labels,
                "until_empty": terms.until_empty,
            },
            draining=self._draining,
            first_number=self._first_number,
        )

    async def _listen(self) -> str:
        """Hears the process until its end, and says how it ended."""
        process = self._process
        if process is None:
            return "could not be started"
        watching = asyncio.create_task(process.watch())
        try:
            while (said := await process.heard()) is not None:
                event = self._on_frame(*said)
                if event is not None and not self._closing:
                    self._deliver([event])
        finally:
            watching.cancel()
            self._process = None
            how = await process.end()
        if self._failure is not None:
            raise self._failure
        return how

    async def _close(self, living: asyncio.Task[Never]) -> None:
        """In order: the socket is closed with 1000, and what is logged meanwhile is heard."""
        self._closing = True
        if self._process is not None:
            self._process.say(frame("close"))
            await asyncio.wait({living}, timeout=END_WITHIN)
        living.cancel()
        await asyncio.wait({living})

    # What the process says

    def _on_frame(self, header: Header, body: bytes) -> Event | None:
        match header["verb"]:
            case "start":
                return Start(self._new_lease(header, body))
            case "stop":
                return Stop(self._held[header["number"]], header["reason"])
            case "renewed":
                lease = self._held[header["number"]]
                lease.until = header["until"]
                return Renewed(lease)
            case "answered":
                del self._unanswered["progress", header["ref"]]
                return Answered(header["ref"], error_heard(header["error"]) if header["error"] else None)
            case "settled":
                return Settled(self._forget(header["number"]), header["ending"] and Ending(**header["ending"]))
            case "drained":
                return Drained()
            case "quiet":
                return Quiet()
            case "ended":
                self._failure = error_heard(header["error"])
            case "log":
                logging.getLogger(header["name"]).log(header["level"], "%s", header["text"])
        return None

    def _new_lease(self, header: Header, body: bytes) -> Lease:
        lease = Lease(item=orjson.loads(body), renew_at=0.0, **header["lease"])
        number = header["number"]
        self._held[number] = lease
        self._numbers[lease] = number
        self._first_number = number + 1
        return lease

    def _forget(self, number: int) -> Lease:
        del self._unanswered["settle", number]
        lease = self._held.pop(number)
        del self._numbers[lease]
        return lease


class _Process:
    """One connection process, and the pipe to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._silent = 0

    @classmethod
    async def started(cls) -> Self:
        """Raises `NoProcess`."""
        if getattr(sys, "frozen", False) or not sys.executable:
            raise NoProcess("this program brings no Python that could be started")
        ours, theirs = socket.socketpair()
        try:
            with signals_held():
                process = subprocess.Popen(  # noqa: ASYNC220, S603  milliseconds; our own interpreter
                    [sys.executable, "-c", CODE, *sys.path], stdin=theirs.fileno(), stdout=subprocess.DEVNULL
                )
        except OSError as error:
            ours.close()
            raise NoProcess(str(error)) from None
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES)
        return cls(process, reader, writer)

    def say(self, data: bytes) -> None:
        """Says a frame; it is gathered while the process does not read."""
        self._writer.write(data)

    async def heard(self) -> tuple[Header, bytes] | None:
        """The next frame, None at its end."""
        said = await heard(self._reader)
        self._silent = 0
        return said

    async def watch(self) -> None:
        """Ends a process that hangs. A time in which our own loop stood still counts for one question at most."""
        while self._silent < UNANSWERED:
            self._silent += 1
            self.say(frame("ping"))
            await asyncio.sleep(ASK_EVERY)
        logger.error("the connection process does not answer")
        self._process.kill()

    async def end(self) -> str:
        """Ends it, if it did not by itself, and says how it ended."""
        self._process.kill()
        status = self._process.wait()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return how_ended(status)


def _facts(number: int, lease: Lease) -> dict[str, Any]:
    return {"number": number, "id": lease.id, "attempts": lease.attempts, "seconds": lease.seconds}
