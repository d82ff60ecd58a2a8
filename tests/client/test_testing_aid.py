"""`leaseway.testing`: a real server in a thread, its tokens, and its clock, as the tests of users use them.

How pytest finds the fixture is in `tests/docs/test_testing_page.py`.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.real_scene import Gate, gated
from leaseway import Attempt, Client, Expired, Forbidden, Job, Unauthorized, UnknownItem, Worker, testing
from leaseway.testing import Served, serving
from leaseway_server import testing as server_half
from leaseway_server.config import ConfigRefused
from leaseway_server.store.place import SqliteFolder
from support.server import open_queue

LEASE = 300
"""Seconds of a lease, where a queue says nothing else."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(queues={"demo": {}, "own": {"access": {"post": ["alice"], "fetch": "users"}}}) as served:
        yield served


def test_the_halves_agree_of_what_there_is() -> None:
    with server_half.serving() as half:
        agreed: Served = half  # What a type checker holds against each other.
        assert agreed.url("demo").startswith("ws://127.0.0.1:")


def test_a_test_need_not_be_asynchronous(served: Served) -> None:
    url = served.url("demo").replace("ws://", "http://")
    assert httpx.post(f"{url}/items", json={"item": 1}).json()["status"] == "pending"


async def later(job: Job) -> Any:
    """The item's result, which is there soon."""
    return await job.result(timeout=20)


async def test_a_delayed_item_comes_due(served: Served) -> None:
    async with Client(served.url("demo")) as queue:
        job = await queue.post(1, delay=86_400)
        gate = Gate()
        gate.go.set()
        async with gated(served.url("demo"), gate):
            served.clock.advance(86_400 - 60)
            view = (await queue.get(job.id)).view
            assert view is not None
            assert view.label == "scheduled"
            served.clock.advance(60)
            assert await later(job) == {"attempts": 1}


async def test_a_lease_lapses(served: Served) -> None:
    async with Client(served.url("demo")) as queue:
        stuck, free = Gate(), Gate()
        free.go.set()
        job = await queue.post(1)
        async with gated(served.url("demo"), stuck):
            await stuck.begun.wait()
            served.clock.advance(LEASE)
            await stuck.cancelled.wait()
            stuck.go.set()
            async with gated(served.url("demo"), free):
                assert await later(job) == {"attempts": 2}
        assert job.view is not None
        assert job.view.losses == 1


async def test_a_backoff_passes(served: Served) -> None:
    async with Client(served.url("demo")) as queue:
        worker = Worker(served.url("demo"))

        @worker.handler
        async def work(item: Any, job: Attempt) -> Any:
            if job.attempts == 1:
                raise ValueError("not yet")
            return job.attempts

        job = await queue.post(1)
        async with worker:
            async for view in job.watch(timeout=20):
                if view.label == "retrying":
                    served.clock.advance(50)
        assert await later(job) == 2


async def test_a_life_ends(served: Served) -> None:
    async with Client(served.url("demo")) as queue:
        job = await queue.post(1, ttl=60, delay=30)
        served.clock.advance(60)
        with pytest.raises(Expired):
            await later(job)
        in_an_hour = datetime.fromtimestamp(served.clock.time(), UTC) + timedelta(hours=1)
        view = (await queue.get((await queue.post(2, due_at=in_an_hour)).id)).view
        assert view is not None
        assert view.label == "scheduled"


async def test_tokens(served: Served) -> None:
    url = served.url("own")
    alice, bob, reader = served.token("alice"), served.token("bob"), served.token("alice", rights=["fetch"])
    async with Client(url, alice) as queue, Client(url, bob) as other, Client(url, reader) as narrowed:
        job = await queue.post(1)
        assert (await other.get(job.id)).view is not None
        for client in (other, narrowed):
            with pytest.raises(Forbidden):
                await (await client.get(job.id)).cancel()
    with pytest.raises(UnknownItem, match="no such queue here, or not for this token"):
        await Client(url, served.token("alice", queues=["demo"])).get(job.id)
    short = served.token("alice", expires_in=60)
    assert (await Client(url, short).get(job.id)).id == job.id
    served.clock.advance(60)
    with pytest.raises(Unauthorized):
        await Client(url, short).get(job.id)


def test_a_token_that_would_let_nobody_in_is_refused(served: Served) -> None:
    with pytest.raises(ValueError, match="no right 'wrok', but post, fetch, work, admin"):
        served.token("alice", rights=["wrok"])
    with pytest.raises(ValueError, match="no queue 'nonsense' here, but demo, own"):
        served.token("alice", queues=["nonsense"])
    with pytest.raises(ValueError, match="a user's name"):
        served.token("")
    with pytest.raises(ValueError, match="no queue 'nonsense' here"):
        served.url("nonsense")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_clock_moves_on_only(served: Served, seconds: float) -> None:
    before = served.clock.time()
    with pytest.raises(ValueError, match="moved on by a number of seconds"):
        served.clock.advance(seconds)
    served.clock.advance(0)
    assert 0 <= served.clock.time() - before < LEASE
    served.clock.advance(LEASE)
    assert served.clock.time() - before >= LEASE


def test_a_configuration_is_served_as_it_is_but_for_its_address_and_store(tmp_path: Path) -> None:
    file = tmp_path / "leaseway.toml"
    server = '[server]\nlisten = "0.0.0.0:1"\nstore = "sqlite:data"\n'
    file.write_text(server + open_queue("resize", lease='"30s"'))
    for config in (file, os.fspath(file)):
        with serving(config) as served:
            assert served.url("resize").startswith("ws://127.0.0.1:")
            assert served.url("resize").endswith("/resize")
    assert list(tmp_path.iterdir()) == [file]


def test_several_servers_stand_beside_each_other() -> None:
    with serving(queues=["a", "b"]) as one, serving(queues=["a"]) as other:
        assert one.url("a") != other.url("a")
        assert asyncio.run(posted(one.url("a"))) == asyncio.run(posted(one.url("b"))) == 1


async def posted(url: str) -> int:
    """How many items there are once one was posted."""
    async with Client(url) as queue:
        await queue.post(1)
        return len([view async for view in queue.items()])


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match=r"queues\.demo\.laese: .*lease"), serving(queues={"demo": {"laese": "1m"}}):
        pass
    with pytest.raises(ConfigRefused, match=r"nothing\.toml: cannot be read"), serving(tmp_path / "nothing.toml"):
        pass
    with pytest.raises(ValueError, match="give one of them"), serving("leaseway.toml", queues=["demo"]):
        pass
    with pytest.raises(TypeError, match=r'for one, give queues=\["demo"\]'), serving(queues="demo"):
        pass


def test_what_is_asked_of_a_server_after_its_end_is_refused() -> None:
    with serving() as served:
        pass
    for ask in (lambda: served.clock.advance(1), lambda: served.token("alice")):
        with pytest.raises(RuntimeError, match="it serves within its `with`"):
            ask()


def test_a_server_that_ends_by_itself_is_told() -> None:
    served = server_half.serving()
    half = served.__enter__()
    place = half._config.server.store
    assert isinstance(place, SqliteFolder)
    (place.folder / "demo.db").unlink()
    half._thread.join()
    with pytest.raises(RuntimeError, match="the server ended by itself"):
        served.__exit__(None, None, None)


def test_what_hinders_the_start_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(server_half, "LISTEN", address)
        with pytest.raises(OSError, match=f"cannot listen on {address}"), serving():
            pass


@pytest.mark.parametrize("found", [True, False])
def test_a_missing_server_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    there = [EntryPoint("serving", "leaseway_of_nobody:serving", testing.GROUP)] if found else []
    monkeypatch.setattr(testing, "entry_points", lambda **_: EntryPoints(there))
    with pytest.raises(ImportError, match=r"pip install 'leaseway\[server\]'"), serving():
        pass
