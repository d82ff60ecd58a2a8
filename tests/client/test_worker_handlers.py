"""Whatever a handler raises ends its attempt, frees its slot, and the next item is worked on."""

import asyncio
import concurrent.futures
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.real_scene import demo
from client.scripted_peer import A, B, ack, item, peer
from client.scripted_worker import claimed, made, working
from client.test_outcome import Unspeakable, nested
from leaseway import Attempt, Failed, LeaseLost, Permanent, Release, ThreadAttempt, Worker
from leaseway.errors import HandlerSignal, NotFinished


class Own(BaseException):
    """A handler's own, which is no `Exception`."""


FIVE: Any = "5"
RAISED: list[tuple[Callable[[], BaseException], str]] = [
    (lambda: Permanent(ValueError("bad picture")), "bad picture"),
    (lambda: Permanent(Unspeakable()), "Permanent"),
    (lambda: Release(math.inf), "OverflowError: cannot convert float infinity to integer"),
    (lambda: Release(math.nan), "ValueError: cannot convert float NaN to integer"),
    (lambda: Release(FIVE), "TypeError: type str doesn't define __round__ method"),
    (lambda: Release(1e280), "the release was refused: bad-json"),
    (Unspeakable, "Unspeakable: Unspeakable"),
    (lambda: SystemExit(2), "SystemExit: 2"),
    (Own, "Own"),
    (GeneratorExit, "GeneratorExit"),
    (StopIteration, "RuntimeError: |StopIteration"),
    (StopAsyncIteration, "StopAsyncIteration"),
    (lambda: BaseExceptionGroup("two", [Own()]), "BaseExceptionGroup: two"),
    (lambda: LeaseLost("mine"), "LeaseLost: mine"),
    (asyncio.CancelledError, "the handler was cancelled|CancelledError"),
    (concurrent.futures.CancelledError, "the handler was cancelled|CancelledError"),
]


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(("make", "message"), RAISED)
async def test_whatever_is_raised_is_told_and_the_next_item_comes(
    make: Callable[[], BaseException], message: str, thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with peer() as server:
        worker = made(server)

        async def in_the_loop(item: Any, job: Attempt) -> Any:
            return in_a_thread(item, job)

        def in_a_thread(item: Any, job: Attempt | ThreadAttempt) -> Any:
            if job.id == B:
                return {}
            raise make()

        worker.handler(in_a_thread if thread else in_the_loop)
        async with working(worker):
            socket, _ = await claimed(server)
            fail = await socket.expect("fail")
            told = fail["fail"]["error"]["message"]
            assert any(told.startswith(one) for one in message.split("|"))
            await socket.say(ack(fail, status="pending"))
            await socket.say(item(await socket.expect("claim"), B))
            assert (await socket.expect("result"))["result"]["id"] == B
    quiet = isinstance(make(), HandlerSignal | LeaseLost | asyncio.CancelledError)
    assert quiet or f"the handler of {A}/1 failed" in caplog.text


async def test_what_the_server_would_refuse_is_told_in_another_way(tmp_path: Path) -> None:
    """Against the real server: no report of these is refused for good, so that no lease is left to lapse."""
    raised = [Permanent("deep", detail=nested(64)), Permanent("deep", detail=nested(63)), Release(1e13)]
    async with demo(tmp_path, retry="{ max_attempts = 1 }") as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            raise raised[item]

        async with worker:
            for number in (0, 1):
                with pytest.raises(Failed) as ended:
                    await (await queue.post(number)).result(timeout=20)
                assert ended.value.error is not None
                assert ("detail" in ended.value.error) is (number == 1)
            with pytest.raises(NotFinished, match="the release was refused"):
                await (await queue.post(2)).result(timeout=20)
