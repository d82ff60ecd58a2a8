"""The worker campaign: workers are killed, stopped and cut off while they work, and outlive restarts of the server.

    python tests/chaos/worker_campaign.py --strikes 100 [--seed N]

A worker of each kind (`gated_worker.py`) holds items when it is struck. Of their handlers some end just before, some
while the fault lasts, some after it, and often another worker waits for what is lost. What strikes is
`worker_faults.py`'s, what may come of it `handler_journal.py`'s. Restarts of the server come last, and strike all
workers at once. The exit status is 1 where an item was lost, had two results, or paid for a restart.
"""

import argparse
import asyncio
import json
import logging
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # As the tests have it: `chaos`, `client`, `support`.

import httpx
from websockets.asyncio.client import connect

from chaos.gated_worker import KINDS, PLACES, WITH_CONNECTION_PROCESS, in_the_loop
from chaos.handler_journal import PATIENCE, HandlerJournal
from chaos.load import GONE
from chaos.struck_worker import StruckWorker
from chaos.worker_faults import FAULTS, connection_ended
from leaseway import Worker
from leaseway.connection import Outside
from support.process import ServerProcess
from support.server import open_queue
from support.swallowing import way_to

TOML: Final = '[server]\nping_interval = "500ms"\nping_timeout = "1500ms"\n' + open_queue(lease='"2s"')
RESTARTS: Final = {
    "planned restart of the server": (ServerProcess.stop, 0),
    "kill -9 of the server": (ServerProcess.kill, -signal.SIGKILL),
}
"""How the server is made to end, and with which status it does."""
LATER_SECONDS: Final = 0.01
"""A fault comes up to so much after some of the handlers were let go: their results are then anywhere on their way."""

Struck: TypeAlias = Callable[[Sequence[str]], AbstractAsyncContextManager[None]]
"""A fault that befalls those who hold these items."""


class WorkerCampaign:
    """One server, a worker of each kind, and the strikes."""

    def __init__(self, folder: Path, seed: int, tell: Callable[[str], None] = lambda _line: None) -> None:
        self._dice = random.Random(seed)  # noqa: S311  Chance that can be had again, not a secret.
        self._gates = folder / "gates"
        self.journal = HandlerJournal(self._gates, self._dice)
        self._server = ServerProcess(folder, TOML)
        self._up = asyncio.Event()
        self._http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE)
        self._numbers = count()
        self._struck = 0
        self._tell = tell

    async def run(self, strikes: int) -> None:
        """So many strikes of each fault; then each item is judged."""
        async with AsyncExitStack() as stack:
            workers = await self._set_up(stack)
            async with asyncio.TaskGroup() as tasks:
                for worker, faults in zip(workers, self._plan(strikes), strict=True):
                    tasks.create_task(self._befall(worker, faults))
            for _ in range(strikes):
                for what in RESTARTS:
                    await self._strike(workers, partial(self._restart, what), what)
            for worker in workers:
                status = await worker.end()
                self._hold(status == 0, f"the worker of kind {worker.kind} ended with status {status}")
            await self._judge()

    def lines(self) -> list[str]:
        """What it showed, for people."""
        broken = self.journal.promises.violations
        counts = [f"{what}: {number:,}" for what, number in sorted(self.journal.counts.items())]
        return [
            *counts,
            f"items posted: {len(self.journal.promises.posted):,}",
            f"promises broken: {len(broken)}",
            *broken[:20],
        ]

    async def _set_up(self, stack: AsyncExitStack) -> list[StruckWorker]:
        await self._server.start()
        stack.push_async_callback(self._server.kill)
        self._up.set()
        await stack.enter_async_context(self._http)
        stack.enter_context(closing(await self.journal.serve()))
        stack.enter_context(logged(self.journal.logged))
        watching = asyncio.create_task(self._watch())
        stack.callback(watching.cancel)
        workers = []
        for kind in KINDS:
            way = await stack.enter_async_context(way_to(self._server.ws_url))
            workers.append(StruckWorker(kind, way, self.journal, self._dice))
            await workers[-1].begin()
            stack.push_async_callback(workers[-1].kill)
        return workers

    def _plan(self, strikes: int) -> list[list[str]]:
        """What befalls the worker of each kind, in order."""
        plan: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for first, (what, fault) in enumerate(FAULTS.items()):
            kinds = WITH_CONNECTION_PROCESS if fault is connection_ended else KINDS
            for number in range(first, first + strikes):
                plan[kinds[number % len(kinds)]].append(what)
        for faults in plan.values():
            self._dice.shuffle(faults)
        return list(plan.values())

    async def _befall(self, worker: StruckWorker, faults: Sequence[str]) -> None:
        for what in faults:
            await self._strike([worker], partial(FAULTS[what], worker), what)

    # ── A strike ──

    async def _strike(self, workers: Sequence[StruckWorker], fault: Struck, what: str) -> None:
        """The workers hold all that they can when the fault comes, and in the end all of it is finished."""
        ids = [item_id for worker in workers for item_id in await self._held(worker)]
        before, meanwhile, after = self._parts(ids)
        async with AsyncExitStack() as stack:
            if self._dice.random() < 0.5:
                for worker in workers:
                    await stack.enter_async_context(self._rival(worker.kind))
            await self.journal.held(ids, "all kinds")
            self.journal.let_go(before)
            await asyncio.sleep(self._dice.choice([0, LATER_SECONDS]) * self._dice.random())
            async with fault(ids):
                self.journal.let_go(meanwhile)
                late = self.journal.pass_late(after)
            await self.journal.know(late)
            self.journal.let_go(after)
            await self.journal.until(self.journal.ended, ids, f"the end, after: {what}")
        self.journal.counts[f"strikes: {what}"] += 1
        self._struck += 1
        if self._struck % 50 == 0:
            self._tell(f"{self._struck} strikes, {len(self.journal.views):,} items")

    async def _held(self, worker: StruckWorker) -> list[str]:
        ids = [await self._post(worker.kind) for _ in range(PLACES)]
        await self.journal.held(ids, f"kind {worker.kind}")
        return ids

    def _parts(self, ids: Sequence[str]) -> list[list[str]]:
        parts: list[list[str]] = [[], [], []]
        for item_id in ids:
            self._dice.choice(parts).append(item_id)
        return parts

    @asynccontextmanager
    async def _rival(self, kind: str) -> AsyncIterator[None]:
        """Another worker, whose claim waits for what the first one loses: that one has all its places full now."""
        url = f"{self._server.ws_url}/demo"
        rival = Worker(url, criteria={"for": kind}, concurrency=PLACES, name="rival", outside=Outside())
        rival.handler(in_the_loop)
        async with rival:
            first = await self._post(kind)
            self.journal.let_go([first])
            await self.journal.until(self.journal.ended, [first], "a rival's first item to end")
            yield

    # ── The server ──

    @asynccontextmanager
    async def _restart(self, how: str, ids: Sequence[str]) -> AsyncIterator[None]:
        end, expected = RESTARTS[how]
        self.journal.stays(ids)
        self._up.clear()
        ended = await end(self._server)
        self._hold(ended.status == expected, f"the server ended with status {ended.status} in a {how}")
        yield
        await self._server.start()
        self._up.set()

    async def _post(self, kind: str) -> str:
        number = next(self._numbers)
        body = {"item": {"for": kind, "of": number, "gates": str(self._gates)}}
        answer = await self._http.post(f"{self._server.base_url}/demo/items", json=body)
        item_id: str = answer.raise_for_status().json()["id"]
        self.journal.promises.post_acknowledged(item_id, number)
        return item_id

    async def _watch(self) -> None:
        """Every view, from server to server."""
        while True:
            await self._up.wait()
            try:
                async with connect(f"{self._server.ws_url}/demo/monitor", proxy=None, max_queue=None) as socket:
                    await socket.send(json.dumps({"subscribe": {"all": True}}))
                    await socket.send(json.dumps({"subscribe": list(self.journal.promises.open)}))
                    async for message in socket:
                        self.journal.seen(json.loads(message))
            except GONE:
                continue

    async def _judge(self) -> None:
        """Each item, as the server shows it in the end."""
        for item_id in self.journal.promises.posted:
            answer = await self._http.get(f"{self._server.base_url}/demo/items/{item_id}")
            if answer.status_code == httpx.codes.OK:
                self.journal.judge(answer.json())
            else:
                self.journal.promises.not_found(item_id)

    def _hold(self, promise: bool, broken: str) -> None:
        if not promise:
            self.journal.promises.violations.append(broken)


@contextmanager
def logged(tell: Callable[[str], None]) -> Iterator[None]:
    """What workers in this process log is told, line by line, and shown to nobody."""

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell(self.format(record))

    logger, telling = logging.getLogger("leaseway"), Telling()
    logger.addHandler(telling)
    try:
        yield
    finally:
        logger.removeHandler(telling)


def main() -> None:
    """The campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strikes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed: {options.seed}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leaseway-workers-") as folder:
        campaign = WorkerCampaign(Path(folder), options.seed, print)
        asyncio.run(campaign.run(options.strikes))
    print("\n".join([*campaign.lines(), f"seconds: {time.monotonic() - began:.0f}"]))
    raise SystemExit(bool(campaign.journal.promises.violations))


if __name__ == "__main__":
    main()
