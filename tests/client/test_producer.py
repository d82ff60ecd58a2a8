"""What a producer does beside posting one item, against the real server: options, arrays, keys, lists, why, cancel."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from client.real_scene import Gate, Wire, demo, gated
from leaseway import (
    Attempt,
    Cancelled,
    Client,
    ConnectionLost,
    Forbidden,
    NoSuchQueue,
    Post,
    Rejected,
    Unauthorized,
    UnknownItem,
    View,
    Worker,
)
from support.server import open_queue, running_server


@dataclass
class Size:
    width: int


@dataclass
class Picture:
    name: str
    size: Size


async def views(found: AsyncIterator[View]) -> list[View]:
    """All of them."""
    return [view async for view in found]


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Worker]:
    """A worker whose results are the items' sizes."""
    worker = Worker(url, concurrency=4)

    @worker.handler
    async def work(item: Any, job: Attempt) -> Any:
        return item["size"]

    async with worker:
        yield worker


async def test_options_arrive(tmp_path: Path) -> None:
    async with demo(tmp_path) as (_, queue):
        job = await queue.post({}, key="k", priority=5, delay=60, ttl=3600.5, max_attempts=2, meta={"trace": "x"})
        view = (await queue.get(job.id)).view
        assert view is not None
        assert (view.key, view.priority, view.max_attempts, view.meta) == ("k", 5, 2, {"trace": "x"})
        assert view.label == "scheduled"
        assert view.due_at is not None
        assert view.expires_at is not None
        assert (view.due_at - view.posted_at, view.expires_at - view.posted_at) == (60_000, 3_600_500)
        later = (await queue.get((await queue.post({}, due_at=view.due_at / 1000)).id)).view
        assert later is not None
        assert later.due_at == view.due_at


async def test_a_key_is_one_item(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        first, again = await queue.post({"size": 1}, key="k"), await queue.post({"size": 1}, key="k")
        assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
        with pytest.raises(Rejected, match="conflict") as refused:
            await queue.post({"size": 2}, key="k")
        assert refused.value.code == "conflict"
        async with working(url):
            assert await again.result(timeout=20) == 1
        assert await (await queue.post({"size": 1}, key="k")).result(timeout=20) == 1


async def test_many_are_posted_in_slices_and_in_order(tmp_path: Path) -> None:
    async with demo(tmp_path, max_bulk_items="3") as (url, queue):
        jobs = await queue.post_many([{"size": n} for n in range(10)], priority=7)
        async with working(url):
            assert [await job.result(timeout=20) for job in jobs] == list(range(10))
        assert {job.view.priority for job in jobs if job.view} == {7}
        assert await queue.post_many([]) == []
        keyed = [await queue.post_many(range(5), key=str) for _ in range(2)]
        assert [job.id for job in keyed[0]] == [job.id for job in keyed[1]]
        assert [job.duplicate for jobs in keyed for job in jobs] == [False] * 5 + [True] * 5


async def test_arrays_fit_into_the_servers_messages(tmp_path: Path) -> None:
    async with demo(tmp_path) as (_, queue):
        jobs = await queue.post_many(["x" * 300_000] * 8)
        assert len({job.id for job in jobs}) == 8


async def test_what_is_refused_is_named_and_what_came_before_stays(tmp_path: Path) -> None:
    async with demo(tmp_path, max_bulk_items="2") as (_, queue):
        posting = queue.post_each([Post(n, priority=n * 40) for n in range(9)])
        posted = [(await anext(posting)).id, (await anext(posting)).id]
        with pytest.raises(Rejected, match="/3/priority") as refused:
            await anext(posting)
        assert refused.value.code == "bad-message"
        assert [view.id for view in await views(queue.items())] == posted[::-1]


async def test_a_stream_is_posted_as_it_comes(tmp_path: Path) -> None:
    async with demo(tmp_path, max_bulk_items="2") as (_, queue):

        async def coming() -> AsyncIterator[int]:
            for number in range(5):
                yield number

        seen = [job async for job in queue.post_each(coming(), key=str)]
        assert len({job.id for job in seen}) == 5


async def test_posts_with_keys_outlive_the_connection(tmp_path: Path) -> None:
    async with running_server(tmp_path, open_queue()) as server:
        wire = Wire(server.ws_url)
        url = f"{server.ws_url}/demo"
        async with Client(url, outside=wire.outside()) as queue:
            posting = [asyncio.create_task(queue.post(n, key=str(n))) for n in range(20)]
            many = asyncio.create_task(queue.post_many(range(20, 40), key=str))
            await posting[0]
            wire.cut()
            more = [asyncio.create_task(queue.post(n, key=str(n))) for n in range(40, 60)]
            wire.free.set()
            jobs = [*await asyncio.gather(*posting), *await many, *await asyncio.gather(*more)]
            assert len({job.id for job in jobs}) == 60
            assert len(await views(queue.items())) == 60


async def test_dataclasses_go_both_ways(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, _), working(url), Client(url, item_type=Picture, result_type=Size) as queue:
        job = await queue.post(Picture("a", Size(64)), meta={"size": Size(1)})
        assert await job.result(timeout=20) == Size(64)
        assert await queue.result(job.id) == Size(64)


async def test_an_item_is_found_again(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        job = await queue.post({"size": 3})
        async with Client(url) as other:
            found = await other.get(job.id)
            assert found.view is not None
            assert found.view.status == "pending"
            assert not found.duplicate
            assert repr(found) == f"<Job {job.id}: pending>"
            async with working(url):
                assert await found.result(timeout=20) == 3
            assert (await (await other.get(job.id)).result()) == 3
            with pytest.raises(UnknownItem, match="0000000000000000"):
                await other.get("0" * 16)
            with pytest.raises(ValueError, match="16 lower-case hex digits"):
                await other.get("x")


async def test_why_and_cancel(tmp_path: Path) -> None:
    async with demo(tmp_path) as (url, queue):
        job, gate = await queue.post({}), Gate()
        why = await job.why()
        assert (why.waiting, [reason.code for reason in why.reasons], why.ahead) == (True, ["no-worker"], 0)
        assert str(why) == why.reasons[0].message
        async with gated(url, gate):
            await gate.begun.wait()
            assert [reason.code for reason in (await job.why()).reasons] == ["held"]
            assert await job.cancel()
            await gate.cancelled.wait()
        with pytest.raises(Cancelled):
            await job.result(timeout=20)
        assert await job.cancel()
        ended = await queue.post({"size": 1})
        async with working(url):
            await ended.result(timeout=20)
        assert not await ended.cancel()


async def test_items_are_listed_over_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaseway.asking.PAGE", 2)
    async with demo(tmp_path) as (_, queue):
        jobs = await queue.post_many([Post(n, key=f"é&{n}", delay=n % 2 * 60) for n in range(5)])
        await jobs[4].cancel()
        ids = [job.id for job in jobs]
        assert [view.id for view in await views(queue.items())] == ids[::-1]
        assert [view.id for view in await views(queue.items(status="cancelled"))] == ids[4:]
        assert [view.id for view in await views(queue.items(status=["cancelled", "pending"]))] == ids[::-1]
        assert [view.id for view in await views(queue.items(label="scheduled"))] == [ids[3], ids[1]]
        assert [view.id for view in await views(queue.items(key=("é&1", "é&2")))] == [ids[2], ids[1]]
        assert len(await views(queue.items(posted_by=""))) == 5
        assert await views(queue.items(posted_by="alice")) == []
        with pytest.raises(Rejected, match="status"):
            await views(queue.items(status="finishd"))


async def test_what_http_refuses(tmp_path: Path) -> None:
    async with running_server(tmp_path, "[queues.demo]\n", users={"alice": [], "bob": []}) as server:
        url = f"{server.ws_url}/demo"
        async with Client(url, server.tokens["alice"]) as alice, Client(url, server.tokens["bob"]) as bob:
            with pytest.raises(Forbidden):
                await views(alice.items())
            with pytest.raises(Forbidden):
                await (await bob.get((await alice.post(1)).id)).cancel()
        with pytest.raises(Unauthorized, match="token") as told:
            await Client(url, "lw_wrong").get("0" * 16)
        assert "lw_wrong" not in str(told.value)
        with pytest.raises(NoSuchQueue):
            await views(Client(f"{server.ws_url}/nonsense", server.tokens["alice"]).items())
    with pytest.raises(ConnectionLost, match=r"cannot reach http://127\.0\.0\.1:\d+: nobody listens there"):
        await Client(url).get("0" * 16)
