"""A program in any language as the handler of a worker: what it is given, and what it says (docs/programs.md).

Owns the contract with the program; the process is `child.py`'s, the lease the worker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson

from leaseway.attempt import Attempt
from leaseway.cli.child import Child, lines
from leaseway.cli.guardian import Guardian
from leaseway.errors import LeaseLost, Permanent, Rejected, Release, Retry
from leaseway.protocol import encode_value

EX_DATAERR: Final = 65
"""The exit status that says: this item can never succeed. It is sysexits.h's word for wrong input."""
LONGEST_OUTPUT: Final = 16 * 1024 * 1024
"""Bytes of a result that are kept in memory; what the server takes is less."""
LONGEST_RECORD: Final = 32 * 1024
LONGEST_LINE: Final = 2_000
LAST_WORDS: Final = 1.0
"""Seconds for what is still in the pipes, where something that left the group keeps them open."""
START_AGAIN: Final = 10.0
"""Seconds before an item is given out again whose program could not be started."""
_SHOWN: Final = 100
_BEGINNING: Final = 60
_HEAD: Final = 1_024

Say = Callable[[str, str], None]
"""`(id, text)`."""


class NotStarted(Release):
    """The program could not be started, which is not the item's fault: it goes back, at no charge."""

    def __init__(self, why: str) -> None:
        super().__init__(delay=START_AGAIN)
        self.args = (why,)


@dataclass(frozen=True, slots=True)
class Program:
    """What runs, and how it is ended: after SIGTERM it has `kill_after` seconds, then it is killed."""

    words: tuple[str, ...]
    permanent: frozenset[int]
    kill_after: float
    guardian: Guardian
    waiting: Executor
    say: Say

    async def run(self, item: Any, job: Attempt) -> Any:
        """Runs it once. Gives the result. It is gone then, in any case.

        Raises `Permanent`, `Retry`, and `NotStarted`.
        """
        child = self._start(item, job)
        attended = asyncio.create_task(self._attend(child, job))
        try:
            return await asyncio.shield(attended)
        except asyncio.CancelledError:
            child.signal(signal.SIGTERM)
            await asyncio.wait({attended}, timeout=self.kill_after)
            raise
        finally:
            if not child.ended.done():
                child.signal(signal.SIGKILL)
            await asyncio.wait({child.ended})
            attended.cancel()
            self.guardian.ended(child.pid)
            child.close()

    def _start(self, item: Any, job: Attempt) -> Child:
        try:
            return Child.start(self.words, _environment(job), orjson.dumps(item), self.guardian.began, self.waiting)
        except OSError as error:
            raise NotStarted(f"cannot start {self.words[0]}: {error.strerror}") from None

    async def _attend(self, child: Child, job: Attempt) -> Any:
        """Listens until it has ended. What it left behind ends with it."""
        await child.listen()
        heard = _Heard(job, child, self.say)
        listening = heard.listen()
        status = await child.ended
        child.signal(signal.SIGKILL)
        await asyncio.wait(listening, timeout=LAST_WORDS)
        for task in listening:
            if not task.cancel():
                task.result()
        await heard.progress.flush()
        if status != 0 and not heard.too_long:
            raise self._fault(status, heard.last_line)
        return heard.result()

    def _fault(self, status: int, last_line: str) -> Permanent | Retry:
        if status < 0:  # What it said last was before it knew.
            said = f"; the last that it said: {last_line}" if last_line else ""
            return Retry(f"killed by {_name(-status)}{said}")
        told = last_line or f"exit status {status}"
        return Permanent(told, code=f"exit-{status}") if status in self.permanent else Retry(told)


def _name(number: int) -> str:
    """A signal's; those of real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def words_of(command: str) -> tuple[str, ...]:
    """The program and its arguments, as a shell would part them. Raises `click.UsageError` for what cannot be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--exec cannot be read: {error}") from None
    if not words:
        raise click.UsageError("--exec is empty: which program?")
    found = shutil.which(words[0])
    if found is None:
        where = "is there, and may not be executed (chmod +x)" if Path(words[0]).exists() else "is not found"
        raise click.UsageError(f"--exec: {words[0]!r} {where}. No shell is used; for one, say sh -c '…'")
    if _is_bare_script(found):
        raise click.UsageError(f"--exec: {words[0]!r} has no first line that says what runs it, as #!/bin/sh")
    return (found, *words[1:])


def _is_bare_script(path: str) -> bool:
    """No system can run that; a program for the machine has zeros in its head."""
    with suppress(OSError), Path(path).open("rb") as file:
        head = file.read(_HEAD)
        return not head.startswith(b"#!") and b"\0" not in head
    return False


class _Heard:
    """What a program has said until now."""

    def __init__(self, job: Attempt, child: Child, say: Say) -> None:
        self.progress = _Progress(job, say)
        self.last_line = ""
        self.too_long = False
        self._id = job.id
        self._child = child
        self._say = say
        self._output = bytearray()

    def listen(self) -> list[asyncio.Task[None]]:
        """To all three."""
        return [asyncio.create_task(each) for each in (self._hear_output(), self._hear_errors(), self._hear_records())]

    def result(self) -> Any:
        """What stands on the standard output: JSON, or nothing, which is null. Raises `Permanent`."""
        if self.too_long:
            raise Permanent(f"it wrote more than {LONGEST_OUTPUT:,} bytes to standard output", code="too-large")
        text = self._output.strip()
        try:
            value = json.loads(text) if text else None
            encode_value(value)
        except (ValueError, RecursionError, Rejected) as error:
            shown = text[:_SHOWN].decode(errors="replace")
            told = f"exit status 0, and what it wrote to standard output is not JSON ({error}): {shown}"
            raise Permanent(told, code="bad-json") from None
        return value

    async def _hear_output(self) -> None:
        while chunk := await self._child.output.read(LONGEST_RECORD):
            self._output += chunk
            if len(self._output) > LONGEST_OUTPUT:
                self.too_long = True
                self._child.signal(signal.SIGKILL)
                return

    async def _hear_errors(self) -> None:
        async for line in lines(self._child.errors, LONGEST_LINE):
            text = line.decode(errors="replace").rstrip()
            if text:
                self.last_line = text
                self._say(self._id, f"| {text}")

    async def _hear_records(self) -> None:
        async for line in lines(self._child.records, LONGEST_RECORD):
            if not line.strip():
                continue
            try:
                self.progress.offer(orjson.loads(line))
            except orjson.JSONDecodeError:
                told = "is longer than 32 KiB" if len(line) > LONGEST_RECORD else "is not JSON"
                shown = line[:_BEGINNING].decode(errors="replace").rstrip()
                self._say(self._id, f"a line on descriptor 3 {told} and was left out: {shown}")


class _Progress:
    """Posts the newest record, one at a time: a program that writes faster than the server stores is not held up."""

    def __init__(self, job: Attempt, say: Say) -> None:
        self._job = job
        self._say = say
        self._newest: list[Any] = []
        self._posting: asyncio.Task[None] | None = None

    def offer(self, record: Any) -> None:
        """A new one."""
        self._newest = [record]
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post())

    async def flush(self) -> None:
        """Waits until the last one is stored."""
        if self._posting is not None:
            await self._posting

    async def _post(self) -> None:
        while self._newest:
            try:
                await self._job.progress(self._newest.pop())
            except Rejected as refused:
                self._say(self._job.id, f"a record on descriptor 3 was refused: {refused}")
            except LeaseLost:  # The worker hears of it too, and ends the program.
                return


def _environment(job: Attempt) -> Mapping[str, str]:
    """What the program learns besides its item. It does not get the token."""
    kept = {name: value for name, value in os.environ.items() if name != "LEASEWAY_TOKEN"}
    return kept | {
        "LEASEWAY_ITEM_ID": job.id,
        "LEASEWAY_ATTEMPTS": str(job.attempts),
        "LEASEWAY_CHECKPOINT": json.dumps(job.checkpoint),
        "LEASEWAY_META": json.dumps(job.meta),
    }
