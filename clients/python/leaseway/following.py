"""Who waits for which items, and what ends a wait: the end of its items, its time, or a connection away for too long.

Owns the followers and their subscriptions' lives. What is said to the server is decided in `watch_state.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from leaseway.errors import ConnectionLost
from leaseway.protocol import View
from leaseway.watch_state import Watched, WatchState


class Following:
    """All who wait. `clock` is the connection's, `patience` how many seconds one waits without a connection.

    `trouble` says why nothing can be waited for now; None while the client is open.
    """

    def __init__(
        self, state: WatchState, wake: Callable[[], None], clock: Callable[[], float], patience: float
    ) -> None:
        self.trouble: BaseException | None = ConnectionLost("the client is not open: use `async with`")
        self._state = state
        self._wake = wake
        self._clock = clock
        self._patience = patience
        self._followers: dict[Watched, set[_Follower]] = {}

    async def follow(self, items: list[Watched], timeout: float | None) -> AsyncIterator[View]:
        """The states of these items until all have ended; see `Client.watch`."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        with self._following(items) as follower:
            while follower.open:
                try:
                    async with asyncio.timeout_at(deadline):
                        view = await follower.next()
                except TimeoutError:
                    raise TimeoutError(f"after {timeout:g} s {_unfinished(follower.open)}") from None
                yield view

    def check_open(self) -> None:
        """Raises why there is nothing to wait for."""
        if self.trouble is not None:
            raise self.trouble

    def changed(self, watched: Watched) -> None:
        """There is a newer view of the item."""
        for follower in self._followers.get(watched, ()):
            follower.changed(watched)

    def fail(self, watched: Watched, failure: BaseException) -> None:
        """Nothing more will be told of the item."""
        for follower in self._followers.get(watched, ()):
            follower.fail(failure)

    def end(self, trouble: BaseException) -> None:
        """Nothing more will be told of any item."""
        self.trouble = trouble
        for follower in self._all():
            follower.fail(trouble)

    def offline(self) -> None:
        """The connection is away: from now on those who wait have so much patience."""
        for follower in self._all():
            follower.lose_patience_in(self._patience)

    def online(self) -> None:
        """The connection is there again."""
        for follower in self._all():
            follower.keep_patience()

    def _all(self) -> set[_Follower]:
        return set().union(*self._followers.values())

    @contextmanager
    def _following(self, items: list[Watched]) -> Iterator[_Follower]:
        """Keeps the subscriptions for one follower; the last one who leaves ends them."""
        if not all(watched.ended for watched in items):
            self.check_open()
        self._state.watch(items, self._clock())
        self._wake()
        follower = _Follower(items)
        if not self._state.online:
            follower.lose_patience_in(self._patience)
        for watched in items:
            self._followers.setdefault(watched, set()).add(follower)
        try:
            yield follower
        finally:
            follower.keep_patience()
            for watched in items:
                self._leave(watched, follower)
            self._wake()

    def _leave(self, watched: Watched, follower: _Follower) -> None:
        self._followers[watched].discard(follower)
        if not self._followers[watched]:
            del self._followers[watched]
            self._state.unwatch(watched)


class _Follower:
    """One who watches some items: what it was not shown yet, the newest view of each (conflation, §3)."""

    def __init__(self, items: list[Watched]) -> None:
        self.open = set(items)
        self._fresh = dict.fromkeys(watched for watched in items if watched.view is not None)
        self._failure: BaseException | None = None
        self._wake = asyncio.Event()
        self._patience: asyncio.TimerHandle | None = None

    def changed(self, watched: Watched) -> None:
        """There is a newer view."""
        self._fresh[watched] = None
        self._wake.set()

    def fail(self, failure: BaseException) -> None:
        """No more views will come."""
        self._failure = failure
        self._wake.set()

    def lose_patience_in(self, seconds: float) -> None:
        """Fails after so long, unless `keep_patience` comes before."""
        gone = ConnectionLost(f"there was no connection for {seconds:g} s; what was watched may go on")
        self._patience = asyncio.get_running_loop().call_later(seconds, self.fail, gone)

    def keep_patience(self) -> None:
        """It waits on."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

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


def _unfinished(items: set[Watched]) -> str:
    """What those whose end did not come are doing."""
    if len(items) > 1:
        return f"{len(items):,} items have not ended"
    (watched,) = items
    return f"{watched.id} is {watched.view.status}" if watched.view else f"nothing is known of {watched.id}"
