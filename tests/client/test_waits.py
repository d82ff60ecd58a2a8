"""Every wait of a producer has an end, whatever becomes of the connection; posts with keys outlive it."""

import asyncio

import pytest

from client.scripted_peer import A, B, posted, status
from client.test_client_over_socket import collected, scene
from leaseway import Client, ConnectionLost, PostUnknown, WrongShape

SHORT = 0.05
"""Seconds of patience, where it is to run out."""


async def test_without_a_connection_every_wait_ends() -> None:
    async with scene(offline_timeout=SHORT) as on:
        job = await on.job()
        waiting = [asyncio.create_task(collected(on.client.watch([A, B]))), asyncio.create_task(job.result())]
        await on.socket.expect("subscribe")
        on.socket.cut()
        for wait in waiting:
            with pytest.raises(ConnectionLost, match=r"no connection for 0\.05 s"):
                await wait


async def test_a_wait_that_begins_without_a_connection_has_its_own_patience() -> None:
    async with scene(offline_timeout=SHORT) as on:
        job = await on.job()
        on.socket.cut()
        await on._accept.get()  # It is never greeted.
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="no connection for"):
                await job.result()


async def test_a_connection_that_comes_back_ends_no_wait() -> None:
    async with scene(offline_timeout=SHORT) as on:
        job = await on.job()
        waiting = asyncio.create_task(job.result())
        on.socket.cut()
        await on.reconnected()
        assert (await on.socket.expect("subscribe"))["subscribe"] == [A]
        with pytest.raises(TimeoutError):  # So much later, patience would have run out.
            await asyncio.wait_for(asyncio.shield(waiting), 2 * SHORT)
        await on.socket.say(status(state="finished", rev=2, result=7))
        assert await waiting == 7


async def test_what_was_given_up_can_be_waited_for_again() -> None:
    async with scene(offline_timeout=SHORT) as on:
        job = await on.job()
        on.socket.cut()
        with pytest.raises(ConnectionLost):
            await job.result()
        again = asyncio.create_task(job.result())
        await on.reconnected()
        await on.socket.expect("subscribe")
        await on.socket.say(status(state="finished", rev=2, result=7))
        assert await again == 7


async def test_a_wait_whose_time_is_over_says_how_far_it_is() -> None:
    async with scene() as on:
        job = await on.job()
        await on.socket.say(status(state="processing", rev=2))
        with pytest.raises(TimeoutError, match=f"after 0.05 s {A} is processing"):
            await job.result(timeout=SHORT)
        with pytest.raises(TimeoutError, match=r"after 0\.05 s 2 items have not ended"):
            await collected(on.client.watch([A, B], timeout=SHORT))


async def test_an_end_that_was_seen_needs_no_connection() -> None:
    async with scene() as on:
        job = await on.job()
        await on.socket.say(status(state="finished", rev=2, result=7))
        assert await job.result() == 7
    assert await job.result() == 7


async def test_a_post_with_a_key_is_said_again() -> None:
    async with scene() as on:
        posting = asyncio.create_task(on.client.post({"width": 64}, key="k", priority=3))
        first = await on.socket.expect("post")
        on.socket.cut()
        await on.reconnected()
        again = await on.socket.expect("post")
        assert again == first
        assert again["post"] == {"item": {"width": 64}, "key": "k", "priority": 3, "subscribe": True}
        await on.socket.say(posted(again) | {"duplicate": True})
        assert (await posting).duplicate


async def test_a_post_with_a_key_ends_with_its_time() -> None:
    async with scene() as on:
        posting = asyncio.create_task(on.client.post({"width": 64}, key="k", timeout=SHORT))
        await on.socket.expect("post")
        on.socket.cut()
        await on._accept.get()
        with pytest.raises(PostUnknown, match="may be in the queue or not"):
            await posting


async def test_a_result_that_does_not_fit_is_not_lost() -> None:
    async with scene(result_type=dict[str, int]) as on:
        job = await on.job()
        await on.socket.say(status(state="finished", rev=2, result={"width": "wide"}))
        with pytest.raises(WrongShape, match=f"the result of {A} does not fit: /width: an integer was exp") as wrong:
            await job.result()
        assert (wrong.value.id, wrong.value.path, wrong.value.result) == (A, "/width", {"width": "wide"})


@pytest.mark.parametrize("name", ["open_timeout", "offline_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_patience_without_an_end_is_refused(name: str, seconds: float) -> None:
    options = {name: seconds}
    with pytest.raises(ValueError, match=f"{name} is a number of seconds above 0"):
        Client("ws://127.0.0.1:1/resize", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("task.example.com/resize", None), ("ftp://h/q", None), ("ws://h", None), ("ws://h/q?token=lw_x", None),
        ("ws://h/q", "a b"), ("ws://h/q", "é"), ("ws://h/Q", None),
    ],
)  # fmt: skip
def test_what_is_no_address_or_token_is_refused_before_anything_is_dialled(url: str, token: str | None) -> None:
    with pytest.raises(ValueError, match=r"a queue's|a token is") as refused:
        Client(url, token)
    assert "lw_x" not in str(refused.value)


def test_a_type_that_cannot_be_read_is_refused_before_anything_is_dialled() -> None:
    with pytest.raises(TypeError, match="cannot be read from JSON"):
        Client("ws://127.0.0.1:1/resize", result_type=set[int])
