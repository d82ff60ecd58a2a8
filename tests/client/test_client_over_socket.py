"""A client over real sockets against a scripted server: posts, watching, ends, lost sockets, nothing hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client.scripted_peer import A, B, Conversation, Message, Pauses, error, peer, posted, status
from leaseway import (
    Cancelled,
    Client,
    ConnectionLost,
    Dead,
    Expired,
    Failed,
    Job,
    NotFinished,
    PostUnknown,
    Rejected,
    Unauthorized,
    UnknownItem,
    View,
    watch_state,
)
from leaseway.connection import Outside


class Scene:
    """An open client, and the server's side of its sockets."""

    def __init__(self, client: Client, accept: asyncio.Queue[Conversation], socket: Conversation) -> None:
        self.client = client
        self.socket = socket
        self._accept = accept

    async def job(self, item_id: str = A) -> Job:
        """An item that was posted."""
        posting = asyncio.create_task(self.client.post({"width": 64}))
        await self.socket.say(posted(await self.socket.expect("post"), item_id))
        return await posting

    async def reconnected(self) -> None:
        """The next socket takes the place of the one that was lost."""
        self.socket = await self._accept.get()
        await self.socket.greet()


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    """A client, made with these options, with its first socket."""
    accepted: asyncio.Queue[Conversation] = asyncio.Queue()
    async with peer() as server:

        async def accept_all() -> None:
            while True:
                accepted.put_nowait(await server.accept())

        accepting = asyncio.create_task(accept_all())
        client = Client(server.url, outside=Pauses().outside(), **options)
        opening = asyncio.create_task(client.__aenter__())
        socket = await accepted.get()
        assert socket.path == "/resize/monitor"
        await socket.greet()
        await opening
        try:
            yield Scene(client, accepted, socket)
        finally:
            await client.__aexit__(None, None, None)
            accepting.cancel()


async def collected(views: AsyncIterator[View]) -> list[tuple[str, str]]:
    """What a watch shows until it ends."""
    return [(view.id, view.status) async for view in views]


async def test_post_watch_result() -> None:
    async with scene() as on:
        job = await on.job()
        watching = asyncio.create_task(collected(job.watch()))
        await on.socket.say(status(rev=1))
        await on.socket.say(status(state="finished", rev=3, result={"width": 64}))
        assert (await watching)[-1] == (A, "finished")
        assert await job.result(timeout=0) == {"width": 64}
        assert await collected(job.watch()) == [(A, "finished")]
        assert job.view is not None
        assert job.view.rev == 3


@pytest.mark.parametrize(
    ("state", "ending"), [("failed", Failed), ("dead", Dead), ("cancelled", Cancelled), ("expired", Expired)]
)
async def test_another_end_raises_with_the_error_inside(state: str, ending: type[NotFinished]) -> None:
    async with scene() as on:
        job = await on.job()
        fault: Message = {"message": "no such font", "code": "font"}
        await on.socket.say(status(state=state, rev=2, error=fault))
        with pytest.raises(ending, match="no such font") as ended:
            await job.result()
        assert ended.value.error == fault
        assert ended.value.id == A


async def test_a_refused_post_raises_with_the_servers_errors() -> None:
    async with scene() as on:
        posting = asyncio.create_task(on.client.post({"width": "x"}))
        fault = {"path": "/item/width", "message": "not an integer"}
        await on.socket.say(error(await on.socket.expect("post"), "schema", fault))
        with pytest.raises(Rejected, match="/item/width: not an integer") as refused:
            await posting
        assert refused.value.code == "schema"


async def test_a_post_that_cannot_be_sent_costs_no_connection() -> None:
    async with scene() as on:
        with pytest.raises(Rejected, match="bad-json"):
            await on.client.post({"width": float("nan")})
        with pytest.raises(Rejected, match="too-large"):
            await on.client.post("x" * 1_048_576)
        await on.job()


async def test_a_post_without_an_answer_is_unknown_and_not_sent_again() -> None:
    async with scene() as on:
        posting = asyncio.create_task(on.client.post({"width": 64}))
        await on.socket.expect("post")
        on.socket.cut()
        with pytest.raises(PostUnknown):
            await posting
        await on.reconnected()
        another = await on.job(B)
        assert another.id == B


async def test_a_post_that_the_server_does_not_answer_in_time_is_unknown() -> None:
    async with scene() as on:
        posting = asyncio.create_task(on.client.post({"width": 64}, timeout=0.05))
        post = await on.socket.expect("post")
        with pytest.raises(PostUnknown):
            await posting
        await on.socket.say(posted(post))
        assert await on.socket.expect("unsubscribe") == {"unsubscribe": [A]}


async def test_a_post_that_found_no_connection_in_time_was_not_made() -> None:
    async with scene() as on:
        on.socket.cut()
        waiting = await on._accept.get()
        with pytest.raises(TimeoutError, match="nothing was posted"):
            await on.client.post({"width": 1}, timeout=0.05)
        posting = asyncio.create_task(on.client.post({"width": 2}))
        await waiting.greet()
        assert (await waiting.expect("post"))["post"]["item"] == {"width": 2}
        posting.cancel()


async def test_a_post_that_was_cancelled_before_it_was_sent_is_not_made() -> None:
    async with scene() as on:
        on.socket.cut()
        waiting = await on._accept.get()
        posting = asyncio.create_task(on.client.post({"width": 1}))
        await asyncio.sleep(0)
        posting.cancel()
        await asyncio.wait([posting])
        on.socket = waiting
        await waiting.greet()
        posting = asyncio.create_task(on.client.post({"width": 2}))
        assert (await waiting.expect("post"))["post"]["item"] == {"width": 2}
        posting.cancel()


async def test_what_has_ended_is_known_after_the_client_has_closed() -> None:
    async with scene() as on:
        job = await on.job()
        await on.socket.say(status(state="finished", rev=2, result=7))
        assert await job.result() == 7
    assert await job.result() == 7


async def test_a_new_socket_subscribes_anew_and_the_end_is_shown_once() -> None:
    async with scene() as on:
        job = await on.job()
        shown: asyncio.Queue[View] = asyncio.Queue()

        async def watch() -> None:
            async for view in job.watch():
                shown.put_nowait(view)

        watching = asyncio.create_task(watch())
        await on.socket.say(status(rev=1))
        assert (await shown.get()).status == "pending"
        on.socket.cut()
        await on.reconnected()
        assert (await on.socket.expect("subscribe"))["subscribe"] == [A]
        await on.socket.say(status(state="finished", rev=4, result=1))
        await on.socket.say(status(state="finished", rev=4, result=1))
        await watching
        assert [shown.get_nowait().status] == ["finished"]
        assert shown.empty()


async def test_several_items_are_watched_until_all_have_ended() -> None:
    async with scene() as on:
        watching = asyncio.create_task(collected(on.client.watch([A, B, A])))
        assert (await on.socket.expect("subscribe"))["subscribe"] == [A, B]
        await on.socket.say(status(B, "dead", rev=2))
        await on.socket.say(status(A, "finished", rev=2))
        assert sorted(await watching) == [(A, "finished"), (B, "dead")]


async def test_a_slow_reader_is_shown_the_newest_state() -> None:
    async with scene() as on:
        job = await on.job()
        views = job.watch()
        await on.socket.say(status(rev=1))
        assert (await anext(views)).rev == 1
        for rev in range(2, 9):
            await on.socket.say(status(state="processing", rev=rev))
        await on.socket.say(status(state="finished", rev=9))
        assert await job.result() is None
        assert [view.rev async for view in views] == [9]


async def test_two_who_watch_one_item_both_see_its_end() -> None:
    async with scene() as on:
        first = asyncio.create_task(collected(on.client.watch([A])))
        await on.socket.expect("subscribe")
        await on.socket.say(status(rev=1))
        second = asyncio.create_task(on.client.result(A))
        await on.socket.say(status(state="finished", rev=2, result=7))
        assert (await first)[-1] == (A, "finished")
        assert await second == 7


async def test_who_stops_watching_ends_the_subscription() -> None:
    async with scene() as on:
        watching = asyncio.create_task(collected(on.client.watch([A])))
        await on.socket.expect("subscribe")
        watching.cancel()
        assert await on.socket.expect("unsubscribe") == {"unsubscribe": [A]}


async def test_a_watch_ends_with_its_time() -> None:
    async with scene() as on:
        job = await on.job()
        with pytest.raises(TimeoutError, match="nothing is known of a"):
            await job.result(timeout=0.05)


async def test_an_unknown_item_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_state, "ANSWER_WITHIN", 0.05)
    async with scene() as on:
        with pytest.raises(UnknownItem, match=A):
            await on.client.result(A)


async def test_a_refused_subscription_is_told() -> None:
    async with scene() as on:
        watching = asyncio.create_task(collected(on.client.watch([A])))
        await on.socket.say(error(await on.socket.expect("subscribe"), "limit"))
        with pytest.raises(Rejected, match="limit"):
            await watching


async def test_nothing_waits_for_a_connection_that_will_not_come_back() -> None:
    async with scene() as on:
        watching = asyncio.create_task(collected(on.client.watch([A])))
        await on.socket.expect("subscribe")
        on.socket.cut()
        retried = await on._accept.get()
        posting = asyncio.create_task(on.client.post({"width": 64}))
        await retried.close(4401)
        with pytest.raises(Unauthorized):
            await watching
        with pytest.raises(Unauthorized):
            await posting
        with pytest.raises(Unauthorized):
            await on.client.post({"width": 64})
        with pytest.raises(Unauthorized):
            await on.client.result(A)


async def test_closing_ends_every_wait_with_1000() -> None:
    async with scene() as on:
        watching = asyncio.create_task(collected(on.client.watch([A])))
        posting = asyncio.create_task(on.client.post({"width": 64}))
        await on.socket.hear()
        await on.socket.hear()
    with pytest.raises(ConnectionLost, match="closed"):
        await watching
    with pytest.raises(ConnectionLost):
        await posting
    assert await on.socket.closed() == 1000


async def test_entering_says_who_is_not_let_in() -> None:
    async with peer() as server:
        client = Client(server.url, token="wrong")
        opening = asyncio.create_task(client.__aenter__())
        await (await server.accept()).close(4401)
        with pytest.raises(Unauthorized):
            await opening


async def test_entering_ends_where_nobody_answers() -> None:
    async with peer() as server:
        url = server.url
    with pytest.raises(ConnectionLost, match=r"no connection within 0\.05 s: nobody listens there$"):
        async with Client(url, open_timeout=0.05, outside=Outside(chance=lambda: 1.0)):
            pass


async def test_entering_again_connects_again() -> None:
    async with peer() as server:
        client = Client(server.url, open_timeout=0.05, outside=Outside(chance=lambda: 1.0))
        opening = asyncio.create_task(client.__aenter__())
        await (await server.accept()).greet()
        await opening
        await client.__aexit__(None, None, None)
    with pytest.raises(ConnectionLost, match="no connection within"):
        async with client:
            pass


async def test_a_client_that_is_not_open_says_so() -> None:
    client = Client("ws://127.0.0.1:1/resize")
    with pytest.raises(ConnectionLost, match="not open"):
        await client.post({"width": 64})
