"""What a worker's user may rely on, from the first connection to the last item: against the real server."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.real_scene import Gate, demo, gated
from client.scripted_peer import Pauses, peer
from client.scripted_worker import working
from leaseway import (
    Attempt,
    Client,
    Dead,
    Failed,
    Job,
    Rejected,
    Retry,
    ThreadAttempt,
    Worker,
    claims,
    connection_process,
    transport,
)
from leaseway.connection import Endpoint, Outside, SocketClosed
from support.process import server_process
from support.server import TestServer, open_queue, running_server
from support.swallowing import way_to

PATIENCE = 20.0
CODE = "leaseway.connection_process.CODE"


@asynccontextmanager
async def served(folder: Path, **keys: str) -> AsyncIterator[tuple[TestServer, str, Client]]:
    """The open queue `demo`, its URL, and a client of it."""
    async with running_server(folder, open_queue(**keys)) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url) as queue:
            yield server, url, queue


async def cancel(server: TestServer, job: Job) -> None:
    """Withdraws an item."""
    async with httpx.AsyncClient() as http:
        (await http.post(f"{server.base_url}/demo/items/{job.id}/cancel")).raise_for_status()


async def requeued(job: Job) -> None:
    """Waits until it is pending after its first attempt."""
    async for view in job.watch(timeout=PATIENCE):
        if (view.status, view.attempts) == ("pending", 1):
            return
    raise AssertionError("it ended")


# What a handler sees and says


async def test_a_handler_logs_under_its_item_and_knows_until_when_it_is_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with demo(tmp_path, lease='"1h"') as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            job.log.warning("half of %s", item)
            left = [job.deadline - time.time()]
            await job.progress({})
            return [*left, job.deadline - time.time()]

        async with worker:
            job = await queue.post(7)
            left = await job.result(timeout=PATIENCE)
    assert f"{job.id}/1: half of 7" in caplog.messages
    assert all(3_000 < seconds <= 3_600 for seconds in left)


@pytest.mark.protocol("4.57")
async def test_retry_asks_for_another_attempt_at_its_own_time(tmp_path: Path) -> None:
    async with demo(tmp_path, retry='{ max_attempts = 2, delays = ["1h"] }') as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            raise Retry("the font is on its way", in_=0)

        async with worker:
            with pytest.raises(Dead, match="the font is on its way"):
                await (await queue.post({})).result(timeout=PATIENCE)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_handler_that_looks_whether_it_is_cancelled_ends_by_itself(plain: bool, tmp_path: Path) -> None:
    async with served(tmp_path) as (server, url, queue):
        worker = Worker(url, cancel_grace=60)
        loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        async def in_the_loop(item: Any, job: Attempt) -> None:
            begun.set()
            await job.cancelled.wait()
            ended.set()

        def in_a_thread(item: Any, job: ThreadAttempt) -> None:
            loop.call_soon_threadsafe(begun.set)
            job.cancelled.wait()
            loop.call_soon_threadsafe(ended.set)

        worker.handler(in_a_thread if plain else in_the_loop)
        async with worker:
            job = await queue.post({})
            await begun.wait()
            await cancel(server, job)
            await ended.wait()


async def test_one_that_looked_and_goes_on_is_cancelled_after_the_grace(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, url, queue):
        worker, told = Worker(url, cancel_grace=0.05), []
        begun, ended = asyncio.Event(), asyncio.Event()

        @worker.handler
        async def work(item: Any, job: Attempt) -> None:
            assert not job.cancelled.is_set()
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.append(job.cancelled.is_set())
                ended.set()

        async with worker:
            job = await queue.post({})
            await begun.wait()
            await cancel(server, job)
            await ended.wait()
    assert told == [True]


@pytest.mark.parametrize(("result", "code"), [("x" * 10_000_000, "too-large"), (object(), "bad-json")])
async def test_a_result_that_cannot_be_one_fails_for_good_and_is_reported(
    result: Any, code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)
        worker.handler(lambda item, job: result if item == 1 else item)
        async with worker:
            with pytest.raises(Failed, match=code):
                await (await queue.post(1)).result(timeout=PATIENCE)
            assert await (await queue.post(2)).result(timeout=PATIENCE) == 2
    assert [record.levelname for record in caplog.records if code in record.message] == ["ERROR"]


# Its end


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_worker_that_drains_ends_when_nothing_is_left_to_claim(concurrency: int, tmp_path: Path) -> None:
    async with demo(tmp_path, retry='{ delays = ["1h"] }') as (url, queue):
        worker = Worker(url, concurrency=concurrency, drain=True)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            if item == 3:
                raise ValueError("not today")
            if job.attempts == 1 and item == 5:
                raise Retry(in_=0)
            return item

        jobs = [await queue.post(number) for number in range(10)]
        await worker.work()
        statuses = [await status(job) for job in jobs]
    assert statuses == ["pending" if number == 3 else "finished" for number in range(10)]


async def status(job: Job) -> str:
    """How it is now."""
    view = await anext(aiter(job.watch(timeout=PATIENCE)))
    return view.status


async def test_one_with_criteria_finds_what_lies_behind_much_that_it_does_not_want(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, url, queue):
        async with httpx.AsyncClient() as http:
            for _ in range(5):
                posts = [{"item": {"format": "gif"}}] * 1000
                (await http.post(f"{server.base_url}/demo/items", json=posts)).raise_for_status()
        job = await queue.post({"format": "png"})
        worker = Worker(url, criteria={"format": "png"}, drain=True)
        worker.handler(lambda item, job: item["format"])
        await worker.work()
        assert await job.result(timeout=PATIENCE) == "png"


async def test_the_item_of_a_handler_that_does_not_end_is_given_back_at_no_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leaseway.worker.LAST_ANSWERS", 0.3)
    async with served(tmp_path) as (server, url, queue):
        worker, begun, go = Worker(url, grace=0.0), asyncio.Event(), asyncio.Event()

        @worker.handler
        async def work(item: Any, job: Attempt) -> None:
            begun.set()
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue

        async with worker:
            job = await queue.post({})
            await begun.wait()
        go.set()
        async with httpx.AsyncClient() as http:
            view = (await http.get(f"{server.base_url}/demo/items/{job.id}")).json()
    assert {"status": "pending", "losses": 0, "failures": 0}.items() <= view.items()


# Its connection


async def test_what_it_does_is_logged_by_the_worker_s_own_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leaseway")
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url, labels={"gpu": "T4"})
        worker.handler(lambda item, job: item)
        async with worker:
            await (await queue.post(1)).result(timeout=PATIENCE)
    assert [message for message in caplog.messages if message == f"connected to {url}/work"]
    assert caplog.messages[-1] == "stopped"


async def test_criteria_that_the_server_refuses_end_it_with_the_server_s_words() -> None:
    with pytest.raises(Rejected, match="bad-json"):
        Worker("ws://127.0.0.1:1/demo", criteria={"width": float("nan")})
    with pytest.raises(ValueError, match="labels"):
        Worker("ws://127.0.0.1:1/demo", labels={"x": "x" * 2048})


async def test_what_only_the_server_knows_to_be_wrong_is_told_too(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, _):
        worker = Worker(url, criteria={"width": {"$near": 3}})
        worker.handler(lambda item, job: item)
        with pytest.raises(Rejected, match=r"\$near"):
            await worker.work()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sys.frozen", True, "brings no Python"),
        ("sys.executable", "/nonexistent/python", "No such file"),
        (CODE, "raise SystemExit(3)", "ended with status 3 before it began"),
        (CODE, "import threading; threading.Event().wait()", "did not begin within"),
    ],
)
async def test_without_a_connection_process_the_connection_lives_in_a_thread(
    name: str, value: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(name, value, raising=False)
    if "wait()" in str(value):
        monkeypatch.setattr(connection_process, "START_WITHIN", 0.1)
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)
        worker.handler(lambda item, job: item)
        async with worker:
            assert await (await queue.post(1)).result(timeout=PATIENCE) == 1
    assert said in caplog.text


@pytest.mark.parametrize("noticed", [False, True])
async def test_what_is_said_while_there_is_no_connection_process_is_said_by_the_next(
    noticed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress record and the result: before anybody has noticed that it has ended, and after that."""
    gone = Told("a new one takes over")
    monkeypatch.setattr(logging.getLogger("leaseway"), "handlers", [gone])
    async with demo(tmp_path) as (url, queue):
        worker, begun, go = Worker(url), asyncio.Event(), asyncio.Event()

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            begun.set()
            await go.wait()
            await job.progress("late")
            return {"attempts": job.attempts}

        async with worker:
            job = await queue.post({})
            await begun.wait()
            process = worker._conversation
            assert isinstance(process, connection_process.InProcess)
            assert process._process is not None
            process._process._process.kill()
            if noticed:
                await gone.event.wait()
            go.set()
            assert await job.result(timeout=PATIENCE) == {"attempts": 1}
        assert job.view is not None
        assert job.view.progress == "late"


class Told(logging.Handler):
    """Sets an event when a record with this text is logged."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.event = asyncio.Event()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        if self._text in record.getMessage():
            self.event.set()


async def test_a_claim_that_the_server_forgot_makes_it_connect_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected, and its claim without an answer long past its time: it does not sit there for ever."""
    monkeypatch.setattr(claims, "CLAIM_WAIT_MS", 10)
    monkeypatch.setattr(claims, "ANSWER_WITHIN", 0.1)
    async with peer() as server:
        worker = Worker(server.url, outside=Pauses().outside())
        worker.handler(lambda item, job: item)
        async with working(worker):
            for _ in range(2):
                socket = await server.accept()
                await socket.greet()
                await socket.expect("claim")


async def test_a_network_that_swallows_everything_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PING_EVERY", 0.2)
    monkeypatch.setattr(transport, "PING_WITHIN", 0.2)
    pings = '[server]\nping_interval = "200ms"\nping_timeout = "200ms"\n'
    async with running_server(tmp_path, pings + open_queue()) as server, way_to(server.ws_url) as way:
        gate = Gate()
        worker = gated(f"{way.url}/demo", gate, Outside(chance=lambda: 0.01))
        async with Client(f"{server.ws_url}/demo") as queue, worker:
            job = await queue.post({})
            await gate.begun.wait()
            way.swallow()
            await requeued(job)
            gate.go.set()
            assert await job.result(timeout=PATIENCE) == {"attempts": 1}
    assert gate.runs == [(job.id, 1)]


@pytest.mark.parametrize("closing", [False, True])
async def test_a_connection_that_swallows_everything_is_given_up(
    closing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers the goodbye either: what waits for it may come too late to resume its leases."""
    monkeypatch.setattr(transport, "PING_EVERY", 0.1)
    monkeypatch.setattr(transport, "PING_WITHIN", 0.1)
    monkeypatch.setattr(transport, "CLOSE_WITHIN", 0.1)
    async with running_server(tmp_path) as server, way_to(server.ws_url) as way:
        socket = await transport.dial(Endpoint.of(f"{way.url}/demo", "work", None), 1024)
        assert socket._connection.close_timeout == transport.CLOSE_WITHIN, "else the library waits for 10 s"
        way.swallow()
        async with asyncio.timeout(PATIENCE):
            if closing:
                await socket.close()
            with pytest.raises(SocketClosed):
                await socket.receive()


async def test_a_worker_that_stops_does_not_say_that_it_waits_for_items(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leaseway")
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)
        worker.handler(lambda item, job: item)
        async with worker:
            assert await (await queue.post(1)).result(timeout=PATIENCE) == 1
    assert "stopped" in caplog.messages
    assert not [message for message in caplog.messages if "nothing to do" in message]


@pytest.mark.protocol("6.12")
async def test_a_server_that_is_killed_and_started_again_costs_no_attempt(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        gate = Gate()
        async with Client(f"{server.ws_url}/demo") as queue, gated(f"{server.ws_url}/demo", gate):
            job = await queue.post({})
            await gate.begun.wait()
            await server.kill()
            await server.start()
            gate.go.set()
            assert await job.result(timeout=PATIENCE) == {"attempts": 1}
    assert gate.runs == [(job.id, 1)]
