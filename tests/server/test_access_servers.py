"""Two servers on one database: a token and a ticket are the same to both, revoked ones too; and it may be away.

What the store makes of it is told by `test_access_postgres.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.config import load_config
from leaseway_server.store.access import AccessStore
from leaseway_server.stores import kind_of
from support.logged import Logged, logged
from support.matrix import NONE, Caller, Closed, Line, bearer, talk
from support.postgres import Postgres, fresh_database
from support.postgres_away import away
from support.raw import raw_socket
from support.server import OPEN_ACCESS, TestServer, running_server

TOML: Final = f"[queues.members]\n[queues.public]\naccess = {OPEN_ACCESS}\n"


class Branch:
    """One of the servers, and a line to it."""

    def __init__(self, server: TestServer, line: Line) -> None:
        self.server = server
        self.line = line

    async def asks(self, caller: Caller, queue: str = "members") -> int:
        """The status of a look at an item that is not there: 404 where the caller may look."""
        return (await self.line.ask("GET", f"/{queue}/items/{NONE}", caller)).status

    async def ticket(self, caller: Caller) -> Caller:
        """A ticket for a socket, made here."""
        made = await self.line.ask("POST", "/members/tickets", caller, {})
        assert made.status == 201, made
        return Caller(f"ticket={made.json['ticket']}")

    async def knocks(self, caller: Caller) -> int:
        """0 where a socket opens, else the code that it is closed with."""
        heard = await talk(self.server.ws_url, "/members/monitor", caller, [])
        return heard.code if isinstance(heard, Closed) else 0

    async def ready(self) -> int:
        return (await self.line.ask("GET", "/_ready")).status

    async def look(self) -> None:
        """It reads the tokens anew, as it does each second."""
        assert self.server.running.site is not None
        await self.server.running.site.refresh()


class Firm:
    """Two servers on one database, what commands do beside them, and the log of both."""

    def __init__(self, here: Branch, there: Branch, folder: Path, log: Logged) -> None:
        self.here = here
        self.there = there
        self.log = log
        self.ann = bearer(here.server.tokens["ann"])
        self._place = load_config(folder / "leaseway.toml").server.store

    def said(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log.entries if entry["event"] == event]

    async def command(self, closing: AsyncExitStack) -> AccessStore:
        """The tokens, as `leaseway token` has them."""
        return await closing.enter_async_context(kind_of(self._place).access(make=False))


@pytest.fixture
async def firm(tmp_path: Path, postgres: Postgres) -> AsyncIterator[Firm]:
    async with AsyncExitStack() as closing:
        url = await closing.enter_async_context(fresh_database(postgres))
        log = closing.enter_context(logged())

        async def branch(name: str, *users: str) -> Branch:
            (tmp_path / name).mkdir()
            running = running_server(tmp_path / name, TOML, users=dict.fromkeys(users, ()), store=url)
            server = await closing.enter_async_context(running)
            return Branch(server, await closing.enter_async_context(Line(server.base_url)))

        yield Firm(await branch("here", "ann", "bob"), await branch("there"), tmp_path / "here", log)


@pytest.mark.protocol("2.17", "2.18")
async def test_what_is_made_or_revoked_anywhere_counts_everywhere(firm: Firm) -> None:
    """Tokens by any command; tickets of one server on the other, once; sockets that are open."""
    async with AsyncExitStack() as closing:
        tokens = await firm.command(closing)
        for branch in (firm.here, firm.there):
            assert await branch.asks(firm.ann) == 404
        carol, secret = await tokens.add("carol", None, None, 0, 0)
        assert await firm.there.asks(bearer(secret)) == 404, "at once"
        for branch in (firm.here, firm.there):
            await branch.look()

        ticket = await firm.here.ticket(bearer(secret))
        assert [await firm.there.knocks(ticket) for _ in range(2)] == [0, 4401]
        assert await firm.here.knocks(ticket) == 4401

        left = await firm.here.ticket(bearer(secret))
        async with raw_socket(f"{firm.there.server.ws_url}/members/work", bearer(secret).named_headers) as inside:
            assert (await inside.ask({"hello": {}}))["type"] == "hello"
            assert await tokens.revoke(carol.id)
            async with asyncio.timeout(3):
                assert await inside.closed() == 4401, "by itself, within a second"
        assert await firm.there.asks(bearer(secret)) == 401
        await firm.here.look()
        assert await firm.here.asks(bearer(secret)) == 401
        assert await firm.here.knocks(left) == await firm.there.knocks(left) == 4401
        assert [entry["token_id"] for entry in firm.said("admin.token_revoked")] == [carol.id] * 2
        used = {token.user: token.used_at > 0 for token in await tokens.all()}
        assert used == {"ann": True, "bob": False}


@pytest.mark.protocol("2.28")
async def test_while_the_database_is_away_nobody_comes_in_and_nobody_is_thrown_out(
    firm: Firm, postgres: Postgres
) -> None:
    database = str(firm._place).rpartition("/")[2]
    ticket = await firm.here.ticket(firm.ann)
    async with raw_socket(f"{firm.here.server.ws_url}/members/work", firm.ann.named_headers) as inside:
        assert (await inside.ask({"hello": {}}))["type"] == "hello"
        async with away(postgres, database):
            await firm.here.look()
            refused = await firm.here.line.ask("GET", f"/members/items/{NONE}", firm.ann)
            assert (refused.status, refused.json["code"]) == (503, "unavailable")
            assert await firm.here.knocks(firm.ann) == await firm.here.knocks(ticket) == 1011
            assert await firm.here.asks(bearer("lw_guess")) == 503, "nor is anybody told that a token is not valid"
            assert (await firm.here.ready(), await firm.here.asks(Caller())) == (503, 401)
        while await firm.here.ready() == 503:
            pass  # An engine that had noticed asks for it within a second.
        assert await firm.here.asks(firm.ann) == 404
        assert (await inside.ask({"claim": {}}))["type"] == "empty"
        await firm.here.look()
        await firm.there.look()
    lost, readable = (len(firm.said(event)) for event in ("tokens.lost", "tokens.readable"))
    assert 1 <= lost == readable <= 2, "each of the two once, if it looked meanwhile"
