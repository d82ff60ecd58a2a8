"""What is measured: the whole way of an item, posts in arrays, and beside them a bare echo of the same frames.

The whole way is post, claim, result and the pushes of its states, with every commit synced: a real server process on a
new store, one worker socket, one monitor socket. The echo goes through the same uvicorn and protocol: what the machine
charges for the frames alone. The load comes from this process, on another core where there are two.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from websockets.asyncio.client import connect

from leaseway_server.bench.figures import Figure
from leaseway_server.bench.lanes import ITEM, QUEUE, RESULT, HttpDoor, Producer, work
from leaseway_server.bench.process import Measured, make_way, serving

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
    async with _serving(folder) as server, _socket(server, "monitor") as monitor, _socket(server, "work") as worker:
        if batch:
            for socket in (monitor, worker):
                await socket.send('{"hello": {"batch": true}}')
                await socket.recv()
        producer = Producer(monitor, server.port if http else 0)
        tasks = [asyncio.create_task(producer.listen()), asyncio.create_task(work(worker, lanes))]
        await producer.lane([], WARM)
        figure = await _timed(server, name, producer.lane, items, lanes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return figure


async def posts(folder: Path | None, items: int) -> Figure:
    """Posts so many items in arrays over one connection; nobody works. Latencies are an array's."""
    slices, latencies = max(1, items // SLICE), list[float]()
    body = json.dumps([{"item": ITEM}] * min(items, SLICE)).encode()
    async with _serving(folder) as server:
        door = await HttpDoor.open(server.port)
        await door.post(json.dumps({"item": ITEM}).encode())
        cpu, started = server.cpu(), time.perf_counter()
        for _ in range(slices):
            before = time.perf_counter()
            await door.post(body)
            latencies.append(time.perf_counter() - before)
        seconds, cpu = time.perf_counter() - started, server.cpu() - cpu
        door.close()
    return Figure.of(f"posted in arrays of {min(items, SLICE):,}", slices * min(items, SLICE), latencies, seconds, cpu)


async def echo(items: int, lanes: int) -> Figure:
    """The frames of so many items, echoed over as many sockets as there are lanes."""
    frames = [
        json.dumps({"post": {"item": ITEM, "subscribe": True}, "ref": 1}),
        json.dumps({"result": {"id": "0" * 16, "value": RESULT, "attempts": 1}}),
        json.dumps({"claim": {"waitMs": 60_000}}),
    ]
    async with serving("leaseway_server.bench.echo") as server:
        sockets = [await connect(server.ws_url, compression=None, proxy=None) for _ in range(lanes)]
        free = list(sockets)

        async def lane(latencies: list[float], each: int) -> None:
            socket = free.pop()
            for _ in range(each):
                started = time.perf_counter()
                for frame in frames:
                    await socket.send(frame)
                    await socket.recv()
                latencies.append(time.perf_counter() - started)

        figure = await _timed(server, "echo of the same frames", lane, items, lanes)
        await asyncio.gather(*(socket.close() for socket in sockets))
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
            (here / f"{kind}.json").write_text(json.dumps(_schema(example)), encoding="utf-8")
        config = here / "leaseway.toml"
        access = '{ post = "open", fetch = "open", work = "open", admin = "open" }'
        config.write_text(
            '[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:data"\n'
            f'[queues.{QUEUE}]\nschemas = "."\naccess = {access}\n',
            encoding="utf-8",
        )
        async with serving("leaseway_server", "--config", str(config), "--log", "terminal") as server:
            yield server


def _socket(server: Measured, name: str) -> connect:
    return connect(f"{server.ws_url}/{QUEUE}/{name}", compression=None, proxy=None)


def _schema(example: dict[str, Any]) -> dict[str, object]:
    kinds = {str: "string", int: "integer"}
    return {
        "type": "object",
        "properties": {name: {"type": kinds[type(value)]} for name, value in example.items()},
        "required": sorted(example),
        "additionalProperties": False,
    }
