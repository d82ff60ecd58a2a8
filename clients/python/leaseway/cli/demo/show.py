"""What happens in the demo: ranges are posted and counted, a worker is killed in mid-work, another one goes on.

How it looks is in `screen.py`, what is started in `processes.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from leaseway import Client, Job
from leaseway.cli.demo.primes import BELOW, KNOWN
from leaseway.cli.demo.processes import Child
from leaseway.cli.demo.screen import Row, Screen

RANGE: Final = 250_000
MID_WORK: Final = range(40, 71)
"""Percent: something is done, and enough is left for a kill to come in time."""
OPEN_AT_ONCE: Final = 6

GOES_ON: Final = 'It goes on. Post from the page as well, such as {"from": 0, "to": 100}. Ctrl-C ends it.'


class Show:
    """The demo, on a screen, with its data in a folder. `pace` is what is added to each step of the work, seconds."""

    def __init__(self, screen: Screen, folder: Path, pace: float) -> None:
        self._screen = screen
        self._folder = folder
        self._pace = pace
        self._stack = AsyncExitStack()
        self._children: dict[str, Child] = {}
        self._watching = asyncio.TaskGroup()
        self._url = ""
        self._killed_at: float | None = None
        self._news_of_it = 0
        """How much was said of the item whose worker was killed."""
        self.right: bool | None = None
        """Whether the count was right; None before the end of the show."""

    async def run(self, *, once: bool) -> None:
        """All of it, and on until it is cancelled unless `once`.

        Raises `DemoFailed`, in an `ExceptionGroup`, where a process ended by itself.
        """
        async with self._watching, self._stack:  # What was started last is stopped first.
            address = await self._serve()
            await asyncio.gather(self._hire(1), self._hire(2))
            self._screen.say(f"A server and two workers run. The page: {address}/", "bold")
            self._screen.say("Posted are ranges; the workers count their primes. Ctrl-C ends all of it.")
            queue = await self._stack.enter_async_context(Client(self._url))
            self.right = await self._count_all(queue)
            if not once:
                await self._go_on(queue)

    async def _serve(self) -> str:
        words = ("leaseway_server", "--listen", "127.0.0.1:0", "--store", "sqlite:data", "--log", "terminal")
        server, found = await self._start("the server", *words, ready=r" serving (http://\S+)/ ")
        self._stack.push_async_callback(server.stop)
        self._url = f"{found[1]}/demo"
        return found[1]

    async def _hire(self, number: int) -> None:
        name = f"worker-{number}"
        words = ("leaseway.cli.demo.worker", self._url, "--name", name, "--pace", str(self._pace))
        self._children[name], _ = await self._start(name, *words, ready="connected to")
        self._stack.push_async_callback(self._children[name].end)  # What it counts is of no use to anybody.

    async def _start(self, name: str, *module: str, ready: str) -> tuple[Child, re.Match[str]]:
        child, found = await Child.start(name, self._folder, *module, ready=ready)
        self._watching.create_task(child.watch())
        return child, found

    async def _count_all(self, queue: Client) -> bool:
        """Counts the primes below `BELOW`, range by range, and says whether the sum is what is known."""
        ranges = [range(start, start + RANGE) for start in range(0, BELOW, RANGE)]
        jobs = [await queue.post(_item(numbers)) for numbers in ranges]
        counts = await asyncio.gather(*map(self._follow, jobs, ranges))
        total = sum(counts)
        verdict = "as it should be: nothing was lost, nothing counted twice" if total == KNOWN else f"not {KNOWN:,}"
        self._screen.note(f"{total:,} primes below {BELOW:,}, {verdict}.")
        return total == KNOWN

    async def _follow(self, job: Job, numbers: range) -> int:
        """Shows an item to its end, and gives its count."""
        async for view in job.watch():
            row = Row(numbers, view)
            self._screen.changed(row)
            if self._killed_at is not None:
                await self._after_the_kill(row, self._killed_at)
            elif row.worker == "worker-1" and row.percent in MID_WORK:
                self._killed_at = self._children["worker-1"].kill()
                self._screen.note(f"worker-1 is killed (SIGKILL) while it counts {row.name}, at {row.percent} %.")
        return int((await job.result())["primes"])

    async def _after_the_kill(self, row: Row, killed_at: float) -> None:
        """Says what becomes of its item: once when it is back in the queue, and once when another has it."""
        if self._news_of_it == 0 and row.view.status == "pending" and row.view.attempts == 1:
            self._news_of_it = 1
            ms = (time.monotonic() - killed_at) * 1000
            self._screen.note(f"{ms:.0f} ms later {row.name} is back in its old place. worker-3 starts.")
            await self._hire(3)
        elif self._news_of_it == 1 and row.view.attempts == 2:
            self._news_of_it = 2
            self._screen.note(f"{row.worker} goes on with {row.name} at {row.percent} %, where worker-1 had come to.")

    async def _go_on(self, queue: Client) -> None:
        """Ranges without end, a few at a time."""
        self._screen.note(GOES_ON)
        free = asyncio.Semaphore(OPEN_AT_ONCE)

        async def follow(numbers: range) -> None:
            await self._follow(await queue.post(_item(numbers)), numbers)
            free.release()

        async with asyncio.TaskGroup() as tasks:
            for start in itertools.count(BELOW, RANGE):
                await free.acquire()
                tasks.create_task(follow(range(start, start + RANGE)))


def _item(numbers: range) -> dict[str, int]:
    return {"from": numbers.start, "to": numbers.stop}
