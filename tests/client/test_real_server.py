"""Client and worker against the real server: the whole way, every end, what is refused, rights."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from client.real_scene import Gate, Item, demo, gated
from leaseway import (
    Attempt,
    Cancelled,
    Client,
    Dead,
    Failed,
    Forbidden,
    NoSuchQueue,
    Permanent,
    Rejected,
    Release,
    ThreadAttempt,
    Unauthorized,
    UnknownItem,
    View,
    Worker,
    watch_state,
)
from support.server import open_queue, resize_queue, running_server

PIXEL = "data:image/png;base64,iVBORw0KGgo="


async def ends(url: str, queue: Client, raised: Exception) -> Any:
    """What comes of an item whose handler raises this."""
    worker = Worker(url)

    @worker.handler
    async def work(item: Item, job: Attempt) -> Item:
        raise raised

    async with worker:
        return await (await queue.post({})).result(timeout=20)


async def test_the_whole_way(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url, criteria={"format": ["jpg", "png"]}, concurrency=4)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            for percent in (40, 80):
                await job.progress({"percent": percent})
            return {"width": item["width"]}

        jobs = [await queue.post({"format": "png", "width": width}) for width in range(50)]
        passed_over = await queue.post({"format": "gif"})
        async with worker:
            results = [await job.result(timeout=20) for job in jobs]
        assert results == [{"width": width} for width in range(50)]
        assert passed_over.view is None or passed_over.view.status == "pending"
        view = jobs[0].view
        assert view is not None
        assert (view.progress, view.worker, view.attempts) == ({"percent": 80}, worker.name, 1)


async def test_every_state_is_seen_live(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        gate = Gate()
        job = await queue.post({})
        views: list[View] = []
        async with gated(url, gate):
            async for view in job.watch(timeout=20):
                views.append(view)
                if view.status == "processing":
                    gate.go.set()
        assert [view.status for view in views] == ["pending", "processing", "finished"]
        revs = [view.rev for view in views]
        assert revs == sorted(set(revs), key=revs.index)


async def test_a_plain_function_works_in_a_thread(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url, concurrency=2)

        @worker.handler
        def work(item: Item, job: ThreadAttempt) -> Item:
            job.progress({"percent": 50})
            return item * 2

        async with worker:
            jobs = [await queue.post(number) for number in range(10)]
            assert [await job.result(timeout=20) for job in jobs] == [number * 2 for number in range(10)]


@pytest.mark.parametrize(
    "value", [None, 0, "", [], {}, 1.5, 2**64 - 1, -(2**63), "\u0000é\U0001f600", {"a": [None, True]}]
)
async def test_any_json_goes_both_ways_unchanged(tmp_path: Path, value: Item) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            return item

        async with worker:
            assert await (await queue.post(value)).result(timeout=20) == value


async def test_a_large_item_and_result(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            return item

        large = "x" * 900_000
        async with worker:
            assert await (await queue.post(large)).result(timeout=20) == large
            with pytest.raises(Rejected, match="too-large"):
                await queue.post("x" * 1_000_000)


async def test_a_result_that_is_too_large_fails_and_costs_no_connection(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            return "x" * item

        async with worker:
            for length in (950_000, 2_000_000):
                with pytest.raises(Failed, match="too-large"):
                    await (await queue.post(length)).result(timeout=20)
            assert await (await queue.post(3)).result(timeout=20) == "xxx"


async def test_permanent_is_failed(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        with pytest.raises(Failed) as ended:
            await ends(url, queue, Permanent("no such font", code="font", detail={"font": "x"}))
        assert ended.value.error == {"message": "no such font", "code": "font", "detail": {"font": "x"}}


async def test_the_last_try_that_fails_is_dead(tmp_path: Path) -> None:
    async with demo(tmp_path, retry="{ max_attempts = 1 }") as (url, queue):
        with pytest.raises(Dead, match="ValueError: bad picture"):
            await ends(url, queue, ValueError("bad picture"))


async def test_release_gives_the_item_back(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        worker = Worker(url)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            if job.attempts == 1:
                await job.progress("half")
                raise Release
            return {"attempts": job.attempts, "checkpoint": job.checkpoint}

        async with worker:
            result = await (await queue.post({})).result(timeout=20)
        assert result == {"attempts": 2, "checkpoint": "half"}


async def test_what_the_schemas_refuse(tmp_path: Path) -> None:
    async with running_server(tmp_path, resize_queue()) as server:
        url = f"{server.ws_url}/resize"
        worker = Worker(url)
        refused: list[Rejected] = []

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            try:
                await job.progress({"percent": 101})
            except Rejected as error:
                refused.append(error)
            return {"image": PIXEL, "width": "wide"}

        async with Client(url) as queue, worker:
            with pytest.raises(Rejected) as told:
                await queue.post({"image": PIXEL, "format": "gif", "width": 64})
            assert told.value.code == "schema"
            assert told.value.errors[0]["path"] == "/item/format"
            with pytest.raises(Failed) as ended:
                await (await queue.post({"image": PIXEL, "format": "png", "width": 64})).result(timeout=20)
        assert refused[0].errors[0]["path"] == "/percent"
        assert ended.value.error is not None
        assert ended.value.error["code"] == "schema"
        assert "/width" in {fault["path"] for fault in ended.value.error["detail"]["errors"]}


async def test_a_cancelled_item_stops_its_handler(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        url, gate = f"{server.ws_url}/demo", Gate()
        async with Client(url) as queue, gated(url, gate), httpx.AsyncClient() as http:
            job = await queue.post({})
            await gate.begun.wait()
            (await http.post(f"{server.base_url}/demo/items/{job.id}/cancel")).raise_for_status()
            await gate.cancelled.wait()
            with pytest.raises(Cancelled):
                await job.result(timeout=20)


async def test_an_unknown_item_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_state, "ANSWER_WITHIN", 0.5)
    async with demo(tmp_path) as (_, queue):
        with pytest.raises(UnknownItem):
            await queue.result("0" * 16, timeout=20)


async def test_who_may_do_what(tmp_path: Path) -> None:
    rights = '{ post = "users", fetch = "users", work = ["box"] }'
    toml = f"[queues.demo]\naccess = {rights}\n"
    async with running_server(tmp_path, toml, users={"alice": [], "box": []}) as server:
        url = f"{server.ws_url}/demo"
        for token, refused in ((None, Unauthorized), ("wrong", Unauthorized), (server.tokens["alice"], Forbidden)):
            worker = Worker(url, token=token)
            worker.handler(lambda item, job: item)
            with pytest.raises(refused) as told:
                await worker.work()
            assert token is None or token not in str(told.value)
        with pytest.raises(NoSuchQueue):
            async with Client(f"{server.ws_url}/nonsense", token=server.tokens["alice"]):
                pass
        worker = Worker(url, token=server.tokens["box"])
        worker.handler(lambda item, job: item)
        async with Client(url, token=server.tokens["alice"]) as queue, worker:
            assert await (await queue.post(7)).result(timeout=20) == 7


@pytest.mark.protocol("6.1")
async def test_a_worker_that_stops_gives_back_what_it_holds(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        first, second = Gate(), Gate()
        second.go.set()
        worker = Worker(url, grace=0.0)

        @worker.handler
        async def work(item: Item, job: Attempt) -> Item:
            return await first.pass_through(job)

        job = await queue.post({})
        async with worker:
            await first.begun.wait()
        async with gated(url, second):
            assert await job.result(timeout=20) == {"attempts": 2}
        assert job.view is not None
