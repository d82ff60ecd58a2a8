"""From one server to another on one PostgreSQL: a waiting claim gets what was posted there, a monitor sees its end.

    python tests/benchmarks/across_servers.py [--items 500]

Two server processes. A worker's claim waits on one; an item is posted on a monitor socket of the other, and the time is
taken from the post's message to the item's; then from the result's message to the view of the end, back at the monitor.
Both hold the commit. PostgreSQL is one of the tests' own, every commit synced, or what LEASEWAY_TEST_POSTGRES names.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from support.cluster import OPEN
from support.postgres import Postgres, any_postgres, fresh_database
from support.process import server_process
from support.raw import RawSocket, raw_socket

WARM = 20
"""So many items are not counted."""


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=500)
    given = parser.parse_args()
    with any_postgres(durable=True) as postgres:
        claims, pushes = asyncio.run(measure(postgres, given.items))
    print(f"{'ms':28}{'p50':>8}{'p99':>8}{'most':>8}")
    print(line("a waiting claim elsewhere", claims))
    print(line("a push elsewhere", pushes))


def line(name: str, seconds: Sequence[float]) -> str:
    """A figure, in ms."""
    ms = sorted(1000 * each for each in seconds)
    return f"{name:28}{ms[len(ms) // 2]:8.1f}{ms[len(ms) * 99 // 100]:8.1f}{ms[-1]:8.1f}"


async def measure(postgres: Postgres, items: int) -> tuple[list[float], list[float]]:
    """The seconds of claims, and of pushes."""
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        async with (
            fresh_database(postgres) as url,
            server_process(Path(one), OPEN, store=url) as here,
            server_process(Path(other), OPEN, store=url) as there,
            raw_socket(f"{here.ws_url}/demo/work") as worker,
            raw_socket(f"{there.ws_url}/demo/monitor") as monitor,
        ):
            taken = [await one_item(worker, monitor) for _ in range(WARM + items)][WARM:]
    claims, pushes = zip(*taken, strict=True)
    return list(claims), list(pushes)


async def one_item(worker: RawSocket, monitor: RawSocket) -> tuple[float, float]:
    """The seconds that it took to be claimed, and to be seen ended."""
    worker.say({"claim": {"waitMs": 60_000}})
    await worker.ask({"renew": {"id": "0000000000000000"}})  # The claim came before it, and waits by now.
    began = time.perf_counter()
    monitor.say({"post": {"item": 1, "subscribe": True}})
    item = await worker.hear()
    claimed = time.perf_counter()
    worker.say({"result": {"id": item["id"], "value": 1}})
    while (await monitor.hear()).get("status") != "finished":
        pass
    seen = time.perf_counter()
    await worker.hear()
    return claimed - began, seen - claimed


if __name__ == "__main__":
    main()
