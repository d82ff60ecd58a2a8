"""Backlogs, measured: a million items that wait, a million delayed and a million ended, and a server on top of them.

    python tests/benchmarks/backlogs.py [--items 1000000] [--json]

The items are written straight into a queue's file, then a real server process starts on it. The last thousand of those
that wait are the only ones that match `{"format": "jpg"}` (indexed by `match`) and `{"kind": "jpg"}` (not indexed): the
deepest match there can be. Requests go over one connection at a time, from this process; latencies in ms.
"""

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # This is started as a script.

from leaseway_server.bench.http_line import HttpLine
from leaseway_server.bench.process import make_way, serving
from leaseway_server.core.jsontext import write
from leaseway_server.core.lifecycle import create
from leaseway_server.core.match import texts_of
from leaseway_server.core.model import TERMINAL, Item, NewItem
from leaseway_server.core.policy import Policy
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.sqlite.store import SqliteStore

MATCH = ("format",)
RARE = 1_000
"""So many items match the criteria that are measured."""
LOOK = 100
"""So many claims are made between two looks at how many ended items are left."""
DAY = 86_400_000


@dataclass
class Figure:
    """One measurement: how often it was done, and how long it took."""

    name: str
    count: int
    p50_ms: float
    p99_ms: float


# ── The file ──


def configure(folder: Path, keep: str = "") -> Path:
    """A configuration of one open queue in the folder."""
    access = '{ post = "open", fetch = "open", work = "open", admin = "open" }'
    (folder / "leaseway.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:{folder}/data"\n'
        f"[queues.bench]\nmatch = {json.dumps(MATCH)}\nmax_pending = 100_000_000\naccess = {access}\n{keep}"
    )
    return folder / "leaseway.toml"


def items_of(count: int, now: int) -> Iterator[tuple[Item, str]]:
    """All items, each with its body; row numbers are the caller's to give."""
    policy = Policy()
    bodies = {kind: write({"format": kind, "kind": kind, "image": "x" * 90, "width": 320}) for kind in ("png", "jpg")}
    waits = create(NewItem(bodies["png"], posted_by="ann"), "0" * 16, 0, now - DAY, policy)
    ends = replace(waits, ready=0, attempts=1, finished_at=now - DAY, updated_at=now - DAY)
    for number in range(count):
        status: Any = ("finished", "finished", "finished", "failed", "dead", "cancelled")[number % 6]
        yield replace(ends, status=status, result='{"width":320}' if status == "finished" else ""), bodies["png"]
    for number in range(count):
        yield replace(waits, ready=0, due_at=now + DAY + number), bodies["png"]
    for number in range(count):
        kind = "jpg" if number >= count - RARE else "png"
        yield replace(waits, due_at=now - DAY + number // 10), bodies[kind]


def fill(file: Path, count: int) -> None:
    """Writes the items into the file of a new store, in one transaction, with their row numbers in order."""
    now = time.time_ns() // 1_000_000
    asyncio.run(_made(file, now))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        (first,) = connection.execute("SELECT next_seq FROM state").fetchone()
        columns = (*COLUMNS, "match_1")
        insert = f"INSERT INTO item ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        texts = {kind: texts_of({"format": kind}, MATCH)[0] for kind in ("png", "jpg")}
        for seq, (item, body) in enumerate(items_of(count, now), first):
            kind = "jpg" if '"jpg"' in body else "png"
            values = [getattr(item, name) for name in COLUMNS[1:]]
            connection.execute(insert, (seq, *values, texts[kind]))
            connection.execute("INSERT INTO body (seq, value) VALUES (?, ?)", (seq, body))
            if item.result:
                connection.execute("INSERT INTO result (seq, value) VALUES (?, ?)", (seq, item.result))
        connection.execute("UPDATE state SET next_seq = ?, match = ?", (first + 3 * count, json.dumps(MATCH)))
        connection.execute("DELETE FROM count")
        connection.execute("INSERT INTO count SELECT status, count(*) FROM item GROUP BY status")
        connection.execute("COMMIT")


async def _made(file: Path, now: int) -> None:
    store = SqliteStore.open(file, lambda: now)
    async with store.turn(durable=True) as turn:
        await turn.new_ids(1)
        await turn.commit()
    await store.close()


# ── The requests ──


async def measured(name: str, count: int, once: Callable[[], Awaitable[object]]) -> Figure:
    """Does it so often, one after the other."""
    took = []
    for _ in range(count):
        started = time.perf_counter()
        await once()
        took.append((time.perf_counter() - started) * 1_000)
    return summed(name, took)


def summed(name: str, took: list[float]) -> Figure:
    """The figure of many measurements, each in ms."""
    late = sorted(took)[min(len(took) - 1, int(len(took) * 0.99))]
    return Figure(name, len(took), round(statistics.median(took), 3), round(late, 3))


async def looked_at(line: HttpLine) -> list[Figure]:
    """What changes little: posts, views, pages, reasons."""
    newest = (await line.ask("GET", "/items?limit=1"))["items"][0]["id"]
    scheduled = await _first_of(line, "label=scheduled")
    item = {"format": "png", "kind": "png", "image": "x" * 90, "width": 320}
    return [
        await measured("post", 1_000, lambda: line.ask("POST", "/items", orjson.dumps({"item": item}))),
        await measured("view", 1_000, lambda: line.ask("GET", f"/items/{newest}")),
        await measured("page of 100, newest", 200, lambda: line.ask("GET", "/items")),
        await measured("page of 100, dead", 200, lambda: line.ask("GET", "/items?status=dead")),
        await measured("page of 100, few match", 200, lambda: line.ask("GET", "/items?postedBy=bob")),
        await measured("page by a key", 200, lambda: line.ask("GET", "/items?key=none")),
        await measured("why, of the last that waits", 200, lambda: line.ask("GET", f"/items/{newest}/why")),
        await measured("why, of a delayed one", 200, lambda: line.ask("GET", f"/items/{scheduled}/why")),
    ]


async def _first_of(line: HttpLine, query: str) -> str:
    """The newest item of a list, however many pages come before it that hold none."""
    page = await line.ask("GET", f"/items?{query}&limit=1")
    while not page["items"]:
        page = await line.ask("GET", f"/items?{query}&limit=1&cursor={page['next']}")
    return str(page["items"][0]["id"])


async def claimed(line: HttpLine, other: HttpLine) -> list[Figure]:
    """Claims: of anything, by an indexed member, and by one that is not, with what others feel of that."""

    async def claim(criteria: object) -> None:
        answer = await line.ask("POST", "/claim", orjson.dumps({"criteria": criteria, "waitMs": 600_000}))
        if answer["type"] != "item":
            raise RuntimeError(f"nothing matched {criteria}")

    deep = asyncio.create_task(measured("claim, not indexed, deepest match", 1, lambda: claim({"kind": "jpg"})))
    meanwhile = []

    async def others() -> None:
        while not deep.done():
            meanwhile.append((await measured("", 1, lambda: other.ask("POST", "/claim", b"{}"))).p50_ms)

    await others()
    return [
        await measured("claim", 1_000, lambda: claim({})),
        await measured("claim, indexed, deepest match", 500, lambda: claim({"format": "jpg"})),
        await measured("claim, indexed and more", 200, lambda: claim({"format": ["jpg", "gif"], "width": {"$gt": 1}})),
        await measured("claim, not indexed, first matches", 500, lambda: claim({"kind": "png"})),
        await deep,
        summed("claim of another, meanwhile", meanwhile),
    ]


async def pruned(config: Path) -> list[Figure]:
    """How long it takes until all that has ended is pruned, and what claims feel of that."""
    brief = ", ".join(f'{kind} = "1s"' for kind in ("fetched", "finished", "failed", "dead", "cancelled", "expired"))
    configure(config.parent, f"keep = {{ {brief} }}\n")
    async with serving("leaseway_server", "--config", str(config), "--log", "terminal") as server:
        line = await HttpLine.open(server.port)
        before = ended = await _ended(line)
        started = time.perf_counter()
        felt: list[float] = []
        while ended:
            felt += [(await measured("", 1, lambda: line.ask("POST", "/claim", b"{}"))).p50_ms for _ in range(LOOK)]
            ended = await _ended(line)
        took = round((time.perf_counter() - started) * 1_000)
        return [Figure(f"pruning {before:,} ended items", 1, took, took), summed("claim, meanwhile", felt)]


async def _ended(line: HttpLine) -> int:
    counts = (await line.ask("GET", ""))["counts"]
    return sum(number for status, number in counts.items() if status in TERMINAL)


async def main(count: int) -> tuple[float, list[Figure]]:
    """All measurements, and how long the start took, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure(Path(folder))
        print(f"writing {3 * count:,} items …", file=sys.stderr)
        await asyncio.to_thread(fill, config.parent / "data" / "bench.db", count)
        make_way()
        started = time.perf_counter()
        async with serving("leaseway_server", "--config", str(config), "--log", "terminal") as server:
            start = time.perf_counter() - started
            figures = await looked_at(await HttpLine.open(server.port))
            lines = [await HttpLine.open(server.port) for _ in range(2)]  # One that idles is closed.
            figures += await claimed(*lines)
        return start, [*figures, *await pruned(config)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds, found = runner.run(main(options.items))
    if options.json:
        print(json.dumps({"start_s": round(seconds, 2), "figures": [asdict(each) for each in found]}, indent=2))
    else:
        print(f"start, with Python's own: {seconds:.2f} s\n{'':38}{'times':>7}{'p50 ms':>10}{'p99 ms':>10}")
        for each in found:
            print(f"{each.name:38}{each.count:>7,}{each.p50_ms:>10}{each.p99_ms:>10}")
