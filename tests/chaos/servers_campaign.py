"""The campaign on several servers: three on one PostgreSQL, 20 workers and 5 producers, while all of it is struck.

    python tests/chaos/servers_campaign.py --seconds 600 [--seed N] [--keep FOLDER]

What strikes is in `server_faults.py`, the clients are in `crowd.py` and `crew.py`. Each strike comes after a number of
words between clients and servers, so always under load. At the end all work is done, every producer learns of it, and
the rows of the database are held against the journal too. The exit status is 1 where anything was broken.
"""

import argparse
import asyncio
import json
import pickle
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # As the tests have it: `chaos`, `client`, `support`.

import asyncpg

from chaos import server_faults
from chaos.crew import ClientWorker, HttpWorker, SocketWorker
from chaos.crowd import ClientProducer, Crowd, HttpProducer, Member, MonitorProducer
from chaos.journals import Entry, Journal
from chaos.judge import Judge
from chaos.server_faults import SLOW, Fault, Struck
from chaos.terms import Terms
from chaos.worker_campaign import logged
from leaseway import connection, transport
from leaseway.connection import Outside
from leaseway_server.core.ids import IdPermutation
from leaseway_server.store.access.postgres import PostgresAccess
from leaseway_server.store.postgres.database import Database
from support.postgres import fresh_database, own_postgres
from support.swallowing import way_by

TERMS: Final = Terms()
WORDS: Final = (20, 400)
"""A strike comes so many lines of the journal after the one before."""
AT_ONCE: Final = 2
"""So many may go on at once: one of the servers is left in peace."""
CUT_WORDS: Final = (50, 1_000)
"""The same for connections of clients, whatever else befalls meanwhile."""
DRAIN_SECONDS: Final = 60
TICK: Final = 0.5
"""Seconds."""
HASTY: Final[dict[Any, dict[str, float]]] = {
    transport: {"PING_EVERY": 1.0, "PING_WITHIN": 9.0},
    connection: {"STEADY": 0.2, "CEILING": 0.5, "URGENT_CEILING": 0.5},
}
"""For the Python client: what swallows bytes is noticed, yet no server that stands still; and who is struck every few
seconds is back at once."""
ITEMS: Final = """
SELECT item.seq, status, attempts, failures, losses, rev, key, holder, result.value AS result
FROM leaseway.item LEFT JOIN leaseway.result ON result.queue = item.queue AND result.seq = item.seq
"""
ATTEMPTS: Final = "SELECT seq, attempts, worker, ending, started_at, ended_at FROM leaseway.attempt"
COUNTS: Final = """
SELECT sum(pending) AS pending, sum(processing) AS processing, sum(finished) AS finished, sum(failed) AS failed,
    sum(dead) AS dead, sum(cancelled) AS cancelled, sum(expired) AS expired FROM leaseway.share
"""


class ServersCampaign:
    """One run, in `folder`."""

    def __init__(self, folder: Path, seed: int, tell: Callable[[str], None] = lambda _line: None) -> None:
        self._folder = folder
        self._tell = tell
        self.judge = Judge(TERMS)
        self.journal = Journal(self._on_entry)
        dice = random.Random(seed)  # noqa: S311  Chance that can be had again, not a secret.
        self.crowd = Crowd(self.journal, self.judge, dice)
        self.strikes: Counter[str] = Counter()
        self.drained = 0.0
        """Seconds until all had ended, once nothing more was posted and nothing struck."""
        self.outputs: dict[str, bytes] = {}
        """What each server logged."""
        self._waiting: list[tuple[int, asyncio.Event]] = []
        self._rested = asyncio.Event()

    async def run(self, seconds: float, faults: dict[str, Fault]) -> None:
        """For so long, and until each of these has struck once; then the work is done to its end."""
        with own_postgres(durable=True) as postgres:
            async with AsyncExitStack() as stack:
                stack.enter_context(hasty())
                stack.enter_context(logged(lambda _line: None))
                url = await stack.enter_async_context(fresh_database(postgres))
                struck = Struck(self._folder, postgres, url, self.crowd)
                stack.push_async_callback(self._end, struck)
                await asyncio.gather(*(struck.start(server) for server in struck.servers))
                struck.members = await self._crowd(stack, url)
                async with running([self._watch_time, *(member.forever for member in struck.members)]):
                    await self._strike_on(struck, seconds, faults)
                    await self._finish()
                await self._read_rows(url)
        self.judge.close()
        self.judge.violations.extend(struck.broken)

    def lines(self) -> list[str]:
        """What it showed, for people."""
        broken = self.judge.violations
        counts = self.strikes + self.judge.promises.counts
        return [
            *(f"{what}: {number:,}" for what, number in sorted(counts.items())),
            f"lines of the journal: {len(self.journal.entries):,}",
            f"all ended after: {self.drained:.1f} s",
            f"promises broken: {len(broken)}",
            *broken[:40],
        ]

    def keep(self, folder: Path) -> None:
        """Writes the journal (pickled) and what each server logged."""
        folder.mkdir(exist_ok=True)
        (folder / "journal").write_bytes(pickle.dumps(self.journal.entries))
        for name, output in self.outputs.items():
            (folder / f"{name}.log").write_bytes(output)

    # ── The clients ──

    async def _crowd(self, stack: AsyncExitStack, url: str) -> list[Member]:
        """20 workers and 5 producers, each with a way of its own."""

        async def add(kind: Callable[..., Member], number: int, name: str, *more: object) -> None:
            for who in [f"{name}-{place}" for place in range(number)]:
                way = await stack.enter_async_context(way_by(partial(self.crowd.server_for, who)))
                members.append(kind(self.crowd, who, way, *more))

        members: list[Member] = []
        outside = Outside()
        await add(SocketWorker, 12, "socket-worker")
        await add(HttpWorker, 4, "http-worker")
        await add(ClientWorker, 4, "client-worker", outside)
        await add(HttpProducer, 1, "http-producer")
        await add(MonitorProducer, 1, "monitor-producer")
        await add(MonitorProducer, 1, "mine-producer", await _token(url))
        await add(ClientProducer, 2, "client-producer", outside)
        return members

    # ── Strikes ──

    async def _strike_on(self, struck: Struck, seconds: float, faults: dict[str, Fault]) -> None:
        places = asyncio.Semaphore(AT_ONCE)
        until = time.monotonic() + seconds
        async with running([partial(self._cut_on, struck)]), asyncio.TaskGroup() as strikes:
            while time.monotonic() < until:
                for what in self.crowd.dice.sample(list(faults), len(faults)):
                    await self._after(self.crowd.dice.randint(*WORDS))
                    await places.acquire()
                    strike = strikes.create_task(faults[what](struck))
                    strike.add_done_callback(lambda _strike: places.release())
                    self.strikes[what] += 1
                left, results = until - time.monotonic(), self.judge.promises.counts["results"]
                self._tell(f"{left:.0f} s to go, {results:,} results, {len(self.judge.violations)} broken")

    async def _cut_on(self, struck: Struck) -> None:
        while True:
            await self._after(self.crowd.dice.randint(*CUT_WORDS))
            await server_faults.cut(struck)
            self.strikes["connections of clients cut"] += 1

    async def _watch_time(self) -> None:
        """Notes where this process itself stood still."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK)
            stood = time.monotonic() - before - TICK
            if stood > TICK:
                self.journal.stood(int(stood * 1000))

    async def _after(self, words: int) -> None:
        """Waits for so many more lines of the journal."""
        event = asyncio.Event()
        self._waiting.append((len(self.journal.entries) + words, event))
        await event.wait()

    def _on_entry(self, entry: Entry) -> None:
        self.judge.take(entry)
        if self.crowd.finishing and self.crowd.at_rest:
            self._rested.set()
        for due in [each for each in self._waiting if each[0] <= len(self.journal.entries)]:
            self._waiting.remove(due)
            due[1].set()

    # ── The end ──

    async def _finish(self) -> None:
        began = time.monotonic()
        self.crowd.finishing = True
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._rested.wait()
        except TimeoutError:
            for item_id in self.judge.promises.open:
                self.judge.promises.never_ended(item_id)
        self.drained = time.monotonic() - began

    async def _end(self, struck: Struck) -> None:
        """Each server has lived to this, and ends as it should."""
        for name, server in zip("abc", struck.servers, strict=True):
            ended = await (server.stop() if server.running else server.ended())
            self.outputs[name] = server.output
            if ended.status:
                struck.broken.append(f"server {name} ended with status {ended.status}")
            if b"Traceback" in server.output:
                struck.broken.append(f"server {name} logged a traceback")

    async def _read_rows(self, url: str) -> None:
        """What is left, with ids as clients know them."""
        database = await asyncpg.connect(url)
        try:
            ids = IdPermutation(bytes.fromhex(await database.fetchval("SELECT id_key FROM leaseway.queue")))
            for row in await database.fetch(ITEMS):
                result = json.loads(row["result"]) if row["result"] else None
                self.journal.kept("item", {**row, "id": ids.id_of(row["seq"]), "result": result})
            for row in await database.fetch(ATTEMPTS):
                times = {"from": row["started_at"], "to": row["ended_at"]}
                self.journal.kept("attempt", {**row, **times, "id": ids.id_of(row["seq"])})
            [counts] = await database.fetch(COUNTS)
            self.journal.kept("counts", {status: int(number) for status, number in counts.items() if number})
        finally:
            await database.close()


@asynccontextmanager
async def running(lives: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> AsyncIterator[None]:
    """All of these, beside the block; what goes wrong in one ends it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(live()) for live in lives]
        yield
        for task in tasks:
            task.cancel()


@contextmanager
def hasty() -> Iterator[None]:
    """The Python client is in haste meanwhile: see `HASTY`."""
    with ExitStack() as stack:
        for module, values in HASTY.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


async def _token(url: str) -> str:
    """A user's, for whom `mine` means something."""
    async with await Database.open(url) as database, PostgresAccess(database) as access:
        _, secret = await access.add("producer", None, None, 0, 0)
    return secret


def main() -> None:
    """The campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", type=Path, help="a folder for the journal, and for what the servers logged")
    options = parser.parse_args()
    print(f"seed: {options.seed}")
    with tempfile.TemporaryDirectory(prefix="leaseway-servers-") as folder:
        campaign = ServersCampaign(Path(folder), options.seed, print)
        try:
            asyncio.run(campaign.run(options.seconds, SLOW))
        finally:
            if options.keep:
                campaign.keep(options.keep)
    print("\n".join(campaign.lines()))
    raise SystemExit(bool(campaign.judge.violations))


if __name__ == "__main__":
    main()
