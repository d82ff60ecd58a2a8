"""A stop in order: the claims are withdrawn first, and no item is charged a loss, whatever was on its way."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.scripted_peer import A, ack, item, peer
from client.scripted_worker import made, working
from leaseway import Attempt, Client, Worker
from support.server import open_queue, running_server

Item = Any


@pytest.mark.parametrize("ended_by", ["empty", "item", "cut"])
async def test_a_stop_waits_for_the_end_of_its_claim(ended_by: str) -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            raise AssertionError("no handler starts after the stop")

        async with working(worker) as task:
            socket = await server.accept()
            await socket.greet()
            claim = await socket.expect("claim")
            worker.stop()
            await socket.expect("unclaim")
            assert not task.done()
            if ended_by == "empty":
                await socket.say({"type": "empty", "ref": claim["ref"]})
            elif ended_by == "item":
                await socket.say(item(claim))
                release = await socket.expect("release")
                assert release["release"] == {"id": A, "attempts": 1}
                await socket.say(ack(release, status="pending"))
            else:
                socket.cut()
            await task
            assert await socket.closed() == (1006 if ended_by == "cut" else 1000)


async def test_workers_that_stop_on_a_busy_queue_cost_no_loss(tmp_path: Path) -> None:
    """Each stops after another number of items, so that the stop meets the next claim at every stage."""
    async with running_server(tmp_path, open_queue()) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url) as queue, httpx.AsyncClient(base_url=f"{server.base_url}/demo/items/") as http:
            jobs = [await queue.post(number) for number in range(150)]
            for count in range(1, 13):
                await work_on(url, count)
            views = [(await http.get(job.id)).json() for job in jobs]
    assert sum(view["status"] == "finished" for view in views) >= 78
    assert {view["status"] for view in views} == {"finished", "pending"}
    assert [view["id"] for view in views if view["losses"]] == []


async def work_on(url: str, count: int) -> None:
    """One worker, stopped while the rest of the queue waits for it."""
    worker = Worker(url, grace=20.0)
    enough = asyncio.Event()
    left = iter(range(count - 1, -1, -1))

    @worker.handler
    async def work(item: Item, job: Attempt) -> Item:
        if next(left, 0) == 0:
            enough.set()
        return item

    async with worker:
        await enough.wait()
