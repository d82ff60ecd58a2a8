"""Handlers in processes: what they see and say, how they end, and what becomes of one that dies. A real server."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from client import process_handlers
from client.real_scene import demo
from client.worker_process import PATIENCE, gone
from leaseway import Attempt, Client, Failed, HandlerDied, Job, Worker
from leaseway.worker import Executor
from support.server import open_queue, resize_queue, running_server

SOON = '{ max_attempts = 3, delays = ["0s"] }'


def worker_for(url: str, handler: Any, **options: Any) -> Worker:
    """A worker whose handler runs in processes."""
    worker = Worker(url, executor="process", **options)
    worker.handler(handler)
    return worker


async def test_it_sees_its_item_says_how_far_it_is_and_is_kept_between_items(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with demo(tmp_path) as (url, queue), worker_for(url, process_handlers.tells):
        results = [await (await queue.post(number)).result(timeout=PATIENCE) for number in range(2)]
    assert {"attempts": 1, "meta": None, "checkpoint": None}.items() <= results[0].items()
    assert 200 < results[0]["left"] <= 300
    assert results[0]["pid"] == results[1]["pid"]
    assert f"{results[0]['id']}/1: half of 0" in caplog.messages


async def test_one_that_dies_while_it_is_idle_costs_nobody_an_attempt(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue), worker_for(url, process_handlers.tells):
        first = await (await queue.post(1)).result(timeout=PATIENCE)
        os.kill(first["pid"], signal.SIGKILL)
        await gone(first["pid"])
        second = await (await queue.post(2)).result(timeout=PATIENCE)
    assert second["attempts"] == 1
    assert second["pid"] != first["pid"]


async def test_whatever_ends_it_ends_one_attempt_and_the_next_one_is_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with demo(tmp_path, retry=SOON) as (url, queue), worker_for(url, process_handlers.ends, concurrency=2):
        jobs = [await queue.post(item) for item in ("dies", "exits", "sys.exit", "fails", "retry", "release")]
        assert [await job.result(timeout=PATIENCE) for job in jobs] == [{"attempts": 2}] * 6
        for item, said in (("permanent", "no such font"), ("no json", "bad-json")):
            with pytest.raises(Failed, match=said):
                await (await queue.post(item)).result(timeout=PATIENCE)
    for said in ("was ended by signal 9", "ended with status 3", "SystemExit", "bad picture", "bad-json"):
        assert said in caplog.text


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_fork_of_a_handler_ends_where_it_comes_out_of_it_wherever_that_ran(tmp_path: Path) -> None:
    async def in_the_loop(item: Any, job: Attempt) -> Any:
        return process_handlers.forks(item, job)

    executors: tuple[Executor | None, ...] = (None, "thread", "process")
    async with demo(tmp_path) as (url, queue):
        for executor in executors:
            worker = Worker(url, executor=executor)
            worker.handler(process_handlers.forks if executor else in_the_loop)
            async with worker:
                assert await (await queue.post(1)).result(timeout=PATIENCE) == 1


async def test_a_refused_progress_is_raised_there(tmp_path: Path) -> None:
    item = {"image": "data:image/png;base64,iVBORw0KGgo=", "format": "png", "width": 64}
    async with running_server(tmp_path, resize_queue()) as server:
        url = f"{server.ws_url}/resize"
        async with Client(url) as queue, worker_for(url, process_handlers.posts_nonsense):
            with pytest.raises(Failed) as ended:  # The result fails its schema too: it is what was told.
                await (await queue.post(item)).result(timeout=PATIENCE)
    assert ended.value.error is not None
    assert ended.value.error["code"] == "schema"


async def test_one_that_looks_ends_by_itself_when_its_item_is_cancelled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leaseway")
    async with running_server(tmp_path, open_queue()) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url) as queue, worker_for(url, process_handlers.waits, grace=0.0):
            await cancel(server.base_url, await begun(await queue.post({})))
            await begun(await queue.post({}))
    assert "cancelled" in caplog.messages


async def test_one_that_does_not_is_ended_and_the_next_item_has_a_new_one(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url) as queue, worker_for(url, process_handlers.never_ends, cancel_grace=0.0):
            job = await begun(await queue.post("long"))
            await cancel(server.base_url, job)
            assert job.view is not None
            assert await (await queue.post("short")).result(timeout=PATIENCE) != job.view.progress


async def test_after_the_grace_of_a_stop_it_is_ended_and_its_item_given_back(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        async with worker_for(url, process_handlers.never_ends, grace=0.0):
            job = await begun(await queue.post("long"))
        async for view in job.watch(timeout=PATIENCE):
            if (view.status, view.attempts) == ("pending", 1):
                return


async def begun(job: Job) -> Job:
    """Waits for its first progress record."""
    async for view in job.watch(timeout=PATIENCE):
        if view.progress is not None:
            return job
    raise AssertionError("it ended before it said anything")


async def cancel(base_url: str, job: Job) -> None:
    """Withdraws the item."""
    async with httpx.AsyncClient() as http:
        (await http.post(f"{base_url}/demo/items/{job.id}/cancel")).raise_for_status()


async def test_a_handler_that_cannot_be_sent_to_a_process_is_refused_before_anything_is_claimed() -> None:
    with pytest.raises(ValueError, match="top level"):
        await worker_for("ws://127.0.0.1:1/demo", lambda item, job: item).work()


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_a_coroutine_function_runs_in_the_event_loop_alone(executor: Any) -> None:
    worker = Worker("ws://127.0.0.1:1/demo", executor=executor)

    @worker.handler
    async def work(item: Any, job: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="plain functions"):
        await worker.work()


def test_there_are_two_executors() -> None:
    nonsense: Any = "fork"
    with pytest.raises(ValueError, match="'thread', 'process'"):
        Worker("ws://127.0.0.1:1/demo", executor=nonsense)


UNGUARDED = """
from leaseway import Worker
worker = Worker("ws://127.0.0.1:1/demo", executor="process")
@worker.handler
def work(item, job):
    return item
worker.run()
"""


def test_a_program_without_its_guard_is_told_what_to_do(tmp_path: Path) -> None:
    """Each process for handlers imports the program: it must not start a worker again."""
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    last = ran.stderr.splitlines()[-1]
    assert ran.returncode == 1
    assert HandlerDied.__name__ in last
    assert "if __name__ == '__main__'" in last
