"""SIGHUP to a real process, over and over and under load: nothing is lost, and nobody is thrown out."""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from support.matrix import Line
from support.process import server_process
from support.raw import RawSocket, raw_socket
from support.server import open_queue

LEASED: Final = open_queue(lease='"5m"')
ITEMS: Final = 300
SIGNALS: Final = 60


async def produce(monitor: RawSocket, ids: set[str]) -> None:
    for number in range(ITEMS):
        posted = await monitor.ask({"post": {"item": number}})
        assert posted["type"] == "posted"
        ids.add(posted["id"])


async def consume(worker: RawSocket, results: Counter[str]) -> None:
    """Works until told to stop by an item that says so."""
    while True:
        item = await worker.ask({"claim": {"waitMs": 60_000}})
        ack = await worker.ask({"result": {"id": item["id"], "attempts": item["attempts"], "value": 1}})
        assert ack["accepted"]
        if item["item"] == "stop":
            return
        results[item["id"]] += 1


def told(output: bytes) -> int:
    """How often it is said that the file was read."""
    return output.count(b"event=admin.config_") + output.count(b"config.refused")


async def test_many_signals_under_load_lose_nothing(tmp_path: Path) -> None:
    """Good files, bad files and none, as fast as they are read: no socket is closed, each item is worked on once."""
    async with server_process(tmp_path, f"[server]\n{LEASED}") as server, AsyncExitStack() as stack:
        file = tmp_path / "leaseway.toml"
        good = file.read_text()

        async def open_socket(kind: str) -> RawSocket:
            return await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/{kind}"))

        monitor, workers = await open_socket("monitor"), [await open_socket("work") for _ in range(3)]
        ids: set[str] = set()
        results: Counter[str] = Counter()
        working = [asyncio.create_task(consume(worker, results)) for worker in workers]
        producing = asyncio.create_task(produce(monitor, ids))
        async with Line(server.base_url) as line:
            for number in range(SIGNALS):
                lease = ('"5m"', '"1h"', "1", f'"{number + 100}s"')[number % 4]
                file.write_text(good.replace('"5m"', lease))
                server.signal(signal.SIGHUP)
                while told(server.output) <= number:
                    assert (await line.ask("GET", "/_ready")).status == 200
        await producing
        for _ in workers:
            await monitor.ask({"post": {"item": "stop"}})
        await asyncio.gather(*working)
        assert set(results) == ids
        assert set(results.values()) == {1}
        for _ in range(SIGNALS):  # Nor does it matter whether the one before was obeyed.
            server.signal(signal.SIGHUP)
        assert (await server.stop()).status == 0
        assert server.output.count(b"config.refused") == SIGNALS // 4, "each with one mistake"
        assert server.output.count(b"changed=queues.demo.lease") == SIGNALS * 3 // 4 - 1, "the first changes nothing"
        assert b"Traceback" not in server.output
