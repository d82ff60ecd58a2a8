"""The processes of the demo: the server and the workers, started, stopped and killed as an operator would.

Nothing about items may live here.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from demo_news import DemoFailed, News

from leaseway_schemas import example_folder

HERE = Path(__file__).parent
CONFIGURATION = """\
[server]
listen = "127.0.0.1:0"
store = "sqlite:data"

[queues.resize]
schemas = {schemas}
access = {{ post = "open", fetch = "open", work = "open" }}
"""
HANDLED = re.compile(r"(began|done) ([0-9a-f]{16}) attempt \d+$")
STOP_WITHIN = 20.0


class Process:
    """A child process. Its output goes to a log file, and its last lines are remembered."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, log: Path, news: News) -> None:
        self.name = name
        self.lines: deque[str] = deque(maxlen=200)
        #: How often a worker said that it began an item, and that it was done with it.
        self.handled: Counter[tuple[str, str]] = Counter()
        self._child = child
        self._log = log
        self._news = news
        self._end_expected = False
        self._listening = asyncio.create_task(self._listen(), name=f"listen-to-{name}")

    @classmethod
    async def start(cls, name: str, command: list[str], folder: Path, news: News) -> Self:
        """Starts it in a session of its own: Ctrl-C is the demo's, which then ends its processes in order."""
        child = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(name, child, folder / f"{name}.log", news)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.returncode is None

    async def said(self, pattern: str) -> re.Match[str]:
        """Waits until a line of its output holds the pattern."""
        found = re.compile(pattern)

        def first() -> re.Match[str] | None:
            return next(filter(None, map(found.search, self.lines)), None)

        return await self._news.until(first, f"{self.name} says {pattern!r}")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to what does not end by itself."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_WITHIN):
                await asyncio.shield(self._listening)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to say anything."""
        self.kill_now()
        await self._listening

    def kill_now(self) -> float:
        """SIGKILL without waiting; gives the moment just before it, on the monotonic clock."""
        before = time.monotonic()
        self._signal(signal.SIGKILL)
        return before

    def _signal(self, number: signal.Signals) -> None:
        self._end_expected = True
        if self.running:
            self._child.send_signal(number)

    async def _listen(self) -> None:
        assert self._child.stdout is not None
        with self._log.open("ab") as log:
            async for line in self._child.stdout:
                log.write(line)
                self._take(line.decode(errors="replace").rstrip())
        status = await self._child.wait()
        if not self._end_expected:
            tail = "\n".join(list(self.lines)[-12:])
            self._news.fail(DemoFailed(f"{self.name} ended by itself with status {status}. Its last words:\n{tail}"))
        self._news.tell()

    def _take(self, line: str) -> None:
        self.lines.append(line)
        if handled := HANDLED.search(line):
            self.handled[handled[1], handled[2]] += 1
        self._news.tell()


class Server:
    """A real `leaseway serve` on a free port of loopback, with its data in a folder."""

    def __init__(self, folder: Path, news: News) -> None:
        self.host, self.port = "127.0.0.1", 0
        self._folder = folder
        self._news = news
        self._process: Process | None = None
        schemas = json.dumps(str(example_folder("resize")))
        (folder / "leaseway.toml").write_text(CONFIGURATION.format(schemas=schemas), encoding="utf-8")

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://{self.host}:{self.port}"

    @property
    def queue(self) -> str:
        """The queue's URL for clients and workers."""
        return f"ws://{self.host}:{self.port}/resize"

    async def start(self) -> None:
        """Starts it and waits until it serves; the port is the system's choice at first, and then stays."""
        listen = f"{self.host}:{self.port}"
        command = [sys.executable, "-m", "leaseway_server", "--config", "leaseway.toml", "--listen", listen]
        command += ["--log", "terminal"]
        self._process = await Process.start("server", command, self._folder, self._news)
        self.port = int((await self._process.said(r"serving http://[^ ]*:(\d+)/"))[1])

    async def stop(self) -> None:
        """The planned stop."""
        if self._process is not None:
            await self._process.stop()


class Crew:
    """The workers, numbered as they come."""

    def __init__(self, queue: str, folder: Path, pace: float, news: News) -> None:
        self._queue = queue
        self._folder = folder
        self._pace = pace
        self._news = news
        self._all: list[Process] = []

    def __iter__(self) -> Iterator[Process]:
        """Those that run."""
        return (worker for worker in self._all if worker.running)

    async def hire(self, count: int = 1) -> None:
        """Starts so many workers, and waits until they are connected."""
        first = len(self._all) + 1
        names = [f"worker-{number}" for number in range(first, first + count)]
        self._all += [await Process.start(name, self._command(name), self._folder, self._news) for name in names]
        for worker in self._all[first - 1 :]:
            await worker.said("connected to")

    def named(self, worker: str | None) -> Process | None:
        """The one that runs and that a view names; a worker adds its own number and more to its name."""
        return next((each for each in self if worker and worker.startswith(f"{each.name}-{each.pid}-")), None)

    def handled(self, what: str) -> Counter[str]:
        """How often each item was `began` or `done`, by the workers' own logs."""
        counts: Counter[str] = Counter()
        for worker in self._all:
            counts.update({item: count for (said, item), count in worker.handled.items() if said == what})
        return counts

    async def stop(self) -> None:
        """The planned stop of all."""
        await asyncio.gather(*(worker.stop() for worker in self))

    def _command(self, name: str) -> list[str]:
        script = str(HERE / "resize_worker.py")
        return [sys.executable, script, self._queue, "--name", name, "--pace", str(self._pace)]
