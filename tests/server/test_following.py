"""`mine`, `all`, `cancel`, `stats` and arrays of reports over real sockets."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.commands import Post, Read
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import NewItem
from leaseway_server.core.monitor_session import MonitorSession
from leaseway_server.runtime import followed
from leaseway_server.web.monitor_socket import MonitorSocket
from support.clock import ManualClock
from support.logged import logged
from support.matrix import NONE, Line, bearer
from support.raw import RawSocket, raw_socket
from support.server import TestServer, running_server
from support.wire import check_server

TOML: Final = '[queues.demo]\naccess = { work = ["box"], admin = ["root"] }\nlease = "1h"\n'
USERS: Final = ("ann", "bob", "box", "root")


class Scene:
    """A server with a clock that stands still, and the sockets of its users."""

    def __init__(self, server: TestServer, line: Line, stack: AsyncExitStack) -> None:
        self.server = server
        self.line = line
        self._stack = stack

    async def monitor(self, user: str, buffer: int | None = None) -> RawSocket:
        """A monitor of this user."""
        url = f"{self.server.ws_url}/demo/monitor?token={self.server.tokens[user]}"
        return await self._stack.enter_async_context(raw_socket(url, receive_buffer=buffer))

    async def worker(self) -> RawSocket:
        """A worker."""
        url = f"{self.server.ws_url}/demo/work?token={self.server.tokens['box']}"
        return await self._stack.enter_async_context(raw_socket(url))

    async def post(self, user: str = "ann") -> str:
        """A new item of this user."""
        answer = await self.line.ask("POST", "/demo/items", bearer(self.server.tokens[user]), {"item": 1})
        return str(answer.json["id"])

    async def finish(self, worker: RawSocket, *ids: str) -> None:
        """Ends these items, without a claim."""
        worker.say({"result": [{"id": item_id, "value": "done"} for item_id in ids]})
        for _ in ids:
            assert (await worker.hear())["accepted"]

    def sessions(self) -> list[MonitorSession]:
        """The server's side of the monitors."""
        assert self.server.running.site is not None
        sockets = self.server.running.site.queues["demo"].sockets
        return [socket.session for socket in sockets if isinstance(socket, MonitorSocket)]

    async def quiet(self, socket: RawSocket) -> None:
        """Nothing more comes to the socket, also after a turn of the engine."""
        for ref in ("quiet", "still quiet"):
            assert (await socket.ask({"ref": ref}))["ref"] == ref
            await self.server.engine("demo").ask(Read(()))


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    users: dict[str, tuple[()]] = dict.fromkeys(USERS, ())
    async with (
        running_server(folder, TOML, users=users, clock=ManualClock()) as server,
        Line(server.base_url) as line,
        AsyncExitStack() as stack,
    ):
        yield Scene(server, line, stack)


async def statuses(socket: RawSocket, number: int) -> list[tuple[str, str]]:
    """The next so many views: (id, status)."""
    views = [await socket.hear() for _ in range(number)]
    for view in views:
        check_server("monitor", view)
    return [(view["id"], view["status"]) for view in views]


@pytest.mark.protocol("3.28", "3.29")
async def test_nothing_that_ended_during_a_reload_is_missed_and_nothing_is_shown_twice(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        worker = await on.worker()
        ids = [await on.post() for _ in range(4)]
        before = await on.monitor("ann")
        before.say({"subscribe": {"mine": True}})
        assert await statuses(before, 4) == [(item_id, "pending") for item_id in reversed(ids)]
        await on.finish(worker, ids[0])
        assert await statuses(before, 1) == [(ids[0], "finished")]
        await before.answers_ping()
        before.cut()
        await on.finish(worker, ids[1], ids[2])
        after = await on.monitor("ann")
        after.say({"subscribe": {"mine": True}})
        assert await statuses(after, 3) == [(ids[3], "pending"), (ids[2], "finished"), (ids[1], "finished")]
        await on.quiet(after)


@pytest.mark.protocol("3.18")
async def test_an_end_that_went_out_is_stamped(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        ended, open_one = await on.post(), await on.post()
        await on.finish(await on.worker(), ended)
        for expected in ([(open_one, "pending"), (ended, "finished")], [(open_one, "pending")]):
            monitor = await on.monitor("ann")
            monitor.say({"subscribe": {"mine": True}})
            assert await statuses(monitor, len(expected)) == expected
            await on.quiet(monitor)
            await on.post("bob")  # The stamp goes with a turn that is synced anyway.


async def test_many_items_come_page_by_page_while_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "PAGE", 7)
    async with scene(tmp_path) as on:
        engine = on.server.engine("demo")
        for _ in range(100):
            await engine.ask(Post(NewItem("1", posted_by="ann")))
        monitor, worker = await on.monitor("ann"), await on.worker()
        monitor.say({"subscribe": {"mine": True}})
        worker.say({"claim": {"count": 100}})
        ids = [(await worker.hear())["id"] for _ in range(100)]
        await on.finish(worker, *ids)
        newest: dict[str, int] = {}
        ended: set[str] = set()
        while len(ended) < 100:
            view = await monitor.hear()
            assert view["rev"] >= newest.get(view["id"], 0), "an older view after a newer one"
            newest[view["id"]] = view["rev"]
            ended |= {view["id"]} if view["status"] == "finished" else set()
        assert ended == set(ids)


@pytest.mark.protocol("3.21", "3.39", "3.41")
async def test_all_shows_an_administrator_what_is_open_and_then_every_change(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        worker = await on.worker()
        ended, anns, bobs = await on.post("ann"), await on.post("ann"), await on.post("bob")
        await on.finish(worker, ended)
        root = await on.monitor("root")
        root.say({"subscribe": {"all": True}})
        assert await statuses(root, 2) == [(bobs, "pending"), (anns, "pending")]
        more = await on.post("box")
        await on.finish(worker, anns)
        assert await statuses(root, 2) == [(more, "pending"), (anns, "finished")]
        root.say({"unsubscribe": {"all": True}})
        await on.quiet(root)
        await on.finish(worker, bobs)
        await on.quiet(root)
        mine = await on.monitor("ann")
        mine.say({"subscribe": {"mine": True}})
        assert await statuses(mine, 2) == [(anns, "finished"), (ended, "finished")], "no end was fetched by `all`"


@pytest.mark.protocol("3.40")
async def test_a_deaf_monitor_of_all_costs_the_newest_view_of_each_and_hears_the_last(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        deaf, worker = await on.monitor("root", buffer=4_096), await on.worker()
        assert (await deaf.ask({"subscribe": {"all": True}, "stats": True}))["code"] == "bad-message"
        deaf.say({"subscribe": {"all": True}})
        await on.quiet(deaf)
        ids = [await on.post() for _ in range(3)]
        assert len(await statuses(deaf, 3)) == 3
        filler = "x" * 30_000
        for step in range(300):
            worker.say({"progress": [{"id": item_id, "value": [step, filler]} for item_id in ids]})
            for _ in ids:
                await worker.hear()
        (watching,) = on.sessions()
        assert watching.weight() <= 3 * 32_000
        assert len(watching.watching) == 0
        await on.finish(worker, *ids)
        last: dict[str, Any] = {}
        while [view["status"] for view in last.values()] != ["finished"] * 3:
            view = await deaf.hear()
            assert view["rev"] > last.get(view["id"], {"rev": 0})["rev"]
            last[view["id"]] = view


# ── Cancel ──


@pytest.mark.protocol("3.32", "3.33")
async def test_a_cancel_of_many_is_answered_in_order_and_takes_effect(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor("ann")
        monitor.say({"batch": [{"post": {"item": number}} for number in range(200)]})
        ids = [(await monitor.hear())["id"] for _ in range(200)]
        monitor.say({"cancel": [*ids, NONE], "ref": 1})
        acks = [await monitor.hear() for _ in range(201)]
        assert [(ack["id"], ack["accepted"], ack["index"], ack["ref"]) for ack in acks] == [
            (item_id, item_id != NONE, index, 1) for index, item_id in enumerate([*ids, NONE])
        ]
        assert await (await on.worker()).ask({"claim": {}}) == {"type": "empty"}


async def test_what_an_administrator_cancels_is_told_in_the_audit_log(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        mine, theirs = await on.post("root"), await on.post("ann")
        root = await on.monitor("root")
        with logged() as log:
            root.say({"cancel": [mine, theirs, theirs, NONE]})
            assert [(await root.hear())["accepted"] for _ in range(4)] == [True, True, True, False]
            await log.said("admin.item_cancelled")
        audited = [entry for entry in log.entries if entry["event"] == "admin.item_cancelled"]
        assert [(entry["by"], entry["queue"], entry["item"]) for entry in audited] == [("root", "demo", theirs)]
        assert "token_id" in audited[0]


async def test_a_worker_hears_of_a_cancel_on_the_monitor(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, worker, monitor = await on.post(), await on.worker(), await on.monitor("ann")
        worker.say({"hello": {"cancel": True}})
        worker.say({"claim": {}})
        assert [(await worker.hear())["type"] for _ in range(2)] == ["hello", "item"]
        assert (await monitor.ask({"cancel": [item_id]}))["accepted"]
        assert await worker.hear() == {"type": "cancel", "id": item_id, "reason": "cancelled"}


# ── Stats ──


@pytest.mark.protocol("3.34")
async def test_viewers_are_told_the_same_at_most_twice_a_second_however_busy_it_is(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        viewers = [await on.monitor(user) for user in ("ann", "root")]
        for viewer in viewers:
            first = await viewer.ask({"stats": True})
            assert (first["type"], first["queue"], first["workers"]) == ("stats", "demo", 0)
        worker = await on.worker()
        ids = [await on.post() for _ in range(50)]
        await on.finish(worker, *ids[:20])
        for viewer in viewers:
            await on.quiet(viewer)
        clock = on.server.running._clock
        assert isinstance(clock, ManualClock)
        clock.advance(500)
        told = [await viewer.hear() for viewer in viewers]
        assert told[0] == told[1]
        check_server("monitor", told[0])
        assert (told[0]["workers"], told[0]["counts"]["pending"], told[0]["counts"]["finished"]) == (1, 30, 20)
        assert (told[0]["rates"]["posted"], told[0]["rates"]["finished"]) == (50, 20)
        clock.advance(500)
        for viewer in viewers:
            await on.quiet(viewer)  # Nothing has changed.
        viewers[0].say({"stats": False})
        await on.quiet(viewers[0])
        assert on.server.running.site is not None
        stats = on.server.running.site.queues["demo"].stats
        assert len(stats) == 1
        viewers[1].cut()
        await on.quiet(viewers[0])
        while len(stats):
            await on.server.engine("demo").ask(Read(()))


# ── Bad input ──


NEITHER: Final[list[Json]] = [{}, {"mine": None}, {"all": [True]}, {"all": "", "mine": True}, {"mine": True, "": 1}]
NO_IDS: Final[list[Json]] = [None, {}, [], NONE, 1, True, {"id": NONE}]
NO_FLAG: Final[list[Json]] = [None, 0, -1, "true", [], {}]
BAD: Final[list[tuple[dict[str, Json], str]]] = [
    *(({verb: value}, "bad-message") for verb in ("subscribe", "unsubscribe") for value in NEITHER),
    *(({"cancel": value}, "bad-message") for value in NO_IDS),
    *(({"stats": value}, "bad-message") for value in NO_FLAG),
    ({"subscribe": {"all": True}}, "not-allowed"),
    ({"cancel": [NONE] * 10_001}, "limit"),
    ({"stats": True, "cancel": [NONE]}, "bad-message"),
    ({"subscribe": {"mine": True}, "unsubscribe": {"mine": True}}, "bad-message"),
]


async def test_what_is_wrong_is_refused_once_and_the_socket_lives(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        monitor = await on.monitor("ann")
        clock = on.server.running._clock
        assert isinstance(clock, ManualClock)
        for message, code in BAD:
            clock.advance(1_000)  # Bad messages are forgiven again: too many at once would end the socket (§6).
            answer = await monitor.ask(message | {"ref": "bad"})
            check_server("monitor", answer)
            assert (answer["type"], answer["code"], answer["ref"]) == ("error", code, "bad"), message
            assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        assert len(on.server.engine("demo").hub) == 0


# ── Arrays of reports ──


@pytest.mark.protocol("4.75", "4.76")
async def test_a_large_array_is_done_in_order_and_one_too_large_not_at_all(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        engine = on.server.engine("demo")
        for _ in range(1_000):
            await engine.ask(Post(NewItem("1")))
        worker = await on.worker()
        worker.say({"claim": {"count": 1_000}})
        held = [await worker.hear() for _ in range(1_000)]
        reports = [{"id": item["id"], "attempts": 1, "value": 1} for item in held]
        assert (await worker.ask({"result": [*reports, reports[0]], "ref": 1}))["code"] == "limit"
        worker.say({"result": reports, "ref": 2})
        acks = [await worker.hear() for _ in range(1_000)]
        assert [(ack["id"], ack["accepted"], ack["index"], ack["ref"]) for ack in acks] == [
            (item["id"], True, index, 2) for index, item in enumerate(held)
        ]
        again = await worker.ask({"result": reports[:1]})
        assert (again["accepted"], again["duplicate"], again["index"]) == (False, True, 0)


async def test_over_http_a_report_is_one_object(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        box = bearer(on.server.tokens["box"])
        for verb in ("progress", "result", "fail", "release", "renew"):
            for body in ([], [{"id": NONE, "value": 1, "error": {"message": ""}}]):
                answer = await on.line.ask("POST", f"/demo/{verb}", box, body)
                assert (answer.status, answer.json["code"]) == (422, "bad-message")
                assert answer.json["detail"] == f"{verb} must be an object"
