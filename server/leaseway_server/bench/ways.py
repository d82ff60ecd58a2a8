"""What is measured: the whole way of an item, posts in arrays, and beside them a bare echo of the same frames.

The whole way is post, claim, result and the pushes of its states, with every commit synced: a real server process on a
new store, one worker socket, one monitor socket. The echo goes through the same uvicorn and protocol: what the machine
charges for the frames alone. The load comes from this process, on another core where there are two.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from leaseway_server.bench.figures import Figure
from leaseway_server.bench.http_line import QUEUE, HttpLine
from leaseway_server.bench.lanes import ITEM, RESULT, Producer, Worker
from leaseway_server.bench.process import Measured, make_way, serving
from leaseway_server.bench.wire import Wire

WARM: Final = 20
"""So many items go before those that are measured."""
LONE: Final = 1_000
"""A lone item is measured so often, at most."""
SLICE: Final = 1_000
"""Posts in an array."""


Lane = Callable[[list[float], int], Awaitable[None]]
"""Runs so many items one after the other, and adds their latencies, in seconds."""


async def measure(folder: Path | None, items: int, lanes: int) -> AsyncIterator[Figure]:
    """All measurements, one after the other; `folder` is where their stores lie, None a temporary one's."""
    make_way()
    yield await echo(items, lanes)
    yield await whole_way(folder, f"{lanes} lanes, a frame a message", items, lanes)
    yield await whole_way(folder, f"{lanes} lanes, batch", items, lanes, batch=True)
    yield await whole_way(folder, f"{lanes} lanes, posted over HTTP", items, lanes, http=True)
    yield await whole_way(folder, "a lone item", min(items, LONE), 1)
    yield await posts(folder, items)


async def whole_way(
    folder: Path | None, name: str, items: int, lanes: int, *, batch: bool = False, http: bool = False
) -> Figure:
    """Runs so many items over so many lanes."""
    async with _serving(folder) as server:
        sockets = [await Wire.open(f"{server.ws_url}/{QUEUE}/{name}") for name in ("monitor", "work")]
        if batch:
            for socket in sockets:
                await socket.ask(b'{"hello":{"batch":true}}')
        monitor, worker = sockets
        producer = Producer(monitor, server.port if http else 0)
        Worker(worker, lanes, batch=batch)
        await producer.lane([], WARM)
        figure = await _timed(server, name, producer.lane, items, lanes)
        for socket in sockets:
            socket.close()
    return figure


async def posts(folder: Path | None, items: int) -> Figure:
    """Posts so many items in arrays over one connection; nobody works. Latencies are an array's."""
    slices, latencies = max(1, items // SLICE), list[float]()
    body = orjson.dumps([{"item": ITEM}] * min(items, SLICE))
    async with _serving(folder) as server:
        line = await HttpLine.open(server.port)
        await line.ask("POST", "/items", orjson.dumps({"item": ITEM}))
        cpu, started = server.cpu(), time.perf_counter()
        for _ in range(slices):
            before = time.perf_counter()
            await line.ask("POST", "/items", body)
            latencies.append(time.perf_counter() - before)
        seconds, cpu = time.perf_counter() - started, server.cpu() - cpu
        line.close()
    return Figure.of(f"posted in arrays of {min(items, SLICE):,}", slices * min(items, SLICE), latencies, seconds, cpu)


async def echo(items: int, lanes: int) -> Figure:
    """The frames of so many items, echoed over as many sockets as there are lanes."""
    frames = [
        orjson.dumps({"post": {"item": ITEM, "subscribe": True}, "ref": 1}),
        orjson.dumps({"result": {"id": "0" * 16, "value": RESULT, "attempts": 1}}),
        orjson.dumps({"claim": {"waitMs": 60_000}}),
    ]
    async with serving("leaseway_server.bench.echo") as server:
        sockets = [await Wire.open(server.ws_url) for _ in range(lanes)]
        free = list(sockets)

        async def lane(latencies: list[float], each: int) -> None:
            socket = free.pop()
            for _ in range(each):
                started = time.perf_counter()
                for frame in frames:
                    await socket.ask(frame)
                latencies.append(time.perf_counter() - started)

        figure = await _timed(server, "echo of the same frames", lane, items, lanes)
        for socket in sockets:
            socket.close()
    return figure


async def _timed(server: Measured, name: str, lane: Lane, items: int, lanes: int) -> Figure:
    """Runs all lanes at once."""
    each, latencies = max(1, items // lanes), list[float]()
    cpu, started = server.cpu(), time.perf_counter()
    await asyncio.gather(*(lane(latencies, each) for _ in range(lanes)))
    return Figure.of(name, len(latencies), latencies, time.perf_counter() - started, server.cpu() - cpu)


@asynccontextmanager
async def _serving(folder: Path | None) -> AsyncIterator[Measured]:
    """A server on a new store, with schemas for items and results."""
    with TemporaryDirectory(prefix="leaseway-bench-", dir=folder) as made:
        here = Path(made)
        for kind, example in (("item", ITEM), ("result", RESULT)):
            (here / f"{kind}.json").write_bytes(orjson.dumps(_schema(example)))
        config = here / "leaseway.toml"
        access = '{ post = "open", fetch = "open", work = "open", admin = "open" }'
        config.write_text(
            '[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:data"\n'
            f'[queues.{QUEUE}]\nschemas = "."\naccess = {access}\n',
            encoding="utf-8",
        )
        async with serving("leaseway_server", "--config", str(config), "--log", "terminal") as server:
            yield server


def _schema(example: dict[str, Any]) -> dict[str, object]:
    kinds = {str: "string", int: "integer"}
    return {
        "type": "object",
        "properties": {name: {"type": kinds[type(value)]} for name, value in example.items()},
        "required": sorted(example),
        "additionalProperties": False,
    }
