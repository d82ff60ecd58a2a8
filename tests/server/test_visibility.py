"""`visibility = "own"` (PROTOCOL.md §2): of what others posted nothing is there, by any door and at any time.

That single requests answer as for an unknown id, byte for byte, is told by `test_matrix_answers.py` too; here it is
shown over the whole life of an item, on sockets that are open all the while, and for those who see all.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.commands import Found, Read
from support.clock import ManualClock
from support.matrix import NONE, Caller, Line, bearer
from support.raw import RawSocket, raw_socket
from support.server import TestServer, running_server
from support.tokens import TokenFile

ACCESS: Final = 'access = { work = ["worker"], admin = ["root"] }\nretry = { delays = ["0ms"], jitter = 0.0 }\n'
TOML: Final = f'[queues.own]\nvisibility = "own"\n{ACCESS}'
USERS: Final = ("ann", "bob", "worker", "root")


class Scene:
    """The server, with a line for requests; `ann` posts, and `bob` is curious."""

    def __init__(self, server: TestServer, line: Line, stack: AsyncExitStack) -> None:
        self.server = server
        self.line = line
        self._stack = stack

    async def socket(self, user: str, kind: str = "monitor") -> RawSocket:
        """A socket of this user."""
        headers = self.caller(user).named_headers
        return await self._stack.enter_async_context(raw_socket(f"{self.server.ws_url}/own/{kind}", headers))

    def caller(self, user: str) -> Caller:
        """Requests of this user, "" is nobody."""
        return bearer(self.server.tokens[user]) if user else Caller()

    async def post(self, user: str = "ann", **options: object) -> str:
        """A new item of this user."""
        answer = await self.line.ask("POST", "/own/items", self.caller(user), {"item": user, **options})
        assert answer.status == 201
        return str(answer.json["id"])

    async def as_unknown(self, user: str, item_id: str) -> None:
        """To this user the item is as one that does not exist."""
        for method, path in (("GET", ""), ("GET", "?waitMs=600000"), ("GET", "/item"), ("POST", "/cancel")):
            caller = self.caller(user)
            there = await self.line.ask(method, f"/own/items/{item_id}{path}", caller)
            assert there == await self.line.ask(method, f"/own/items/{NONE}{path}", caller)
            assert there.status == 404


@asynccontextmanager
async def scene(folder: Path, toml: str = TOML) -> AsyncIterator[Scene]:
    users: dict[str, list[Any]] = {user: [] for user in USERS}
    async with (
        running_server(folder, toml, users=users, clock=ManualClock()) as server,
        Line(server.base_url) as line,
        AsyncExitStack() as stack,
    ):
        yield Scene(server, line, stack)


@pytest.mark.protocol("2.21")
async def test_the_life_of_anothers_item_is_not_there(tmp_path: Path) -> None:
    """Pending, claimed, with progress, failed, requeued, finished: nothing by request, nothing is pushed, ever."""
    async with scene(tmp_path) as on:
        anns, bobs = await on.post("ann"), await on.post("bob", priority=-1)
        before, work = await on.socket("bob"), await on.socket("worker", "work")
        before.say({"subscribe": [anns, bobs]})
        assert (await before.hear())["id"] == bobs
        steps: list[tuple[dict[str, Any], str]] = [
            ({"claim": {}}, "item"),
            ({"progress": {"id": anns, "value": 1}}, "progress-ack"),
            ({"fail": {"id": anns, "error": {"message": "no"}}}, "fail-ack"),
            ({"claim": {}}, "item"),
            ({"release": {"id": anns}}, "release-ack"),
            ({"claim": {}}, "item"),
            ({"result": {"id": anns, "value": 1}}, "result-ack"),
        ]
        await on.as_unknown("bob", anns)
        for message, answer in steps:
            assert (await work.ask(message))["type"] == answer
            await on.as_unknown("bob", anns)
            now = await on.socket("bob")
            now.say({"subscribe": [anns]})
            before.say({"batch": [{"unsubscribe": [anns]}, {"subscribe": [NONE, anns, anns]}]})
            for monitor in (now, before):
                assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        assert (await work.ask({"claim": {}}))["id"] == bobs
        assert ((await before.hear())["id"], (await work.ask({"claim": {}}))["type"]) == (bobs, "empty")
        assert len(on.server.engine("own").hub) == 1, "what is not there costs nothing"


async def test_looking_at_what_is_not_there_is_no_delivery(tmp_path: Path) -> None:
    """The retention of a finished item counts from when its own producer was told (§3), not from who guessed its id."""
    async with scene(tmp_path) as on:
        item_id, work = await on.post(), await on.socket("worker", "work")
        await work.ask({"claim": {}})
        await work.ask({"result": {"id": item_id, "value": 1}})
        monitor = await on.socket("bob")
        monitor.say({"subscribe": [item_id]})
        assert (await monitor.ask({"hello": {}}))["type"] == "hello"
        await on.as_unknown("bob", item_id)
        engine = on.server.engine("own")
        for fetched in (False, True):
            await on.post("bob")  # The stamps, if any, go with the next turn.
            found = await engine.ask(Read((item_id,)))
            assert isinstance(found, Found)
            assert bool(found.items[item_id].fetched_at) is fetched
            assert (await on.line.ask("GET", f"/own/items/{item_id}", on.caller("ann"))).status == 200


async def test_what_is_posted_and_watched_at_once_is_ones_own(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        ann, bob, work = await on.socket("ann"), await on.socket("bob"), await on.socket("worker", "work")
        posted = await ann.ask({"post": {"item": 1, "subscribe": True}})
        assert (await ann.hear())["postedBy"] == "ann"
        bob.say({"subscribe": [posted["id"]]})
        assert (await bob.ask({"post": {"item": 2, "subscribe": True}}))["type"] == "posted"
        mine = (await bob.hear())["id"]
        for _ in range(2):
            await work.ask({"claim": {}})
        assert [(await ann.hear())["id"], (await bob.hear())["id"]] == [posted["id"], mine]
        assert (await bob.ask({"hello": {}}))["type"] == "hello"


async def test_a_user_sees_its_own_with_each_of_its_tokens(tmp_path: Path) -> None:
    """Also with one that is narrowed, with a ticket, and with one that came after."""
    async with scene(tmp_path) as on:
        item_id = await on.post()
        ticket = (await on.line.ask("POST", "/own/tickets", on.caller("ann"), {})).json["ticket"]
        async with raw_socket(f"{on.server.ws_url}/own/monitor?ticket={ticket}") as monitor:
            assert (await monitor.ask({"subscribe": [item_id]}))["id"] == item_id
        with TokenFile(tmp_path / "data") as store:
            narrowed = bearer(store.add("ann", frozenset({"own"}), frozenset({"fetch"}), 0, 0)[1])
            workers = bearer(store.add("worker", None, frozenset({"fetch", "post"}), 0, 0)[1])
        assert (await on.line.ask("GET", f"/own/items/{item_id}/item", narrowed)).json == "ann"
        for path in ("", "/item"):
            hidden = await on.line.ask("GET", f"/own/items/{item_id}{path}", workers)
            assert hidden.status == 404, "its user may work, this token may not"


@pytest.mark.protocol("2.24")
@pytest.mark.parametrize("user", ["worker", "root"])
async def test_who_works_or_administers_sees_all(user: str, tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        item_id, monitor = await on.post(), await on.socket(user)
        assert (await monitor.ask({"subscribe": [item_id]}))["postedBy"] == "ann"
        assert (await on.line.ask("GET", f"/own/items/{item_id}", on.caller(user))).json["postedBy"] == "ann"
        assert (await on.line.ask("GET", f"/own/items/{item_id}/item", on.caller(user))).json == "ann"
        async with Line(on.server.base_url) as line:
            waiting = asyncio.create_task(line.ask("GET", f"/own/items/{item_id}?waitMs=600000", on.caller(user)))
            while len(on.server.engine("own").hub._watchers[item_id]) < 2:  # noqa: ASYNC110  It waits, then.
                await asyncio.sleep(0)
            cancelled = await on.line.ask("POST", f"/own/items/{item_id}/cancel", on.caller(user))
            assert cancelled.status == (200 if user == "root" else 403)
            if user == "worker":
                assert (await on.line.ask("POST", f"/own/items/{item_id}/cancel", on.caller("ann"))).status == 200
            assert (await waiting).json["status"] == (await monitor.hear())["status"] == "cancelled"


async def test_nobody_in_particular_owns_nothing(tmp_path: Path) -> None:
    """Items from a time when anyone might post are nobody's; who looks without a token posted none of them."""
    opened = ACCESS.replace("access = {", "access = { post = 'open', fetch = 'open',")
    toml = f'[queues.own]\nvisibility = "all"\n{opened}'
    async with scene(tmp_path, toml) as on:
        nobodys, anns = await on.post(""), await on.post("ann")
        monitor = await on.socket("")
        monitor.say({"subscribe": [nobodys, anns]})
        assert [(await monitor.hear())["id"] for _ in range(2)] == [nobodys, anns]
        file = tmp_path / "leaseway.toml"
        file.write_text(file.read_text().replace('"all"', '"own"').replace("post = 'open'", "post = 'users'"))
        on.server.running.reload()
        assert await monitor.closed() == 1012, "it may not post any more; what it sees is asked anew"
        again = await on.socket("")
        for item_id in (nobodys, anns):
            answer = await on.line.ask("GET", f"/own/items/{item_id}")
            assert answer == await on.line.ask("GET", f"/own/items/{NONE}")
            again.say({"subscribe": [item_id]})
            assert (await on.line.ask("GET", f"/own/items/{item_id}", on.caller("worker"))).status == 200
        assert (await on.line.ask("GET", f"/own/items/{anns}", on.caller("ann"))).status == 200
        assert (await again.ask({"hello": {}}))["type"] == "hello"
