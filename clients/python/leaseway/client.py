"""The client: posts items, watches them, waits for their results.

Owns the connection's life and who waits for the answer of which post. What is said to the server is decided in
`watch_state.py`; who watches what is `following.py`'s, sockets are `connection.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Never, Self, Unpack

from leaseway.asking import Asking, Filter
from leaseway.connection import Endpoint, Link, Outside, until
from leaseway.errors import ConnectionLost, PostUnknown, Rejected, UnknownItem
from leaseway.following import Following
from leaseway.job import Behind, Job, Result
from leaseway.posting import Item, Options, Post, Slice, posts_of, slices
from leaseway.protocol import MAX_MS, View, is_number
from leaseway.shapes import reader
from leaseway.watch_state import (
    Accepted,
    Changed,
    Event,
    NotWatched,
    Offline,
    Online,
    Posted,
    PostLost,
    PostRefused,
    WatchState,
)

ARRAY_ITEMS = 1_000
"""Posts in one array, at most, whatever the server takes: more in one transaction makes nothing faster."""
UNKNOWN = "it may be in the queue or not (a post with a key can be posted again)"


class Client(Generic[Item, Result]):
    """Posts to one queue and watches what becomes of it, over one monitor socket.

        async with Client("ws://127.0.0.1:8787/resize", token) as queue:
            job = await queue.post({"image": ..., "width": 64})
            async for view in job.watch():
                print(view.status, view.progress)
            result = await job.result()

    A lost connection is no error for who watches: the client reconnects for ever and subscribes anew; no end is missed
    and none is shown twice. Yet no wait hangs over a dead connection: after `offline_timeout` seconds without one it
    raises `ConnectionLost`, and where the client is closed, at once. Entering raises `Unauthorized`, `Forbidden`,
    `NoSuchQueue`, and `ConnectionLost` where no connection came about within `open_timeout` seconds.

    `item_type` is for the type checker alone. Results are read as `result_type`: a dataclass, a pydantic model, or what
    is made of them and JSON's own types; a TypedDict is taken as it comes. Raises `TypeError` for another type, and
    `ValueError` for what is no address, token or time.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        item_type: type[Item] | None = None,
        result_type: type[Result] | None = None,
        open_timeout: float = 30.0,
        offline_timeout: float = 300.0,
        outside: Outside | None = None,
    ) -> None:
        _check_time("open_timeout", open_timeout)
        _check_time("offline_timeout", offline_timeout)
        outside = outside or Outside()
        self._open_timeout = open_timeout
        self._state = WatchState()
        self._link = Link(Endpoint.of(url, "monitor", token), self._state, self._on_events, outside)
        self._asking = Asking(url, token)
        self._following = Following(self._state, self._link.wake, outside.clock, offline_timeout)
        self._behind = Behind(self._following, self._asking, reader(Any if result_type is None else result_type))
        self._connection: asyncio.Task[Never] | None = None
        self._posts: dict[int, asyncio.Future[list[Accepted]]] = {}
        self._array_items = 0

    async def __aenter__(self) -> Self:
        """Connects."""
        self._following.trouble = None
        self._link.opened.clear()  # It may have been entered before.
        self._connection = asyncio.create_task(self._link.run(), name="leaseway-connection")
        self._connection.add_done_callback(self._closed)
        try:
            await self._until_open(self._connection)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; whoever still waits gets a `ConnectionLost`."""
        await self._close()

    # Posting

    async def post(
        self, item: Item | Post[Item], *, key: str | None = None, timeout: float = 30.0, **options: Unpack[Options]
    ) -> Job[Result]:
        """Posts an item; when this returns, the server has committed it. `Options` says what else can be said of it.

        Raises `Rejected` where the server refuses it, `ValueError` for an option that means nothing. `PostUnknown` says
        that it was sent and that no answer came before the connection dropped or the time, seconds, was over: it may be
        in the queue or not. `TimeoutError` says that it could not be sent within the time: it is not in the queue.

        A post with a `key` is said again by itself where the connection dropped, until the time is over, and can be
        posted again by who got a `PostUnknown`: the same key with an equal item is the same item (`Job.duplicate`).
        """
        self._following.check_open()
        ref = self._state.post(Post.of(item, key, options).body())
        (job,) = await self._answered(ref, timeout)
        return job

    async def post_many(
        self,
        items: Iterable[Item | Post[Item]] | AsyncIterable[Item | Post[Item]],
        *,
        key: Callable[[Item], str] | None = None,
        timeout: float = 30.0,
        **options: Unpack[Options],
    ) -> list[Job[Result]]:
        """Posts them all, in arrays, and gives their jobs in the same order; see `post_each`."""
        return [job async for job in self.post_each(items, key=key, timeout=timeout, **options)]

    async def post_each(
        self,
        items: Iterable[Item | Post[Item]] | AsyncIterable[Item | Post[Item]],
        *,
        key: Callable[[Item], str] | None = None,
        timeout: float = 30.0,
        **options: Unpack[Options],
    ) -> AsyncIterator[Job[Result]]:
        """Posts them as they come and gives the job of each once it is committed, in the same order.

        The options hold for all that say nothing else as a `Post`; `key` makes a key of an item. They go out in arrays
        of as many as the server takes; each is one transaction, and has so many seconds. Raises as `post`, with the
        index in the path; the arrays before the one that is refused stay posted. With keys the whole can be done again.
        """
        self._following.check_open()
        if not self._array_items:
            self._array_items = min(await self._asking.bulk_items(), ARRAY_ITEMS)
        posts = posts_of(items, key, options)
        async for portion in slices(posts, self._array_items, self._state.max_bytes):
            for job in await self._post_slice(portion, timeout):
                yield job

    async def _post_slice(self, portion: Slice, timeout: float) -> list[Job[Result]]:
        self._following.check_open()
        ref = self._state.post_all(portion.bodies, repeatable=portion.keyed)
        try:
            return await self._answered(ref, timeout)
        except Rejected as refused:
            raise portion.placed(refused) from None

    async def _answered(self, ref: int, timeout: float) -> list[Job[Result]]:
        answer = self._posts[ref] = asyncio.get_running_loop().create_future()
        self._link.wake()
        try:
            async with asyncio.timeout(timeout):
                return [Job(one.watched, self._behind, duplicate=one.duplicate) for one in await answer]
        except TimeoutError:
            if self._state.forget_post(ref):
                raise TimeoutError(f"not sent within {timeout:g} s; nothing was posted") from None
            raise PostUnknown(f"no answer within {timeout:g} s: {UNKNOWN}") from None
        finally:
            self._state.forget_post(ref)
            del self._posts[ref]

    # Watching and looking

    def watch(self, ids: Iterable[str], *, timeout: float | None = None) -> AsyncIterator[View]:
        """The states of these items, each at once and again when it changed, until all have ended.

        A slow reader sees the newest state of each and not every one between, but always the end, once.
        Raises `UnknownItem` for an id that the server does not know (any more), `TimeoutError` after so many seconds,
        `ConnectionLost` where there was no connection for `offline_timeout`, or where the client is closed.
        """
        return self._following.follow([self._state.item(item_id) for item_id in dict.fromkeys(ids)], timeout)

    async def result(self, item_id: str, *, timeout: float | None = None) -> Result:
        """The result of an item that was posted somewhere else; see `Job.result`."""
        job: Job[Result] = Job(self._state.item(item_id), self._behind)
        return await job.result(timeout=timeout)

    async def get(self, item_id: str) -> Job[Result]:
        """An item that was posted before, perhaps elsewhere, with its state in `view`. Asked over HTTP.

        Raises `UnknownItem`, and `ConnectionLost` where the server cannot be reached.
        """
        watched = self._state.item(item_id)
        self._state.seen(watched, await self._asking.view(item_id))
        self._link.wake()
        return Job(watched, self._behind)

    def items(
        self,
        *,
        status: Filter = None,
        label: Filter = None,
        posted_by: Filter = None,
        key: Filter = None,
        results: bool = True,
    ) -> AsyncIterator[View]:
        """The items of the queue that have these, newest first; needs the right `admin`. Asked over HTTP, in pages.

        Each takes one value or several; `posted_by=""` is who posted without a token. Without `results`, which may be
        large, each view's is None. Raises `Forbidden`, and `ConnectionLost` where the server cannot be reached.
        """
        wanted = {"status": status, "label": label, "postedBy": posted_by, "key": key}
        return self._asking.items(wanted, results=results)

    # The connection

    async def _until_open(self, connection: asyncio.Task[Never]) -> None:
        await until(self._link.opened, connection, self._open_timeout)
        if not self._link.opened.is_set():
            why = self._link.trouble or "no answer"
            raise ConnectionLost(f"no connection within {self._open_timeout:g} s: {why}")

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Changed(watched):
                    self._following.changed(watched)
                case NotWatched(watched, error):
                    self._following.fail(watched, error or UnknownItem(watched.id))
                case Posted(ref, items):
                    self._answer(ref, items)
                case PostRefused(ref, error):
                    self._answer(ref, error)
                case PostLost(ref):
                    self._answer(ref, PostUnknown(f"the connection was lost before the answer: {UNKNOWN}"))
                case Offline():
                    self._following.offline()
                case Online():
                    self._following.online()

    def _answer(self, ref: int, answer: list[Accepted] | BaseException) -> None:
        waiting = self._posts.get(ref)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, list):
            waiting.set_result(answer)
        else:
            waiting.set_exception(answer)

    def _closed(self, connection: asyncio.Task[Never]) -> None:
        """Nothing may wait for a connection that will not come back."""
        failure = None if connection.cancelled() else connection.exception()
        trouble = failure or ConnectionLost("the client was closed")
        self._following.end(trouble)
        for ref in self._posts:
            self._answer(ref, trouble)

    async def _close(self) -> None:
        if self._connection is not None:
            self._connection.cancel()
            await asyncio.wait({self._connection})


def _check_time(name: str, seconds: float) -> None:
    if not (seconds and is_number(seconds, MAX_MS / 1000)):
        raise ValueError(f"{name} is a number of seconds above 0, and not {seconds!r}")
