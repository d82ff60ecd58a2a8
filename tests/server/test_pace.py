"""A monitor with a pace on a real socket: what a busy queue costs it is counted in frames, on a clock of ours."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.commands import Read
from leaseway_server.runtime.tally import MINUTE_MS
from leaseway_server.web.monitor_socket import MonitorSocket
from support.clock import ManualClock
from support.http_client import http_client
from support.raw import RawSocket, raw_socket
from support.server import TestServer, open_queue, running_server
from support.wire import check_server

PACE: Final = 500
ITEMS: Final = 20
BURSTS: Final = 25
"""So many times each item changes within one pace."""
QUEUES: Final = 30


class Scene:
    """A server whose clock only we move, and a worker that holds some items."""

    def __init__(self, server: TestServer, clock: ManualClock, work: RawSocket, ids: list[str], stack: AsyncExitStack):
        self.server = server
        self.clock = clock
        self.work = work
        self.ids = ids
        self._stack = stack

    async def monitor(self, **hello: Any) -> RawSocket:
        """A monitor that said this hello."""
        monitor = await self._stack.enter_async_context(raw_socket(f"{self.server.ws_url}/demo/monitor"))
        assert (await monitor.ask({"hello": {"batch": True, **hello}}))["type"] == "hello"
        return monitor

    async def work_hard(self, start: int) -> None:
        """Every item changes very often, from this number on."""
        for step in range(start, start + BURSTS):
            self.work.say({"progress": [{"id": item_id, "value": step} for item_id in self.ids]})
            assert all(ack["accepted"] for ack in await self.work.hear_all(ITEMS))

    def rev(self, period: int) -> int:
        """What each item's `rev` is after so many periods of hard work, and after the end."""
        return 2 + (period + 1) * BURSTS if period < 5 else 3 + 5 * BURSTS

    async def finish(self) -> None:
        """All of them end."""
        self.work.say({"result": [{"id": item_id, "value": "done"} for item_id in self.ids]})
        assert all(ack["accepted"] for ack in await self.work.hear_all(ITEMS))

    def pushes(self) -> int:
        """How many frames the one monitor was sent."""
        assert self.server.running.site is not None
        sockets = self.server.running.site.queues["demo"].sockets
        (monitor,) = (socket for socket in sockets if isinstance(socket, MonitorSocket))
        return monitor.talk.sent


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with (
        AsyncExitStack() as stack,  # Outlives the server, so that the last words are heard.
        running_server(folder, clock=clock) as server,
        http_client(server.base_url) as http,
        raw_socket(f"{server.ws_url}/demo/work") as work,
    ):
        body = [{"item": number} for number in range(ITEMS)]
        ids = [item["id"] for item in (await http.post("/demo/items", json=body)).json()["items"]]
        work.say({"hello": {"batch": True}})
        assert (await work.hear())["type"] == "hello"
        work.say({"claim": {"count": ITEMS}})
        assert len(await work.hear_all(ITEMS)) == ITEMS
        yield Scene(server, clock, work, ids, stack)


def parts(frame: Any) -> list[Any]:
    """The messages of one frame, which meet their schemas."""
    check_server("monitor", frame)
    messages: list[Any] = frame.get("messages", [frame])
    return messages


@pytest.mark.protocol("3.46")
@pytest.mark.parametrize("subscribe", ["by id", "all"])
async def test_a_busy_queue_costs_one_push_a_pace_and_the_last_state_comes(subscribe: str, tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor(paceMs=PACE)
        monitor.say({"stats": True})
        assert (await monitor.hear())["type"] == "stats"
        monitor.say({"subscribe": {"all": True} if subscribe == "all" else on.ids})
        first = parts(await monitor.hear())
        assert {view["id"] for view in first} == set(on.ids)
        newest, finished, before = dict[str, Any](), 0, on.pushes()
        for period in range(6):
            await (on.work_hard(period * BURSTS) if period < 5 else on.finish())
            on.clock.advance(PACE)
            while newest.keys() != set(on.ids) or any(view["rev"] < on.rev(period) for view in newest.values()):
                for message in parts(await monitor.hear()):
                    if message["type"] == "stats":
                        finished = message["counts"]["finished"]
                    else:
                        newest[message["id"]] = message
        assert {view["status"] for view in newest.values()} == {"finished"}
        while finished < ITEMS:
            on.clock.advance(PACE)
            finished = (await monitor.hear())["counts"]["finished"]
        assert on.pushes() - before <= 10, "the first at once, then one a period, and at last the figures"
        assert (await monitor.ask({"ref": 1}))["ref"] == 1, "nothing else was on its way"


@pytest.mark.protocol("3.46")
async def test_without_a_pace_the_same_costs_many_pushes(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor()
        monitor.say({"subscribe": on.ids})
        assert len(await monitor.hear_all(ITEMS)) == ITEMS
        before = on.pushes()
        for step in range(BURSTS):
            on.work.say({"progress": [{"id": item_id, "value": step} for item_id in on.ids]})
            await on.work.hear_all(ITEMS)
            await monitor.hear_all(ITEMS)
        assert on.pushes() - before >= BURSTS


@pytest.mark.protocol("3.48")
async def test_what_waits_is_told_before_a_planned_stop(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor(paceMs=60_000)
        monitor.say({"subscribe": on.ids})
        await monitor.hear_all(ITEMS)
        await on.work_hard(0)
        await monitor.hear()
        await on.finish()
        on.server.running.stop()
        views = parts(await monitor.hear())
        assert [view["status"] for view in views] == ["finished"] * ITEMS
        assert await monitor.closed() == 1012


@pytest.mark.protocol("3.50")
async def test_who_watches_thirty_queues_in_turn_is_pushed_to_twice_in_every_second(tmp_path: Path) -> None:
    """At the full minute the figures of all are others, since it is another minute that they tell of."""
    names = [f"q{number}" for number in range(QUEUES)]
    clock = ManualClock()
    pushes = list[int]()
    async with (
        running_server(tmp_path, "".join(map(open_queue, names)), clock=clock) as server,
        AsyncExitStack() as stack,
    ):
        monitors = [await stack.enter_async_context(raw_socket(f"{server.ws_url}/{name}/monitor")) for name in names]

        async def look() -> None:
            """Counts what came by itself: the answer to a greeting comes after it."""
            for turn, monitor in enumerate(monitors):
                monitor.say({"hello": {"paceMs": PACE * QUEUES, "paceOffsetMs": PACE * turn}})
                while (message := await monitor.hear())["type"] != "hello":
                    assert message["type"] == "stats"
                    pushes.append(clock.now())

        await look()
        for monitor in monitors:
            assert (await monitor.ask({"stats": True}))["type"] == "stats"
        clock.advance(MINUTE_MS - clock.now() % MINUTE_MS - 1)
        await look()
        assert pushes == []
        clock.advance(1)
        for _ in range(QUEUES + 2):
            await look()
            clock.advance(PACE)
    assert len(pushes) == QUEUES
    assert all(later - earlier >= PACE for earlier, later in pairwise(pushes))


async def test_a_paced_monitor_that_leaves_with_something_unsaid_leaves_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor(paceMs=PACE)
        monitor.say({"subscribe": on.ids})
        await monitor.hear_all(ITEMS)
        await on.work_hard(0)
        engine = on.server.engine("demo")
        monitor.cut()
        while len(engine.hub):
            await engine.ask(Read(()))
        await on.work_hard(BURSTS)
        on.clock.advance(PACE)
