"""Following all of a poster's items, or all of the queue's, while other servers of the database change them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from leaseway_server.core.commands import Change, Delete
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.runtime.engine import Engine
from support.cluster import quicken, running_cluster
from support.postgres import Postgres
from support.raw import RawSocket, raw_socket
from support.server import TestServer


class Scene:
    """What happens on one server, and who follows on the other: `alice` and `bob` what is theirs, `boss` all."""

    def __init__(self, here: TestServer, there: TestServer, followers: dict[str, RawSocket]) -> None:
        self.engine: Engine = here.engine("demo")
        self.elsewhere: Engine = there.engine("demo")
        self.alice, self.bob, self.boss = followers.values()
        self.concerned = (self.alice, self.boss)
        self._ws_url = f"{here.ws_url}/demo/monitor"
        self._tokens = there.tokens

    async def post(self, user: str) -> str:
        """The id of an item that this user posted here."""
        async with raw_socket(f"{self._ws_url}?token={self._tokens[user]}") as poster:
            return str((await poster.ask({"post": {"item": 1}}))["id"])

    async def sees(self, item_id: str, status: str) -> None:
        """Whom an item of alice's concerns sees it so."""
        for follower in self.concerned:
            view = await follower.hear()
            assert (view["id"], view["status"]) == (item_id, status)


@pytest.fixture
async def scene(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Two servers."""
    quicken(monkeypatch)
    async with running_cluster(postgres, tmp_path, 1) as cluster, AsyncExitStack() as stack:
        there = await cluster.add(users=["alice", "bob", "boss"])
        followers = {}
        for user, token in there.tokens.items():
            socket = await stack.enter_async_context(raw_socket(f"{there.ws_url}/demo/monitor?token={token}"))
            socket.say({"subscribe": {"all": True} if user == "boss" else {"mine": True}})
            await socket.ask({"stats": True})  # It follows by now.
            socket.say({"stats": False})
            followers[user] = socket
        yield Scene(cluster.servers[0], there, followers)


@pytest.mark.protocol("7.24")
async def test_who_follows_what_ended_and_is_gone_at_once_begins_anew_and_nobody_else(scene: Scene) -> None:
    item_id = await scene.post("alice")
    await scene.sees(item_id, "pending")
    await asyncio.gather(scene.engine.ask(Change(item_id, Cancel())), scene.engine.ask(Delete(item_id)))
    for follower in scene.concerned:
        assert await follower.closed() == 1012
    theirs = await scene.post("bob")
    assert (await scene.bob.hear())["id"] == theirs


@pytest.mark.protocol("7.24")
async def test_an_end_and_a_delete_between_two_looks_are_missed_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of an item that ended before, as was seen, and then ended once more."""
    item_id = await scene.post("alice")
    await scene.sees(item_id, "pending")
    await scene.engine.ask(Change(item_id, Cancel()))
    await scene.sees(item_id, "cancelled")
    assert scene.elsewhere.surroundings is not None
    with monkeypatch.context() as blind:
        blind.setattr(scene.elsewhere.surroundings.neighbours, "is_due", lambda _now, *, watched: False)
        for command in (Change(item_id, Retry()), Change(item_id, Cancel()), Delete(item_id)):
            await scene.engine.ask(command)
    for follower in scene.concerned:
        assert await follower.closed() == 1012


async def test_who_saw_the_end_of_what_is_deleted_elsewhere_follows_on(scene: Scene) -> None:
    item_id = await scene.post("alice")
    await scene.sees(item_id, "pending")
    await scene.engine.ask(Change(item_id, Cancel()))
    await scene.sees(item_id, "cancelled")
    await scene.engine.ask(Delete(item_id))
    await scene.sees(await scene.post("alice"), "pending")
