"""A worker over real sockets against a scripted server: lost sockets, refusals, a clean stop."""

import asyncio
import math
import os
import queue
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted_peer import A, B, Conversation, ack, item, peer, resumed
from client.scripted_worker import claimed, made, working
from leaseway import Attempt, LeaseLost, Rejected, ThreadAttempt, Unauthorized, Worker
from leaseway.connection import Outside

Item = dict[str, Any]


@pytest.mark.protocol("6.4")
@pytest.mark.parametrize("how", ["restart", "cut"])
async def test_after_a_lost_socket_the_lease_is_resumed_and_the_handler_never_noticed(how: str) -> None:
    async with peer() as server:
        worker = made(server)
        go_on, runs = asyncio.Event(), []

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            runs.append(job.id)
            await go_on.wait()
            await job.progress({"percent": 90})
            return {}

        async with working(worker):
            socket, _ = await claimed(server)
            if how == "restart":
                await socket.close(1012)
            else:
                socket.cut()
            socket = await server.accept()
            first = await socket.greet()
            resume = await socket.expect("resume")
            assert resume["resume"] == {"worker": first["worker"], "leases": [{"id": A, "attempts": 1}]}
            await socket.say(resumed(resume))
            go_on.set()
            await socket.say(ack(await socket.expect("progress")))
            await socket.say(ack(await socket.expect("result"), status="finished"))
            await socket.expect("claim")
            assert runs == [A]


async def test_a_result_whose_ack_was_lost_is_said_again_and_known_to_count() -> None:
    async with peer() as server:
        worker = made(server)
        runs = []

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            runs.append(job.attempts)
            return {"width": 64}

        async with working(worker):
            socket, _ = await claimed(server)
            result = await socket.expect("result")
            socket.cut()
            socket = await server.accept()
            await socket.greet()
            await socket.say(resumed(await socket.expect("resume"), A))
            assert await socket.expect("result") == result
            counted = ack(result, accepted=False, status="finished", reason="terminal", duplicate=True)
            await socket.say(counted)
            await socket.expect("claim")
            assert runs == [1]


async def test_a_progress_that_waits_for_its_ack_outlives_the_socket() -> None:
    async with peer() as server:
        worker = made(server)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            await job.progress({"percent": 40})
            return {}

        async with working(worker):
            socket, _ = await claimed(server)
            progress = await socket.expect("progress")
            socket.cut()
            socket = await server.accept()
            await socket.greet()
            await socket.say(resumed(await socket.expect("resume")))
            assert await socket.expect("progress") == progress
            await socket.say(ack(progress))
            await socket.expect("result")


async def test_a_lease_that_moved_on_stops_its_handler_and_only_that() -> None:
    async with peer() as server:
        worker = made(server, concurrency=2)
        go_on, together, stopped = asyncio.Event(), asyncio.Barrier(3), []

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            await together.wait()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                stopped.append(job.id)
                raise
            return {}

        async with working(worker):
            socket, claim = await claimed(server, A)
            await socket.say(item(claim, B))
            await together.wait()
            socket.cut()
            socket = await server.accept()
            await socket.greet()
            await socket.say(resumed(await socket.expect("resume"), B))
            await socket.expect("claim")
            assert stopped == [B]
            go_on.set()
            assert (await socket.expect("result"))["result"]["id"] == A


async def test_a_stop_lets_handlers_finish_and_closes_with_1000() -> None:
    async with peer() as server:
        worker = made(server)
        begun, go_on = asyncio.Event(), asyncio.Event()

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            begun.set()
            await go_on.wait()
            return {}

        async with working(worker) as task:
            socket, _ = await claimed(server)
            await begun.wait()
            worker.stop()
            go_on.set()
            result = await socket.expect("result")
            assert not task.done()
            await socket.say(ack(result, status="finished"))
            assert await socket.closed() == 1000
            await task


async def test_after_the_grace_what_remains_is_given_back() -> None:
    async with peer() as server:
        worker = made(server, grace=0.0)
        begun = asyncio.Event()

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            begun.set()
            await asyncio.Event().wait()
            return {}

        async with working(worker) as task:
            socket, _ = await claimed(server)
            await begun.wait()
            worker.stop()
            release = await socket.expect("release")
            assert release["release"] == {"id": A, "attempts": 1}
            await socket.say(ack(release, status="pending"))
            assert await socket.closed() == 1000
            await task


async def test_a_thread_that_outlives_the_worker_is_told() -> None:
    async with peer() as server:
        worker = made(server, grace=0.0)
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Exception] = loop.create_future()

        @worker.handler
        def resize(item: Item, job: ThreadAttempt) -> Item:
            try:
                job.progress({"percent": 40})
            except LeaseLost as lost:
                loop.call_soon_threadsafe(told.set_result, lost)
            return {}

        async with working(worker) as task:
            socket, _ = await claimed(server)
            await socket.expect("progress")
            worker.stop()
            await socket.say(ack(await socket.expect("release"), status="pending"))
            await task
            await told


async def test_a_stop_while_there_is_no_connection_ends_too() -> None:
    async with peer() as server:
        url = server.url
    tried = asyncio.Event()

    async def pause(seconds: float) -> None:
        tried.set()
        await asyncio.Event().wait()

    worker = Worker(url, outside=Outside(pause=pause))

    @worker.handler
    async def resize(item: Item, job: Attempt) -> Item:
        return {}

    async with worker:
        await tried.wait()


async def test_a_worker_that_is_not_let_in_says_so() -> None:
    async with peer() as server:
        worker = Worker(server.url, token="wrong")

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            return {}

        async with working(worker) as task:
            await (await server.accept()).close(4401)
            with pytest.raises(Unauthorized):
                await task


async def test_a_worker_that_loses_its_right_stops_its_handlers() -> None:
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

        async with working(worker) as task:
            socket, _ = await claimed(server)
            await started.wait()
            await socket.close(4401)
            with pytest.raises(Unauthorized):
                await task
            assert stopped.is_set()


@pytest.mark.protocol("4.63")
async def test_two_workers_of_one_name_are_two() -> None:
    names = {Worker("ws://127.0.0.1:1/resize", name="box").name for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith(f"box-{os.getpid()}-") for name in names)


@pytest.mark.parametrize("name", ["box\n1", "x" * 151])
def test_a_name_that_the_protocol_does_not_allow_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        Worker("ws://127.0.0.1:1/resize", name=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 2.5}, "float"),
        ({"concurrency": "4"}, "str"),
        ({"grace": -1}, "grace is a number of seconds, 0 or more, and not -1"),
        ({"grace": math.nan}, "grace is a number of seconds"),
        ({"cancel_grace": math.inf}, "cancel_grace is a number of seconds"),
        ({"grace": "30s"}, "grace is a number of seconds, 0 or more, and not '30s'"),
        ({"labels": ["gpu"]}, "labels are an object"),
        ({"executor": "threads"}, "executor"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Worker("ws://127.0.0.1:1/resize", **options)


def yields(item: Item, job: ThreadAttempt) -> Any:
    yield item


async def yields_too(item: Item, job: Attempt) -> Any:
    yield item


@pytest.mark.parametrize("handler", [None, "resize", yields, yields_too])
def test_what_could_never_work_as_a_handler_is_refused(handler: Any) -> None:
    with pytest.raises(TypeError, match="no generator"):
        Worker("ws://127.0.0.1:1/resize").handler(handler)


async def test_a_worker_works_once() -> None:
    async with peer() as server:
        worker = made(server)
        worker.handler(lambda item, job: item)
        async with working(worker):
            await (await server.accept()).greet()
            with pytest.raises(RuntimeError, match="works once"):
                await worker.work()
        with pytest.raises(RuntimeError, match="works once"):
            await worker.work()


async def test_a_hello_that_is_refused_is_not_said_for_ever() -> None:
    async with peer() as server:
        worker = Worker(server.url, labels={"too": "deep"})
        worker.handler(lambda item, job: item)
        async with working(worker) as task:
            socket = await server.accept()
            await socket.expect("hello")
            places = [{"path": "/hello/labels", "message": "more than 64 levels"}]
            await socket.say({"type": "error", "id": None, "code": "bad-message", "errors": places})
            with pytest.raises(Rejected, match="/hello/labels: more than 64 levels"):
                await task


async def test_a_worker_needs_a_handler() -> None:
    with pytest.raises(RuntimeError, match="handler"):
        await Worker("ws://127.0.0.1:1/resize").work()


Script = Callable[[Conversation], Awaitable[None]]


@contextmanager
def serving_aside(script: Script) -> Iterator[str]:
    """A peer in a thread, with one socket whose claim is answered; `run` owns the main one, as in a program."""
    urls: queue.Queue[str] = queue.Queue()

    async def serve_one() -> None:
        async with peer() as server:
            urls.put(server.url)
            socket, _ = await claimed(server)
            await script(socket)

    with ThreadPoolExecutor(1) as thread:
        serving = thread.submit(asyncio.run, serve_one())
        yield urls.get()
        serving.result()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_stops_in_order_at_a_signal(number: signal.Signals) -> None:
    begun = threading.Event()

    async def script(socket: Conversation) -> None:
        await asyncio.to_thread(begun.wait)
        os.kill(os.getpid(), number)
        result = await socket.expect("result")
        assert result["result"]["value"] == {"stopped": True}
        await socket.say(ack(result, status="finished"))
        assert await socket.closed() == 1000

    with serving_aside(script) as url:
        worker = Worker(url)

        @worker.handler
        async def resize(item: Item, job: Attempt) -> Item:
            begun.set()
            await worker._stopping.wait()
            return {"stopped": True}

        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        worker.run()
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_before_the_work_and_one_after_it_change_nothing() -> None:
    """`run` is told at any moment, also before there is a loop and when it is gone."""
    worker = Worker("ws://127.0.0.1:1/resize")

    @worker.handler
    async def resize(item: Item, job: Attempt) -> Item:
        raise AssertionError("there is nothing to work on")

    worker._stop_soon()
    worker.run()
    worker._stop_soon()
