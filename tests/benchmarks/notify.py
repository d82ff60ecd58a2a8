"""How long a notification takes to the provider's door, and how many events a second are planned and posted.

    python tests/benchmarks/notify.py [--lone 300] [--events 100000]

The latency is that of `send_now` on an idle system: from `Notifier.notify` in this process to the request at a mail
provider's API, which is in this process too, so that one clock measures both. The queue's server and the worker are
processes of this machine, the store is SQLite. A pipeline that polls needs 0 to 60 s for its scheduler and 1 s for its
queue.
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

from aiohttp import web

from leaseway import Client
from leaseway_notify.event import Event
from leaseway_notify.notifier import Notifier
from leaseway_notify.notify_toml import settings_of
from leaseway_notify.plan import plan
from leaseway_notify.profile import Profile
from leaseway_notify.queue import QUEUE
from leaseway_notify.settings import Settings
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from leaseway_server.bench.process import serving
from support.notify_scene import QUEUE_TOML
from support.raw import RawSocket, raw_socket
from support.web_service import WebService, web_service

PORTION: Final = 500
"""Events in a call."""
RECIPIENTS: Final = 1_000
WARM: Final = 20
P50_MS: Final = 15.0
P99_MS: Final = 50.0


def main() -> None:
    """Measures, and prints a line for each figure. Ends with 1 where the latency is over its goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lone", type=int, default=300, help="so many notifications, one after the other")
    parser.add_argument("--events", type=int, default=100_000)
    given = parser.parse_args()
    raise SystemExit(asyncio.run(measure(given.lone, given.events)))


async def measure(lone: int, events: int) -> int:
    """Both figures, each on a new store and queue."""
    async with (
        scene() as (store, settings, queue, provider, folder),
        raw_socket(f"{settings.queue.url}/monitor") as monitor,
    ):
        monitor.say({"subscribe": {"all": True}})
        times = await latency(Notifier(store, queue, settings), provider, monitor, folder, lone)
    p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
    print(f"send_now, event to the provider's door: p50 {p50:.1f} ms, p99 {p99:.1f} ms, of {lone}")
    async with scene() as (store, settings, queue, _, _):
        await throughput(store, Notifier(store, queue, settings), events)
    return int(p50 > P50_MS or p99 > P99_MS)


@asynccontextmanager
async def scene() -> AsyncIterator[tuple[SqlStore, Settings, Client[Any, Any], WebService, Path]]:
    """A server, a store with recipients, a provider, and the settings for a worker, in a folder."""

    async def take(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.json_response({"id": "taken"})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "leaseway.toml").write_text(
            f'[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:{folder}/queue"\n{QUEUE_TOML}'
        )
        module = ("leaseway_server", "--config", str(folder / "leaseway.toml"), "--log", "terminal")
        async with (
            serving(*module) as server,
            web_service(take) as provider,
            await open_sqlite(folder / "notify.db") as store,
            Client[Any, Any](f"{server.ws_url}/{QUEUE}") as queue,
        ):
            email = {
                "transport": "provider",
                "sender": "bell@app.example",
                "provider": provider.url,
                "provider_key": "x",
            }
            said: dict[str, Any] = {"queue": {"url": f"{server.ws_url}/{QUEUE}"}, "email": email}
            write_toml(folder / "notify.toml", said)
            for number in range(RECIPIENTS):
                await store.save_profile(Profile(f"r{number}", f"r{number}@example.com"))
            yield store, settings_of(said, folder=folder), queue, provider, folder


def write_toml(file: Path, said: dict[str, dict[str, str]]) -> None:
    """Tables of texts."""
    lines = [
        f"[{table}]\n" + "".join(f'{name} = "{value}"\n' for name, value in keys.items())
        for table, keys in said.items()
    ]
    file.write_text("".join(lines))


async def latency(notifier: Notifier, provider: WebService, monitor: RawSocket, folder: Path, lone: int) -> list[float]:
    """ms of each notification, one after the other, once all have begun."""
    command = (sys.executable, "-m", "leaseway_notify", "worker", "--config", str(folder / "notify.toml"))
    worker = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        times = [await one(notifier, provider, monitor, number) for number in range(WARM + lone)]
    finally:
        worker.terminate()
        await worker.wait()
    return times[WARM:]


async def one(notifier: Notifier, provider: WebService, monitor: RawSocket, number: int) -> float:
    """From the event to the provider's door, in ms; then it waits until all that came of it has ended."""
    event = Event(type="security", recipient=f"r{number % RECIPIENTS}", title=f"number {number}")
    provider.arrived.clear()
    began = time.perf_counter()
    planned = await notifier.notify(event)
    async with asyncio.timeout(30):
        await provider.arrived.wait()
    took = (time.perf_counter() - began) * 1000
    under_way = sum(delivery.status != "skipped" for delivery in planned.deliveries)
    while under_way:
        under_way -= (await monitor.hear()).get("status") == "finished"
    return took


async def throughput(store: SqlStore, notifier: Notifier, events: int) -> None:
    """Planned alone, then planned, written and posted; and what this process grew by meanwhile."""
    profile = Profile("r0", "r0@example.com")
    began = time.perf_counter()
    for number in range(10_000):
        plan(Event(type="system", recipient="r0", title=str(number)), profile, 1_767_225_600_000)
    print(f"planned: {10_000 / (time.perf_counter() - began):,.0f} events a second")
    before, peak = memory(), 0
    began = time.perf_counter()
    for first in range(0, events, PORTION):
        numbers = range(first, min(first + PORTION, events))
        said = [
            Event(type="system", recipient=f"r{number % RECIPIENTS}", title=f"number {number}") for number in numbers
        ]
        await notifier.notify_many(said)
        peak = max(peak, memory())
    took = time.perf_counter() - began
    waiting = len(await store.unposted(1))
    print(f"planned, written and in the queue: {events / took:,.0f} events a second, of {events:,} ({took:.0f} s)")
    print(f"memory: {before / 2**20:.0f} MiB before, {peak / 2**20:.0f} MiB at most; not posted: {waiting}")


def memory() -> int:
    """Bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
