"""What a type checker knows of the client's types; `test_typing.py` has it checked. Nothing here is run."""

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from leaseway import Client, Job, Post, View


@dataclass
class Picture:
    name: str


@dataclass
class Thumbnail:
    width: int


class Row(TypedDict):
    a: int


async def untyped(queue: Client) -> None:
    assert_type(queue, Client[Any, Any])
    assert_type(Client("ws://h/q"), Client[Any, Any])
    job = await queue.post({"anything": 1}, key="k", delay=1.5)
    assert_type(job, Job[Any])
    anything: Job = job
    assert_type(await anything.result(), Any)
    await queue.post(1, dealy=2)  # type: ignore[call-arg]
    await queue.post(1, delay="2")  # type: ignore[arg-type]


async def typed() -> None:
    async with Client("ws://h/q", "token", item_type=Picture, result_type=Thumbnail) as queue:
        assert_type(queue, Client[Picture, Thumbnail])
        job = await queue.post(Picture("a"))
        assert_type(job, Job[Thumbnail])
        assert_type(await job.result(timeout=5), Thumbnail)
        async for view in job.watch():
            assert_type(view, View)
        assert_type(await queue.post(Post(Picture("a"), key="k")), Job[Thumbnail])
        assert_type(await queue.post_many([Picture("a")], key=lambda picture: picture.name), list[Job[Thumbnail]])
        assert_type(await queue.post_many([Post(Picture("a")), Picture("b")]), list[Job[Thumbnail]])
        async for each in queue.post_each([Picture("a")]):
            assert_type(each, Job[Thumbnail])
        assert_type(await queue.result("0" * 16), Thumbnail)
        assert_type(await queue.get("0" * 16), Job[Thumbnail])
        await queue.post({"name": "a"})  # type: ignore[arg-type]
        await queue.post(Post({"name": "a"}))  # type: ignore[arg-type]
        await queue.post_many(["a"])  # type: ignore[list-item]


async def results_alone() -> None:
    assert_type(Client("ws://h/q", result_type=list[Thumbnail]), Client[Any, list[Thumbnail]])
    rows = Client("ws://h/q", item_type=Row)
    assert_type(rows, Client[Row, Any])
    await rows.post({"a": 1})
    await rows.post({"b": 1})  # type: ignore[arg-type]
