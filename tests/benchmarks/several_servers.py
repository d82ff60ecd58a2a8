"""The whole way of an item with 1, 2 and 4 servers on one PostgreSQL, beside one server on SQLite, in one run.

    python tests/benchmarks/several_servers.py [--items 20000] [--lanes 512] [--servers 1 2 4]

The lanes are shared out: each server has a producer with its part of them, and a worker with as many places, as where a
proxy spreads clients. Every commit is synced. PostgreSQL is one of the tests' own, with its files on the disk as
SQLite's are, or what LEASEWAY_TEST_POSTGRES names. The servers, PostgreSQL and the load share the cores of this machine
as they come, so the CPU that an item takes says more than how many there are in a second.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from benchmarks.stores import cpu
from leaseway_server.bench.figures import HEAD, Figure
from leaseway_server.bench.http_line import QUEUE
from leaseway_server.bench.lanes import Producer, Worker
from leaseway_server.bench.process import Measured
from leaseway_server.bench.wire import Wire
from support.postgres import Postgres, any_postgres, fresh_database
from support.process import server_process
from support.server import open_queue

WARM: Final = 20
"""So many items go before those that are measured, on each server."""


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=20_000, help="so many a figure")
    parser.add_argument("--lanes", type=int, default=512, help="so many items are under way at once")
    parser.add_argument("--servers", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    print(f"{HEAD}  database µs")
    with any_postgres(durable=True) as postgres:
        uvloop.run(measure(postgres, "SQLite, 1 server", 0, given.items, given.lanes))
        for number in given.servers:
            uvloop.run(measure(postgres, f"PostgreSQL, servers: {number}", number, given.items, given.lanes))


async def measure(postgres: Postgres, name: str, number: int, items: int, lanes: int) -> None:
    """Prints what so many servers do on PostgreSQL; 0: one on SQLite."""
    async with serving(postgres, number) as servers:
        producers = [await producer_on(server, lanes // len(servers)) for server in servers]
        await asyncio.gather(*(producer.lane([], WARM) for producer in producers))
        latencies: list[float] = []
        each = max(1, items // lanes)
        spent, database = sum(server.cpu() for server in servers), cpu(postgres)
        began = time.perf_counter()
        await asyncio.gather(*(producers[lane % len(producers)].lane(latencies, each) for lane in range(lanes)))
        seconds = time.perf_counter() - began
        spent, database = sum(server.cpu() for server in servers) - spent, cpu(postgres) - database
        figure = Figure.of(name, len(latencies), latencies, seconds, spent)
        print(figure.line(), f"{database / figure.items * 1e6:12.1f}" if number else "", flush=True)


async def producer_on(server: Measured, lanes: int) -> Producer:
    """A producer on this server, and a worker with so many places beside it; both send and hear in batches."""
    monitor, worker = [await Wire.open(f"{server.ws_url}/{QUEUE}/{kind}") for kind in ("monitor", "work")]
    for socket in (monitor, worker):
        await socket.ask(b'{"hello":{"batch":true}}')
    Worker(worker, lanes, batch=True)
    return Producer(monitor)


@asynccontextmanager
async def serving(postgres: Postgres, number: int) -> AsyncIterator[list[Measured]]:
    """So many servers on a new database; 0: one on a new file."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database(postgres)) if number else ""
        servers = []
        for _ in range(number or 1):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="leaseway-bench-")))
            server = await stack.enter_async_context(server_process(folder, open_queue(QUEUE), store=url))
            servers.append(Measured(server.pid, server.ws_url))
        yield servers


if __name__ == "__main__":
    main()
