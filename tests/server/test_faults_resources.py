"""What a process runs out of, and starts with much to look at (`faults.md`, Resources and deployments, Storage)."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from support.matrix import Line
from support.process import ServerProcess, server_process
from support.raw import raw_socket
from support.server import open_queue

Message = dict[str, Any]
LIMIT = 80
"""File descriptors of the process: a score of its own, and the rest for connections."""
MANY = 10_000


# ── File descriptors ──


async def greeted(server: ServerProcess, stack: AsyncExitStack) -> bool:
    """Whether one more socket is served; if so it stays open."""
    try:
        socket = await stack.enter_async_context(raw_socket(f"{server.ws_url}/demo/work"))
        return bool((await socket.ask({"hello": {}}))["type"] == "hello")
    except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
        return False


async def test_without_file_descriptors_who_is_there_is_served_and_others_when_there_are_some(tmp_path: Path) -> None:
    prefix = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh"]
    async with server_process(tmp_path, open_queue(), prefix) as server, Line(server.base_url) as line:
        assert (await line.ask("GET", "/_ready")).status == 200
        async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor, AsyncExitStack() as crowd:
            assert (await monitor.ask({"hello": {}}))["type"] == "hello"
            served = 0
            while served < LIMIT and await greeted(server, crowd):
                served += 1
            assert 10 < served < LIMIT, "some were served, and then there was none left"
            posted = await monitor.ask({"post": {"item": "under pressure"}})
            assert posted["type"] == "posted", "who is there is served on"
            assert (await line.ask("GET", f"/demo/items/{posted['id']}")).status == 200
        async with asyncio.timeout(10), AsyncExitStack() as stack:
            while not await greeted(server, stack):
                pass  # Until the server has seen the crowd go.
        assert b"Traceback" not in server.output
        assert server.output.count(b"\n") < 4 * served, "and no flood of lines about it"


# ── A start with much to look at ──


async def test_a_server_with_ten_thousand_leases_serves_soon_and_hands_none_out_twice(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue(lease='"1h"')) as server:
        async with raw_socket(f"{server.ws_url}/demo/monitor") as monitor:
            await monitor.ask({"hello": {"batch": True}})
            for _ in range(MANY // 1_000):
                monitor.say({"batch": [{"post": {"item": 1}}] * 1_000})
                await monitor.hear_all(1_000)
        async with raw_socket(f"{server.ws_url}/demo/work") as worker:
            await worker.ask({"hello": {"worker": "w", "batch": True}})
            held: list[str] = []
            while len(held) < MANY:
                worker.say({"claim": {"count": 100}})
                held += [item["id"] for item in await worker.hear_all(100)]
            await server.restart()
        async with raw_socket(f"{server.ws_url}/demo/work") as worker:
            assert (await worker.ask({"claim": {"count": 100}})) == {"type": "empty"}
            leases = [{"id": item_id, "attempts": 1} for item_id in held]
            resumed = await worker.ask({"resume": {"worker": "w", "leases": leases}})
            assert all(lease["accepted"] for lease in resumed["leases"])
        assert len(set(held)) == MANY


async def test_the_log_of_a_start_says_which_sqlite_it_is(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        assert f"sqlite={sqlite3.sqlite_version}".encode() in server.output
