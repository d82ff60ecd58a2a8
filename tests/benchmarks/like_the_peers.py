"""The load under which docs/comparing.md gives other queues' figures, with this project's own client and worker.

    python tests/benchmarks/like_the_peers.py [--jobs 20000] [--workers 1]

Jobs of 152 bytes, results of 76. Server, workers of 100 places each and one producer are processes of this machine,
the server kept to one core; at most 2,000 jobs are under way, and the producer waits for the result of each. A lone job
is posted when the one before has ended. How fast a queue may become with another load is `leaseway bench`'s to tell.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from leaseway import Client, Worker
from leaseway_server.bench.process import serving

UNDER_WAY: Final = 2_000
PLACES: Final = 100
LONE: Final = 500
ITEM: Final = {"image": "i" * 126, "width": 320}
RESULT: Final = {"image": "r" * 50, "width": 320}


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000, help="so many a figure; at least 10")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work)
    else:
        asyncio.run(measure(given.jobs, given.workers))


def work(url: str) -> None:
    """A worker that gives each job its result at once, until a signal."""
    worker = Worker(url, concurrency=PLACES)

    @worker.handler
    async def answer(_item: Any, _job: Any) -> Any:
        return RESULT

    worker.run()


async def measure(jobs: int, workers: int) -> None:
    """A server with a new store, its workers, and the figures one after the other."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        access = '{ post = "open", fetch = "open", work = "open", admin = "open" }'
        (folder / "leaseway.toml").write_text(
            f'[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:{folder}/data"\n[queues.bench]\naccess = {access}\n'
        )
        server = await stack.enter_async_context(
            serving("leaseway_server", "--config", str(folder / "leaseway.toml"), "--log", "terminal")
        )
        url = f"{server.ws_url}/bench"
        queue = await stack.enter_async_context(Client(url))
        working = [
            await asyncio.create_subprocess_exec(sys.executable, __file__, "--work", url) for _ in range(workers)
        ]
        try:
            await whole_way(queue, jobs // 10)  # So that all have begun.
            print(f"whole way, {workers} worker(s): {await whole_way(queue, jobs):,.0f} a second")
            print(f"a lone job: p50 {await lone(queue, min(LONE, jobs)):.2f} ms")
        finally:
            for process in working:
                process.terminate()
                await process.wait()
        print(f"posted one by one, {UNDER_WAY} under way: {await posts(queue, jobs):,.0f} a second")
        print(f"posted in bulk: {await bulk(queue, jobs):,.0f} a second")


async def whole_way(queue: Client, jobs: int) -> float:
    """Jobs a second, from the first post to the last result."""

    async def one() -> None:
        await (await queue.post(ITEM)).result(timeout=60)

    return await each(one, jobs)


async def posts(queue: Client, jobs: int) -> float:
    """Posts a second, each by itself, with nobody who works."""

    async def one() -> None:
        await queue.post(ITEM)

    return await each(one, jobs)


async def each(one: Any, jobs: int) -> float:
    """So often a second; at most `UNDER_WAY` at once."""
    numbers = iter(range(jobs))

    async def lane() -> None:
        for _ in numbers:
            await one()

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(UNDER_WAY)))
    return jobs / (time.perf_counter() - began)


async def bulk(queue: Client, jobs: int) -> float:
    """Jobs a second, posted by one `post_many`."""
    began = time.perf_counter()
    await queue.post_many([ITEM] * jobs)
    return jobs / (time.perf_counter() - began)


async def lone(queue: Client, jobs: int) -> float:
    """Milliseconds from a post to its result, in the middle."""
    took = []
    for _ in range(jobs):
        began = time.perf_counter()
        await (await queue.post(ITEM)).result(timeout=60)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


if __name__ == "__main__":
    main()
