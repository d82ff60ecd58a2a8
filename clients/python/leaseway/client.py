"""The client: posts items, watches them, waits for their results.

Owns who waits for what. What is said to the server is decided in `watch_state.py`; sockets are
`connection.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Never, Self

from leaseway.connection import Endpoint, Link, Outside, until
from leaseway.errors import (
    Cancelled,
    ConnectionLost,
    Dead,
    Expired,
    Failed,
    NotFinished,
    PostUnknown,
    UnknownItem,
)
from leaseway.protocol import View
from leaseway.watch_state import (
    Changed,
    Event,
    NotWatched,
    Posted,
    PostLost,
    PostRefused,
    Watched,
    WatchState,
)

ENDINGS: dict[str, type[NotFinished]] = {
    "failed": Failed,
    "dead": Dead,
    "cancelled": Cancelled,
    "expired": Expired,
}
Follow = Callable[[list[Watched], float | None], AsyncIterator[View]]
UNKNOWN_POST = "the connection was lost before the post was answered: it may be in the queue or not"


class Job:
    """One item of the queue, as its producer sees it."""

    def __init__(self, watched: Watched, follow: Follow) -> None:
        self._watched = watched
        self._follow = follow

    @property
    def id(self) -> str:
        """The item's id."""
        return self._watched.id

    @property
    def view(self) -> View | None:
        """The newest state that was seen, or None before the first."""
        return self._watched.view

    def watch(self, *, timeout: float | None = None) -> AsyncIterator[View]:
        """The states of the item until its end, which comes exactly once; see `Client.watch`."""
        return self._follow([self._watched], timeout)

    async def result(self, *, timeout: float | None = None) -> Any:
        """Waits for the end and gives the result.

        Raises `Failed`, `Dead`, `Cancelled` or `Expired` with the item's error, `UnknownItem`, and
        `TimeoutError` after so many seconds.
        """
        view = None
        async for view in self.watch(timeout=timeout):  # noqa: B007  Only the last one is wanted.
            pass
        assert view is not None
        if view.status == "finished":
            return view.result
        raise ENDINGS[view.status](view.id, view.error)


class Client:
    """Posts to one queue and watches what becomes of it, over one monitor socket.

        async with Client("ws://127.0.0.1:8787/resize", token=...) as queue:
            job = await queue.post({"image": ..., "width": 64})
            async for view in job.watch():
                print(view.status, view.progress)
            result = await job.result()

    A lost connection is no error for who watches: the client reconnects for ever and subscribes anew; no end
    is missed and none is shown twice. Entering raises `Unauthorized`, `Forbidden`, `NoSuchQueue`, and
    `ConnectionLost` where no connection came about within `open_timeout` seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        open_timeout: float = 30.0,
        outside: Outside | None = None,
    ) -> None:
        self._open_timeout = open_timeout
        self._outside = outside or Outside()
        self._state = WatchState()
        self._link = Link(Endpoint.of(url, "monitor", token), self._state, self._on_events, self._outside)
        self._connection: asyncio.Task[Never] | None = None
        self._posts: dict[int, asyncio.Future[Watched]] = {}
        self._followers: dict[Watched, set[_Follower]] = {}
        self._trouble: BaseException | None = ConnectionLost("the client is not open: use `async with`")

    async def __aenter__(self) -> Self:
        """Connects."""
        self._trouble = None
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

    async def post(self, item: Any, *, timeout: float = 30.0) -> Job:
        """Posts an item; when this returns, the server has committed it.

        Raises `Rejected` where the server refuses it. `PostUnknown` says that it was sent and that no answer
        came before the connection dropped or the time, seconds, was over: it may be in the queue or not.
        `TimeoutError` says that it could not be sent within the time: it is not in the queue.
        """
        self._check_open()
        ref = self._state.post(item)
        answer = self._posts[ref] = asyncio.get_running_loop().create_future()
        self._link.wake()
        try:
            async with asyncio.timeout(timeout):
                return Job(await answer, self._follow)
        except TimeoutError:
            if self._state.forget_post(ref):
                raise TimeoutError(f"not sent within {timeout:g} s; nothing was posted") from None
            raise PostUnknown(f"no answer within {timeout:g} s: it may be in the queue or not") from None
        finally:
            self._state.forget_post(ref)
            del self._posts[ref]

    def watch(self, ids: Iterable[str], *, timeout: float | None = None) -> AsyncIterator[View]:
        """The states of these items, each at once and again when it changed, until all have ended.

        A slow reader sees the newest state of each and not every one between, but always the end, once.
        Raises `UnknownItem` for an id that the server does not know, and `TimeoutError` after so many seconds.
        """
        return self._follow([self._state.item(item_id) for item_id in dict.fromkeys(ids)], timeout)

    async def result(self, item_id: str, *, timeout: float | None = None) -> Any:
        """The result of an item that was posted somewhere else; see `Job.result`."""
        return await Job(self._state.item(item_id), self._follow).result(timeout=timeout)

    # Who waits

    async def _follow(self, items: list[Watched], timeout: float | None) -> AsyncIterator[View]:
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        with self._following(items) as follower:
            while follower.open:
                try:
                    async with asyncio.timeout_at(deadline):
                        view = await follower.next()
                except TimeoutError:
                    raise TimeoutError(f"{len(follower.open)} items have not ended within {timeout} s") from None
                yield view

    @contextmanager
    def _following(self, items: list[Watched]) -> Iterator[_Follower]:
        """Keeps the subscriptions for one follower; the last one who leaves ends them."""
        if not all(watched.ended for watched in items):
            self._check_open()
        self._state.watch(items, self._outside.clock())
        self._link.wake()
        follower = _Follower(items)
        for watched in items:
            self._followers.setdefault(watched, set()).add(follower)
        try:
            yield follower
        finally:
            for watched in items:
                self._followers[watched].discard(follower)
                if not self._followers[watched]:
                    del self._followers[watched]
                    self._state.unwatch(watched)
            self._link.wake()

    async def _until_open(self, connection: asyncio.Task[Never]) -> None:
        await until(self._link.opened, connection, self._open_timeout)
        if not self._link.opened.is_set():
            why = self._link.trouble or "no answer"
            raise ConnectionLost(f"no connection within {self._open_timeout:g} s: {why}")

    def _check_open(self) -> None:
        if self._trouble is not None:
            raise self._trouble

    # What the connection tells

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Changed(watched):
                    for follower in self._followers.get(watched, ()):
                        follower.changed(watched)
                case NotWatched(watched, error):
                    unknown = UnknownItem(f"the server does not know the item {watched.id}")
                    for follower in self._followers.get(watched, ()):
                        follower.fail(error or unknown)
                case Posted(ref, watched):
                    self._answer(ref, watched)
                case PostRefused(ref, error):
                    self._answer(ref, error)
                case PostLost(ref):
                    self._answer(ref, PostUnknown(UNKNOWN_POST))

    def _answer(self, ref: int, answer: Watched | BaseException) -> None:
        waiting = self._posts.get(ref)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Watched):
            waiting.set_result(answer)
        else:
            waiting.set_exception(answer)

    def _closed(self, connection: asyncio.Task[Never]) -> None:
        """Nothing may wait for a connection that will not come back."""
        failure = None if connection.cancelled() else connection.exception()
        self._trouble = failure or ConnectionLost("the client was closed")
        for follower in set().union(*self._followers.values()):
            follower.fail(self._trouble)
        for ref in self._posts:
            self._answer(ref, self._trouble)

    async def _close(self) -> None:
        if self._connection is not None:
            self._connection.cancel()
            await asyncio.wait({self._connection})


class _Follower:
    """One who watches some items: what it was not shown yet, the newest view of each (conflation, §3)."""

    def __init__(self, items: list[Watched]) -> None:
        self.open = set(items)
        self._fresh = dict.fromkeys(watched for watched in items if watched.view is not None)
        self._failure: BaseException | None = None
        self._wake = asyncio.Event()

    def changed(self, watched: Watched) -> None:
        """There is a newer view."""
        self._fresh[watched] = None
        self._wake.set()

    def fail(self, failure: BaseException) -> None:
        """No more views will come."""
        self._failure = failure
        self._wake.set()

    async def next(self) -> View:
        """The next view to show; a terminal one closes its item."""
        while not self._fresh:
            if self._failure is not None:
                raise self._failure
            self._wake.clear()
            await self._wake.wait()
        watched = next(iter(self._fresh))
        del self._fresh[watched]
        view = watched.view
        assert view is not None
        if view.ended:
            self.open.discard(watched)
        return view
