"""The whole way of an item on SQLite and on PostgreSQL, in one run on one machine.

    python tests/benchmarks/stores.py [--items 20000] [--lanes 1 64 512]

One server process, one worker socket, one monitor socket, every commit synced, as `leaseway bench` has it. PostgreSQL
is one of the tests' own, with its files on the disk as SQLite's are, or what LEASEWAY_TEST_POSTGRES names; its CPU is
counted beside the server's where it is the tests' own. It shares the core that the server leaves with the load.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from leaseway_server.bench.figures import HEAD
from leaseway_server.bench.process import make_way
from leaseway_server.bench.ways import posts, whole_way
from support.postgres import OwnPostgres, Postgres, any_postgres, fresh_database

VARIABLE: Final = "LEASEWAY_STORE"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=20_000, help="so many a figure; a lone lane has a tenth")
    parser.add_argument("--lanes", type=int, nargs="*", default=[1, 64, 512])
    given = parser.parse_args()
    make_way()
    print(f"{HEAD}  database µs")
    with any_postgres(durable=True) as postgres:
        for lanes in given.lanes:
            items = given.items if lanes > 1 else given.items // 10
            asyncio.run(both(postgres, items, lanes))
        asyncio.run(both(postgres, given.items, 0))


async def both(postgres: Postgres, items: int, lanes: int) -> None:
    """One load on each; without lanes, posts in arrays."""
    for kind in ("SQLite", "PostgreSQL"):
        async with store(kind, postgres):
            before = cpu(postgres)
            name = f"{kind}, {lanes} lanes"
            figure = await (whole_way(None, name, items, lanes, batch=True) if lanes else posts(None, items))
            spent = (cpu(postgres) - before) / items * 1e6
        line = figure.line() if lanes else f"{kind}, {figure.line()}"
        print(line, f"{spent:12.1f}" if kind == "PostgreSQL" else "", flush=True)


@asynccontextmanager
async def store(kind: str, postgres: Postgres) -> AsyncIterator[None]:
    """The servers that are started meanwhile have a new store of this kind."""
    if kind == "SQLite":
        yield
        return
    async with fresh_database(postgres) as url:
        with environment(url):
            yield


@contextmanager
def environment(url: str) -> Iterator[None]:
    """As an operator would say it."""
    os.environ[VARIABLE] = url
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def cpu(postgres: Postgres) -> float:
    """The seconds that all its processes computed so far; also those that are gone."""
    if not isinstance(postgres, OwnPostgres):
        return 0.0
    main = postgres.pid
    fields = [
        each for each in map(_stat, Path("/proc").glob("[0-9]*/stat")) if each and main in (int(each[-1]), int(each[1]))
    ]
    return sum(sum(map(int, each[11 : 15 if int(each[-1]) == main else 13])) for each in fields) / _TICKS


def _stat(path: Path) -> list[str]:
    """The fields behind the name, and the process' number last; nothing where it has just ended."""
    try:
        return [*path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split(), path.parent.name]
    except (FileNotFoundError, ProcessLookupError):
        return []


if __name__ == "__main__":
    main()
