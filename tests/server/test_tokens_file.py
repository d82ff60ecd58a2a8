"""The file of tokens changes under a server: another one takes its place, or it is gone (docs/deployment.md).

What the store makes of such a file is told by `test_access_sqlite.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.logged import Logged, logged
from support.matrix import NONE, Caller, Closed, Line, bearer, talk
from support.raw import raw_socket
from support.server import OPEN_ACCESS, TestServer, running_server
from support.tokens import TokenFile

TOML: Final = f"[queues.members]\n[queues.public]\naccess = {OPEN_ACCESS}\n"
FAULTS: Final = {"gone": "is gone", "empty": "is empty", "no database": "not a database"}


class Office:
    """A server with ann's and bob's tokens, and the file that they are in."""

    def __init__(self, server: TestServer, line: Line, data: Path, log: Logged) -> None:
        self.server = server
        self.line = line
        self.log = log
        self.file = data / "_access.db"
        self.aside = data / "aside"

    async def asks(self, user: str, queue: str = "members") -> int:
        """The status of a look at an item that is not there: 404 where the user may look."""
        caller = bearer(self.server.tokens[user]) if user else Caller()
        return (await self.line.ask("GET", f"/{queue}/items/{NONE}", caller)).status

    async def knocks(self, caller: Caller) -> int:
        """0 where a socket opens, else the code that it is closed with."""
        heard = await talk(self.server.ws_url, "/members/monitor", caller, [])
        return heard.code if isinstance(heard, Closed) else 0

    async def ready(self) -> int:
        return (await self.line.ask("GET", "/_ready")).status

    async def look(self) -> None:
        """The server looks at the file, as it does each second."""
        assert self.server.running.site is not None
        await self.server.running.site.refresh()

    def said(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log.entries if entry["event"] == event]

    def lose(self, how: str) -> None:
        """What is at the place is no file of tokens any more."""
        self.file.rename(self.aside)
        if how != "gone":
            self.file.write_bytes(b"" if how == "empty" else b"x" * 4_096)

    def find(self) -> None:
        """The file is back."""
        self.aside.replace(self.file)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with an_office(tmp_path) as made:
        yield made


@asynccontextmanager
async def an_office(folder: Path) -> AsyncIterator[Office]:
    users: dict[str, list[Any]] = {"ann": [], "bob": []}
    with logged() as log:
        async with running_server(folder, TOML, users=users) as server, Line(server.base_url) as line:
            yield Office(server, line, folder / "data", log)


@pytest.mark.protocol("2.28")
@pytest.mark.parametrize("how", FAULTS)
async def test_while_there_is_none_nobody_comes_in_and_nobody_is_thrown_out(how: str, office: Office) -> None:
    """Neither with a token nor with a ticket: either may have been revoked. What is open to anyone stays so."""
    ann = bearer(office.server.tokens["ann"])
    ticket = (await office.line.ask("POST", "/members/tickets", ann)).json["ticket"]
    async with raw_socket(f"{office.server.ws_url}/members/work", ann.named_headers) as inside:
        assert (await inside.ask({"hello": {}}))["type"] == "hello"
        office.lose(how)
        await office.look()
        assert FAULTS[how] in office.said("tokens.lost")[0]["fault"]
        refused = await office.line.ask("GET", f"/members/items/{NONE}", ann)
        assert (refused.status, refused.json["code"]) == (503, "unavailable")
        assert await office.asks("ann", "public") == 503
        assert await office.knocks(ann) == await office.knocks(Caller(f"ticket={ticket}")) == 1011
        assert await office.knocks(bearer("lw_guess")) == 1011, "nor is anybody told that a token is not valid"
        assert await office.ready() == 503
        assert (await office.asks(""), await office.asks("", "public")) == (401, 404)
        assert (await inside.ask({"claim": {}}))["type"] == "empty"
        await office.look()
        office.find()
        await office.look()
        assert (await office.asks("ann"), await office.asks("bob"), await office.ready()) == (404, 404, 200)
        assert (await inside.ask({"claim": {}}))["type"] == "empty"
    assert [len(office.said(event)) for event in ("tokens.lost", "tokens.readable")] == [1, 1]
    assert not office.said("tokens.replaced")


async def test_who_comes_in_the_moment_it_is_back_is_let_in(office: Office) -> None:
    """Nobody has to wait for the next look of the server."""
    office.lose("gone")
    await office.look()
    assert await office.asks("ann") == 503
    office.find()
    assert await office.asks("ann") == 404


async def test_another_file_counts_at_once_and_is_told(office: Office, tmp_path: Path) -> None:
    """A backup that is put back while it runs: what is not in it is revoked, also on sockets that are open."""
    with TokenFile(tmp_path / "backup") as backup:
        carol, secret = backup.add("carol", None, None, 0, 0)
    office.server.tokens["carol"] = secret
    ann = bearer(office.server.tokens["ann"])
    assert await office.asks("carol") == 401
    async with raw_socket(f"{office.server.ws_url}/members/work", ann.named_headers) as inside:
        assert (await inside.ask({"hello": {}}))["type"] == "hello"
        (tmp_path / "backup" / "_access.db").replace(office.file)
        async with asyncio.timeout(5):
            assert await inside.closed() == 4401
    assert (await office.asks("ann"), await office.asks("bob"), await office.asks("carol")) == (401, 401, 404)
    (told,) = office.said("tokens.replaced")
    assert told["level"] == "warning"
    assert [entry["token_id"] for entry in office.said("admin.token_created")] == [carol.id]
    assert sorted(entry["user"] for entry in office.said("admin.token_revoked")) == ["ann", "bob"]
    assert await office.ready() == 200


async def test_who_removes_it_and_makes_a_token_has_revoked_all_others(office: Office) -> None:
    office.file.unlink()
    with TokenFile(office.file.parent) as new:
        office.server.tokens["carol"] = new.add("carol", None, None, 0, 0)[1]
    assert await office.asks("carol") == 404
    assert (await office.asks("ann"), await office.asks("bob")) == (401, 401)


async def test_a_file_that_cannot_be_read_for_a_while_is_told_once(office: Office) -> None:
    """The same one: who is known still counts."""
    assert await office.asks("ann") == 404
    with TokenFile(office.file.parent) as other:
        other.access._connection.execute("ALTER TABLE token RENAME TO elsewhere")
        for _ in range(3):
            await office.look()
        assert (await office.asks("ann"), await office.ready()) == (404, 200)
        assert (await office.line.ask("GET", f"/members/items/{NONE}", bearer("lw_guess"))).status == 503
        other.access._connection.execute("ALTER TABLE elsewhere RENAME TO token")
    await office.look()
    assert [len(office.said(event)) for event in ("tokens.unreadable", "tokens.readable")] == [1, 1]
    assert (await office.line.ask("GET", f"/members/items/{NONE}", bearer("lw_guess"))).status == 401
