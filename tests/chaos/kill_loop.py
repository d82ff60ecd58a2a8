"""The kill loop: a server under load is killed with SIGKILL, started again on the same files, and held to its word.

    python tests/chaos/kill_loop.py --rounds 1000 [--seed N]

Each round ends at a random word between the clients and the server, so always under load. What the clients do is in
`load.py`, what they were promised in `promises.py`. At the end all work is done, and every acknowledged post is looked
for once more. The exit status is 1 where a promise was broken.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # As the tests have it: `chaos` and `support`.

import httpx

from chaos.load import GONE, HttpProducer, HttpWorker, MonitorProducer, SocketWorker, World
from chaos.promises import Promises
from support.process import ServerProcess

TOML: Final = """
[server]
resume_grace = "300ms"
ping_interval = "1s"
ping_timeout = "1s"

[queues.demo]
lease = "2s"
access = { post = "open", fetch = "open", work = "open", admin = "open" }

[queues.demo.retry]
delays = ["10ms"]
cap = "1s"
"""
WORDS: Final = (5, 200)
"""A life ends after so many messages and answers."""
LATER_SECONDS: Final = 0.002
"""Half of the kills come up to so much after the word, so that they fall anywhere in a turn."""
DRAIN_SECONDS: Final = 60
CHUNK: Final = 5_000


@dataclass(slots=True)
class Report:
    """What a run showed. `starts` are the seconds until each start served."""

    promises: Promises
    rounds: int = 0
    starts: list[float] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        starts = sorted(self.starts)
        return [
            f"rounds: {self.rounds}",
            *(f"{what}: {number:,}" for what, number in sorted(self.promises.counts.items())),
            f"ready again after: {starts[len(starts) // 2]:.2f} s (median), {starts[-1]:.2f} s (longest)",
            f"promises broken: {len(self.promises.violations)}",
            *self.promises.violations[:20],
        ]


class KillLoop:
    """One run, in `folder`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._server = ServerProcess(folder, TOML)
        self._dice = random.Random(seed)  # noqa: S311  Chance that can be had again, not a secret.
        self._struck = asyncio.Event()
        self._world = World(Promises(), random.Random(seed + 1), self._strike)  # noqa: S311  The same.
        self.report = Report(self._world.promises)

    async def run(self, rounds: int, tell: Callable[[str], None] = lambda _line: None) -> None:
        """So many rounds; then all work is done, and what was promised is looked for."""
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=30) as http, asyncio.TaskGroup() as clients:
                tasks = [clients.create_task(self._world.forever(live)) for live in self._clients(http)]
                while self.report.rounds < rounds:
                    await self._round()
                    if self.report.rounds % 50 == 0:
                        tell(f"{self.report.rounds} rounds, {self.report.promises.counts['results']:,} results")
                await self._finish()
                for task in tasks:
                    task.cancel()
            await self._look_at_all()
        finally:
            if self._server.running:
                await self._server.kill()

    def _clients(self, http: httpx.AsyncClient) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        world = self._world
        return [
            HttpProducer(world, http).live,
            MonitorProducer(world).live,
            *(SocketWorker(world, f"worker-{number}").live for number in range(3)),
            HttpWorker(world, "http-worker", http).live,
        ]

    async def _round(self) -> None:
        self._struck.clear()
        self.report.starts.append(await self._server.start())
        self._world.begin(self._server.base_url, self._dice.randint(*WORDS))
        await self._struck.wait()
        await self._server.ended()
        self.report.rounds += 1

    def _strike(self) -> None:
        """The word was said."""
        later = self._dice.choice([0, LATER_SECONDS]) * self._dice.random()
        asyncio.get_running_loop().call_later(later, self._kill)

    def _kill(self) -> None:
        self._server.kill_now()
        self._struck.set()

    async def _finish(self) -> None:
        world = self._world
        self.report.starts.append(await self._server.start())
        world.finishing = True
        world.begin(self._server.base_url, 0)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await world.all_ended.wait()
        except TimeoutError:
            for item_id in world.promises.open:
                world.promises.never_ended(item_id)

    async def _look_at_all(self) -> None:
        promises = self._world.promises
        await self._server.restart()
        self._world.base_url = self._server.base_url
        posted = list(promises.posted)
        for first in range(0, len(posted), CHUNK):
            chunk = set(posted[first : first + CHUNK])
            try:
                async with asyncio.timeout(DRAIN_SECONDS), self._world.socket("monitor") as socket:
                    await socket.send(json.dumps({"subscribe": list(chunk)}))
                    while chunk:
                        view = json.loads(await socket.recv())
                        promises.seen(view, promises.known(view["id"]))
                        chunk.discard(view["id"])
            except (TimeoutError, *GONE):
                for item_id in chunk:
                    promises.not_found(item_id)


def main() -> None:
    """The campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed: {options.seed}")
    with tempfile.TemporaryDirectory(prefix="leaseway-kill-") as folder:
        loop = KillLoop(Path(folder), options.seed)
        asyncio.run(loop.run(options.rounds, print))
    print("\n".join(loop.report.lines()))
    raise SystemExit(bool(loop.report.promises.violations))


if __name__ == "__main__":
    main()
