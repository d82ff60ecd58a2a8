"""100,000 events through plan and outbox: how many a second, in how much memory; and a single event's way to the queue.

    python tests/benchmarks/notify_planning.py [--events 100000] [--store sqlite|postgres]

The server is a process of its own. Events are notified in arrays of 100, each a transaction and a post; half of them
have a recipient of their own among a thousand. A lone event is measured from the call until a worker that waits has it.
"""

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from leaseway import Attempt, Client, Worker
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.profile import Profile
from leaseway_notify.queue import QUEUE
from leaseway_notify.stores.opening import open_store
from support.notify_scene import QUEUE_TOML
from support.postgres import own_postgres
from support.process import server_process

RECIPIENTS: Final = 1_000
PORTION: Final = 100
LONE: Final = 300


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.store == "sqlite":
            asyncio.run(measure(Path(folder), f"sqlite:{folder}/notify.db", given.events))
            return
        with own_postgres() as postgres:
            asyncio.run(measure(Path(folder), postgres.url, given.events))


async def measure(folder: Path, store_url: str, events: int) -> None:
    """All figures on one store."""
    async with (
        server_process(folder, QUEUE_TOML) as server,
        await open_store(store_url) as store,
        Client[Any, Any](f"{server.ws_url}/{QUEUE}") as queue,
    ):
        for number in range(RECIPIENTS):
            await store.save_profile(Profile(f"user-{number}", address=f"user-{number}@example.com"))
        notifier = Notifier(store, queue)
        await lone(notifier, f"{server.ws_url}/{QUEUE}")
        await many(notifier, events)
        assert await store.unposted(1) == []


async def lone(notifier: Notifier, url: str) -> None:
    """From the call to a waiting worker's door."""
    came: asyncio.Queue[str] = asyncio.Queue()
    worker = Worker(url, concurrency=25)

    @worker.handler
    async def work(item: dict[str, Any], _job: Attempt) -> Any:
        came.put_nowait(item["deliveryId"])
        return {"status": "sent"}

    times = []
    async with working(worker):
        for number in range(LONE):
            begun = time.perf_counter()
            await notifier.notify(event(number, "system", "lone"))
            seen = {await came.get(), await came.get()}
            times.append((time.perf_counter() - begun) * 1000)
            assert len(seen) == 2
    cuts = statistics.quantiles(times[20:], n=100)
    print(f"a lone event, from the call to the worker: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms")


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    """While it works."""
    async with worker:
        yield


async def many(notifier: Notifier, events: int) -> None:
    """Rate and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    for first in range(0, events, PORTION):
        await notifier.notify_many([event(number, "mention", "many") for number in range(first, first + PORTION)])
    took = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{events:,} events planned, written and posted in {took:.1f} s: {events / took:,.0f} a second")
    print(f"memory at the most: {before / 1024:.0f} MB before, {after / 1024:.0f} MB after")


def event(number: int, kind: str, context: str) -> Event:
    """One that equals no other."""
    recipient = f"user-{number % RECIPIENTS}"
    return Event(type=kind, recipient=recipient, title=f"Message {number}", context=context, actor="bob")


if __name__ == "__main__":
    main()
