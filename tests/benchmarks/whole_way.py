"""The whole way of an item, measured: post, claim, result and the pushes of its states, every commit synced.

    python tests/benchmarks/whole_way.py [--items 20000] [--lanes 64] [--json]

A real server process, one worker socket, one monitor socket; the load comes from this process, on the other core where
there are two. Beside it, in the same run, a bare echo of the same frames on the same uvicorn and protocol: what the
machine charges for the frames alone. CPU is the server process's, user and system, from `/proc`.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import uvloop
from websockets.asyncio.client import ClientConnection, connect

HERE = Path(__file__).resolve().parent
ITEM = {"image": "x" * 90, "format": "png", "width": 320}
RESULT = {"image": "y" * 30, "width": 320, "height": 200}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Figure:
    """One measurement. CPU is the server's, in µs an item; latencies in ms."""

    name: str
    items: int
    items_per_second: float
    server_cpu_us: float
    p50_ms: float
    p99_ms: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[int, str]]:
    """A server process of ours; its address is the first URL that it logs."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stderr=asyncio.subprocess.PIPE, preexec_fn=lambda: pin(0)
    )
    assert server.stderr is not None
    try:
        while line := (await server.stderr.readline()).decode():
            if "serving http://" in line:
                yield server.pid, line.partition("serving ")[2].split()[0].rstrip("/").replace("http", "ws", 1)
                break
        else:
            raise RuntimeError("the server did not start")
    finally:
        server.terminate()
        await server.wait()


def pin(core: int) -> None:
    """Keeps this process on one core, where there are two."""
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})


Post = Callable[[], Awaitable[str]]
"""Posts an item and gives its id."""


class Producer:
    """Posts on the monitor socket, or over HTTP, and learns each end by its push."""

    def __init__(self, socket: ClientConnection, address: str = "") -> None:
        self._socket = socket
        self._http = address.removeprefix("ws://")
        self._posted: dict[int, asyncio.Future[str]] = {}
        self._ended: dict[str, asyncio.Future[None]] = {}
        self._early: set[str] = set()
        self._refs = count()
        self._done: list[str] = []

    async def lane(self, items: int, latencies: list[float]) -> None:
        """Posts one item after another, each when the one before has ended."""
        post = await self._over_http() if self._http else self._on_the_socket
        for _ in range(items):
            started = time.perf_counter()
            item_id = await post()
            if item_id not in self._early:
                ended = self._ended[item_id] = asyncio.get_running_loop().create_future()
                await ended
            latencies.append(time.perf_counter() - started)
            await self._forget(item_id)

    async def _forget(self, item_id: str) -> None:
        """Takes subscriptions back, a thousand at a time: a socket may hold 10,000."""
        self._done.append(item_id)
        if len(self._done) == 1_000:
            done, self._done = self._done, []
            await self._socket.send(json.dumps({"unsubscribe": done}))

    async def _on_the_socket(self) -> str:
        ref = next(self._refs)
        posted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posted[ref] = posted
        await self._socket.send(json.dumps({"post": {"item": ITEM, "subscribe": True}, "ref": ref}))
        return await posted

    async def _over_http(self) -> Post:
        host, _, port = self._http.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"item": ITEM})
        head = f"POST /bench/items HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

        async def post() -> str:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            item_id = str(json.loads(await reader.readexactly(length))["id"])
            await self._socket.send(json.dumps({"subscribe": [item_id]}))
            return item_id

        return post

    async def listen(self) -> None:
        """Reads what the server says, until cancelled."""
        async for frame in self._socket:
            message = json.loads(frame)
            for each in message["messages"] if message["type"] == "batch" else [message]:
                self._take(each)

    def _take(self, message: dict[str, object]) -> None:
        if message["type"] == "posted":
            self._posted.pop(int(str(message["ref"]))).set_result(str(message["id"]))
        elif message["type"] == "status" and message["status"] == "finished":
            ended = self._ended.pop(str(message["id"]), None)
            if ended is None:
                self._early.add(str(message["id"]))
            else:
                ended.set_result(None)


async def work(socket: ClientConnection, places: int) -> None:
    """A worker with so many places: a waiting claim for each, a result for each item."""
    claim = json.dumps({"claim": {"waitMs": 60_000}})
    for _ in range(places):
        await socket.send(claim)
    async for frame in socket:
        message = json.loads(frame)
        replies = []
        for each in message["messages"] if message["type"] == "batch" else [message]:
            if each["type"] == "item":
                replies.append({"result": {"id": each["id"], "value": RESULT, "attempts": each["attempts"]}})
            elif each["type"] == "result-ack":
                replies.append({"claim": {"waitMs": 60_000}})
        if len(replies) > 1 and message["type"] == "batch":
            await socket.send(json.dumps({"batch": replies}))
        else:
            for reply in replies:
                await socket.send(json.dumps(reply))


async def whole_way(name: str, items: int, lanes: int, *, batch: bool = False, http: bool = False) -> Figure:
    """Runs so many items over so many lanes against a new server."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "leaseway.toml"
        access = '{ post = "open", fetch = "open", work = "open", admin = "open" }'
        (Path(folder) / "schemas").mkdir()
        (Path(folder) / "schemas/item.json").write_text(json.dumps(_schema(ITEM)))
        (Path(folder) / "schemas/result.json").write_text(json.dumps(_schema(RESULT)))
        config.write_text(
            f'[server]\nlisten = "127.0.0.1:0"\nstore = "sqlite:{folder}/data"\n'
            f'[queues.bench]\nschemas = "schemas"\naccess = {access}\n'
        )
        async with (
            process("-m", "leaseway_server", "--config", str(config), "--log", "terminal") as (pid, address),
            connect(f"{address}/bench/monitor", compression=None) as monitor,
            connect(f"{address}/bench/work", compression=None) as worker,
        ):
            if batch:
                for socket in (monitor, worker):
                    await socket.send('{"hello": {"batch": true}}')
                    await socket.recv()
            return await _measure(name, pid, Producer(monitor, address if http else ""), worker, items, lanes)


async def _measure(name: str, pid: int, producer: Producer, worker: ClientConnection, items: int, lanes: int) -> Figure:
    tasks = [asyncio.create_task(producer.listen()), asyncio.create_task(work(worker, lanes))]
    await producer.lane(20, [])  # Warm.
    latencies: list[float] = []
    cpu, started = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(producer.lane(items // lanes, latencies) for _ in range(lanes)))
    seconds, cpu = time.perf_counter() - started, cpu_seconds(pid) - cpu
    for task in tasks:
        task.cancel()
    return figure(name, latencies, seconds, cpu)


def figure(name: str, latencies: list[float], seconds: float, cpu: float) -> Figure:
    """The figures of a run."""
    count = len(latencies)
    latencies.sort()
    return Figure(
        name,
        count,
        round(count / seconds),
        round(cpu / count * 1e6, 1),
        round(statistics.median(latencies) * 1000, 3),
        round(latencies[min(count - 1, int(count * 0.99))] * 1000, 3),
    )


def _schema(example: dict[str, object]) -> dict[str, object]:
    kinds = {str: "string", int: "integer"}
    return {
        "type": "object",
        "properties": {name: {"type": kinds[type(value)]} for name, value in example.items()},
        "required": sorted(example),
        "additionalProperties": False,
    }


async def echo(items: int, lanes: int) -> Figure:
    """The frames of the same number of items, echoed by the same uvicorn and protocol over as many sockets."""
    frames = [
        json.dumps({"post": {"item": ITEM, "subscribe": True}, "ref": 1}),
        json.dumps({"result": {"id": "0" * 16, "value": RESULT, "attempts": 1}}),
        json.dumps({"claim": {"waitMs": 60_000}}),
    ]

    async def lane(socket: ClientConnection, count: int, latencies: list[float]) -> None:
        for _ in range(count):
            started = time.perf_counter()
            for frame in frames:
                await socket.send(frame)
                await socket.recv()
            latencies.append(time.perf_counter() - started)

    async with process(str(HERE / "echo_server.py")) as (pid, address):
        sockets = [await connect(address, compression=None) for _ in range(lanes)]
        latencies: list[float] = []
        cpu, started = cpu_seconds(pid), time.perf_counter()
        await asyncio.gather(*(lane(socket, items // lanes, latencies) for socket in sockets))
        seconds, cpu = time.perf_counter() - started, cpu_seconds(pid) - cpu
        for socket in sockets:
            await socket.close()
    return figure("echo of the same frames", latencies, seconds, cpu)


async def main(items: int, lanes: int) -> list[Figure]:
    """All measurements, one after the other."""
    pin(1)
    return [
        await echo(items, lanes),
        await whole_way(f"{lanes} lanes, a frame a message", items, lanes),
        await whole_way(f"{lanes} lanes, posted over HTTP", items, lanes, http=True),
        await whole_way(f"{lanes} lanes, batch", items, lanes, batch=True),
        await whole_way("a lone item", min(items, 1_000), 1),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(main(options.items, options.lanes))
    if options.json:
        print(json.dumps([asdict(each) for each in figures], indent=2))
    else:
        print(f"{'':36}{'items/s':>10}{'server µs':>11}{'p50 ms':>9}{'p99 ms':>9}")
        for each in figures:
            print(
                f"{each.name:36}{each.items_per_second:>10,.0f}{each.server_cpu_us:>11}{each.p50_ms:>9}{each.p99_ms:>9}"
            )
