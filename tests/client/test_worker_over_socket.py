"""A worker over real sockets against a scripted server: what handlers do, and how their attempts end."""

import asyncio
import threading
from typing import Any

import pytest

from client.scripted_peer import A, B, ack, error, item, peer
from client.scripted_worker import claimed, made, working
from leaseway import Attempt, LeaseLost, Permanent, Rejected, Release, ThreadAttempt

Item = dict[str, Any]


@pytest.mark.protocol("4.31")
async def test_what_the_handler_returns_is_the_result() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            assert (job.id, job.attempts, job.checkpoint, job.meta) == (A, 3, {"percent": 10}, {"from": "x"})
            await job.progress({"percent": 40})
            return {"width": item["width"] * 2}

        async with working(worker):
            socket, _ = await claimed(server, attempts=3, progress={"percent": 10}, meta={"from": "x"})
            progress = await socket.expect("progress")
            assert progress["progress"] == {"id": A, "attempts": 3, "value": {"percent": 40}}
            await socket.say(ack(progress))
            result = await socket.expect("result")
            assert result["result"] == {"id": A, "attempts": 3, "value": {"width": 128}}
            await socket.say(ack(result, status="finished"))
            await socket.expect("claim")


async def test_a_plain_function_runs_in_a_thread_and_may_post_progress() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        def resize(item: Item, job: ThreadAttempt) -> Item:
            job.progress({"percent": 40})
            return {"main": threading.current_thread() is threading.main_thread()}

        async with working(worker):
            socket, _ = await claimed(server)
            await socket.say(ack(await socket.expect("progress")))
            assert (await socket.expect("result"))["result"]["value"] == {"main": False}


@pytest.mark.parametrize(
    ("raised", "report"),
    [
        (ValueError("bad picture"), {"retryable": True, "error": {"message": "ValueError: bad picture"}}),
        (Permanent("no such font"), {"retryable": False, "error": {"message": "no such font"}}),
    ],
)
async def test_an_exception_is_a_fail(raised: Exception, report: Item) -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            raise raised

        async with working(worker):
            socket, _ = await claimed(server)
            fail = (await socket.expect("fail"))["fail"]
            assert fail["retryable"] == report["retryable"]
            assert fail["error"]["message"] == report["error"]["message"]


@pytest.mark.protocol("4.31")
async def test_release_gives_the_item_back() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            raise Release(delay=2)

        async with working(worker):
            socket, _ = await claimed(server)
            assert (await socket.expect("release"))["release"] == {"id": A, "attempts": 1, "delayMs": 2000}


async def test_a_refused_progress_is_raised_in_the_handler() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            with pytest.raises(Rejected, match="greater than 100"):
                await job.progress({"percent": 101})
            return {"told": True}

        async with working(worker):
            socket, _ = await claimed(server)
            progress = await socket.expect("progress")
            fault = {"path": "/percent", "message": "101 is greater than 100"}
            await socket.say(error(progress, "schema", fault, item_id=A))
            assert (await socket.expect("result"))["result"]["value"] == {"told": True}


@pytest.mark.protocol("1.56", "4.31")
async def test_leases_are_renewed_while_the_handler_works() -> None:
    async with peer() as server:
        worker = made(server)
        go_on = asyncio.Event()

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            await go_on.wait()
            return {}

        async with working(worker):
            socket, _ = await claimed(server, leaseMs=60)
            for _ in range(3):
                renewal = await socket.expect("renew")
                assert renewal["renew"] == {"id": A, "attempts": 1}
                await socket.say(ack(renewal))
            go_on.set()
            while "renew" in (report := await socket.hear()):
                await socket.say(ack(report))
            assert "result" in report


async def test_as_many_items_are_worked_on_as_there_are_slots() -> None:
    async with peer() as server:
        worker = made(server, concurrency=3)
        together = asyncio.Barrier(3)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            await together.wait()
            return {}

        async with working(worker):
            socket = await server.accept()
            await socket.greet()
            claim = await socket.expect("claim")
            assert claim["claim"]["count"] == 3
            for number in range(3):
                await socket.say(item(claim, f"{number:016x}"))
            said = [await socket.hear() for _ in range(6)]
            assert sum("result" in message for message in said) == 3
            assert sum("claim" in message for message in said) == 3  # One for each place, the moment it is free.


async def test_a_cancel_stops_the_handler_and_nothing_is_reported() -> None:
    async with peer() as server:
        worker = made(server)
        started, stopped = asyncio.Event(), asyncio.Event()

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return {}

        async with working(worker):
            socket, _ = await claimed(server)
            await started.wait()
            await socket.say({"type": "cancel", "id": A, "reason": "cancelled"})
            await stopped.wait()
            await socket.expect("claim")


async def test_an_item_cancelled_in_the_moment_it_came_frees_its_slot() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            return {}

        async with working(worker):
            socket = await server.accept()
            await socket.greet()
            both = [item(await socket.expect("claim")), {"type": "cancel", "id": A, "reason": "cancelled"}]
            await socket.say({"type": "batch", "messages": both})
            await socket.expect("claim")


async def test_a_thread_learns_of_its_lost_lease_and_keeps_its_slot_until_it_ends() -> None:
    async with peer() as server:
        worker = made(server, concurrency=2)
        go_on = threading.Event()

        @worker.handler
        def resize(item: Item, job: ThreadAttempt) -> Item:
            job.progress({"percent": 40})
            go_on.wait()
            with pytest.raises(LeaseLost):
                job.progress({"percent": 50})
            return {}

        async with working(worker):
            socket, claim = await claimed(server, A)
            await socket.say(ack(await socket.expect("progress")))
            await socket.say({"type": "cancel", "id": A, "reason": "lapsed"})
            await socket.say(item(claim, B))
            progress = await socket.expect("progress")  # And no claim for the slot of A before it.
            assert progress["progress"]["id"] == B
            go_on.set()
            await socket.expect("claim")


async def test_a_thread_that_posts_progress_after_the_worker_has_gone_is_told() -> None:
    async with peer() as server:
        worker = made(server)
        go_on, begun = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Exception] = loop.create_future()

        @worker.handler
        def resize(item: Item, job: ThreadAttempt) -> Item:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait()
            try:
                job.progress({"percent": 50})
            except LeaseLost as lost:
                loop.call_soon_threadsafe(told.set_result, lost)
            return {}

        async with working(worker):
            await claimed(server)
            await begun.wait()
        go_on.set()
        await told


async def test_a_handler_that_is_cancelled_by_itself_is_a_fault() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            raise asyncio.CancelledError

        async with working(worker):
            socket, _ = await claimed(server)
            fail = (await socket.expect("fail"))["fail"]
            assert (fail["retryable"], fail["error"]["code"]) == (True, "CancelledError")
