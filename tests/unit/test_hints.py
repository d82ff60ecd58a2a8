"""Hints between servers: gathered, sent, heard; and that a broken connection costs nothing but time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager

import pytest

from leaseway_server.core.errors import StoreAway
from leaseway_server.runtime import hints
from leaseway_server.runtime.hints import Messenger
from leaseway_server.store.shared import Heard
from support.clock import ManualClock


class Air:
    """Carries hints, or breaks."""

    def __init__(self, *, heard_at_once: bool = True, broken: int = 0) -> None:
        self.heard_at_once = heard_at_once
        self.sent: asyncio.Queue[list[str]] = asyncio.Queue()
        self.listeners: asyncio.Queue[Heard] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.broke = asyncio.Event()
        self._broken = broken

    def _carry(self) -> None:
        if self._broken:
            self._broken -= 1
            self.broke.set()
            raise StoreAway("broken, says the test")

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncIterator[Awaitable[object]]:
        """Until it is gone."""
        self._carry()
        self.listeners.put_nowait(heard)
        yield self.gone.wait()
        self.gone.clear()

    async def send(self, hints: Collection[str]) -> None:
        """All at once."""
        self._carry()
        self.sent.put_nowait(list(hints))


@asynccontextmanager
async def messenger(air: Air) -> AsyncIterator[tuple[Messenger, asyncio.Queue[tuple[int, int, str]], list[None]]]:
    """One of server 1, that runs; with what it was told, and how often it may have missed something."""
    told: asyncio.Queue[tuple[int, int, str]] = asyncio.Queue()
    missed: list[None] = []
    running = Messenger(air, 1, ManualClock(), lambda *hint: told.put_nowait(hint), lambda: missed.append(None))
    task = asyncio.create_task(running.run())
    yield running, told, missed
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_hints_of_one_moment_are_sent_together_and_each_once() -> None:
    air = Air()
    async with messenger(air) as (sender, _, _):
        for queue in (7, 8, 7):
            sender.send(queue, "turned")
        assert await air.sent.get() == ["7:1:turned", "8:1:turned"]
        sender.send(7, "turned")
        assert await air.sent.get() == ["7:1:turned"]


async def test_hints_that_cannot_be_sent_are_dropped_and_the_next_are_sent() -> None:
    air = Air(heard_at_once=False, broken=1)
    async with messenger(air) as (sender, _, _):
        sender.send(7, "turned")
        await air.broke.wait()
        sender.send(8, "turned")
        assert await air.sent.get() == ["8:1:turned"]
    assert air.listeners.empty(), "where none is heard nobody listens"


async def test_hints_are_heard_and_what_is_none_is_not() -> None:
    air = Air()
    async with messenger(air) as (_, told, _):
        heard = await air.listeners.get()
        for hint in ("", "7", "7:x:turned", "x:2:turned", "7:1:turned", "::", "7:2:turned"):
            heard(hint)
        assert await told.get() == (7, 2, "turned")
        assert told.empty()


async def test_after_a_connection_broke_it_listens_again_and_says_that_some_may_be_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hints, "AGAIN_SECONDS", 0)
    air = Air(broken=1)
    async with messenger(air) as (_, _, missed):
        await air.listeners.get()
        assert len(missed) == 1
        air.gone.set()
        await air.listeners.get()
        assert len(missed) == 2
