"""Tokens and tickets in a database: two servers at once, and a database that is away, slow, or not what it was.

The rules that hold in whatever store are in `test_access.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import asyncpg
import pytest

from leaseway_server.core.access import Token, hash_token
from leaseway_server.core.errors import LimitReached, StoreAway, StoreError, StoreRefused
from leaseway_server.store.access import postgres as module
from leaseway_server.store.access.postgres import PostgresAccess
from leaseway_server.store.postgres.database import Database
from support.postgres import Postgres, fresh_database
from support.postgres_away import away, cut

NOW: Final = 1_751_500_000_000


class Box:
    """A database, a server on it, and what others do there. `here` knows alice's token."""

    def __init__(self, postgres: Postgres, url: str, closing: AsyncExitStack) -> None:
        self.postgres = postgres
        self.url = url
        self.name = url.rpartition("/")[2]
        self._closing = closing

    async def open(self) -> "Box":
        self.here = await self.another()
        self.alice, self.secret = await self.here.add("alice", None, None, 0, NOW)
        assert await self.here.find(self.secret, NOW) == self.alice
        return self

    async def another(self, kind: type[PostgresAccess] = PostgresAccess, *, make: bool = True) -> PostgresAccess:
        """Another server on the same database."""
        database = await self._closing.enter_async_context(await Database.open(self.url, make=make))
        return await self._closing.enter_async_context(kind(database))

    @asynccontextmanager
    async def holding(self, statement: str) -> AsyncIterator[asyncpg.Connection]:
        """Somebody holds a lock, until the `with` ends."""
        connection = await asyncpg.connect(self.url)
        try:
            async with connection.transaction():
                await connection.execute(statement)
                yield connection
        finally:
            await connection.close()

    def ways_to_ask(self) -> list[Callable[[], Awaitable[object]]]:
        """All that a server asks for somebody who comes anew."""
        return [
            self.here.refresh,
            lambda: self.here.find(self.secret, NOW),
            lambda: self.here.find("lw_unknown", NOW),
            lambda: self.here.issue("resize", "ticket", self.alice, NOW),
            lambda: self.here.redeem("resize", "ticket", NOW),
        ]


@pytest.fixture
async def box(postgres: Postgres) -> AsyncIterator[Box]:
    async with AsyncExitStack() as closing:
        url = await closing.enter_async_context(fresh_database(postgres))
        yield await Box(postgres, url, closing).open()


# ── Two servers at once ──


async def test_a_ticket_made_by_one_is_good_once_on_any(box: Box) -> None:
    there = await box.another()
    for number in range(5):
        await box.here.issue("resize", f"{number}", box.alice, NOW)
    asked = [server.redeem("resize", f"{number}", NOW) for number in range(5) for server in (box.here, there) * 4]
    found = await asyncio.gather(*asked)
    assert found.count(box.alice) == 5
    assert found.count(None) == 35


async def test_whose_ticket_is_used_is_known_from_then_on(box: Box) -> None:
    """Else the socket that it opened would be taken for one of a revoked token."""
    there = await box.another()
    await box.here.issue("resize", "one", box.alice, NOW)
    assert await there.redeem("resize", "one", NOW) == box.alice
    assert there.by_id(box.alice.id, NOW) == box.alice


async def test_two_servers_together_give_a_token_no_more_tickets_than_one(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TICKETS", 5)
    there = await box.another()
    each = [(server, f"{number} {server}") for number in range(6) for server in (box.here, there)]
    asked = [server.issue("resize", secret, box.alice, NOW) for server, secret in each]
    made = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in made if not isinstance(one, int)] == [LimitReached] * 7


async def test_tickets_that_ended_are_removed_by_whoever_makes_one(box: Box) -> None:
    await box.here.issue("resize", "old", box.alice, NOW)
    await (await box.another()).issue("mail", "new", box.alice, NOW + 60_000)
    async with box.holding("SELECT 1") as connection:
        assert await connection.fetchval("SELECT array_agg(hash) FROM leaseway.ticket") == [hash_token("new")]


async def test_tickets_go_with_their_token(box: Box) -> None:
    await box.here.issue("resize", "one", box.alice, NOW)
    assert await (await box.another()).revoke(box.alice.id)
    async with box.holding("SELECT 1") as connection:
        assert await connection.fetchval("SELECT count(*) FROM leaseway.ticket") == 0
    assert await box.here.redeem("resize", "one", NOW) is None


@pytest.mark.protocol("2.6")
async def test_no_secret_is_in_the_database(box: Box) -> None:
    await box.here.issue("resize", "lw_tickets_secret", box.alice, NOW)
    async with box.holding("SELECT 1") as connection:
        rows = [
            dict(row)
            for table in ("token", "ticket")
            for row in await connection.fetch(f"SELECT * FROM leaseway.{table}")  # noqa: S608  Two names of ours.
        ]
    assert {row["hash"] for row in rows} == {hash_token(box.secret), hash_token("lw_tickets_secret")}
    assert box.secret.removeprefix("lw_") not in str(rows)
    assert "tickets_secret" not in str(rows)


@pytest.mark.parametrize("token_id", ["", "nothing", "é", "\udcff", "'; DROP TABLE leaseway.token; --"])
async def test_what_is_no_id_is_revoked_nowhere(box: Box, token_id: str) -> None:
    assert not await box.here.revoke(token_id)
    assert await box.here.all() == [box.alice]


# ── Many at once ──


class Counting(PostgresAccess):
    """Counts how often it looks."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.looks = 0
        self.looking = asyncio.Event()

    async def _look(self) -> bool:
        self.looks += 1
        self.looking.set()
        return await super()._look()


async def test_many_who_ask_at_once_share_a_look_that_begins_after_all_of_them(box: Box) -> None:
    there = await box.another(Counting)
    assert isinstance(there, Counting)
    async with box.holding("LOCK TABLE leaseway.access IN ACCESS EXCLUSIVE MODE"):
        early = [asyncio.create_task(there.find(f"lw_{number}", NOW)) for number in range(50)]
        await there.looking.wait()
        late = [asyncio.create_task(there.find(box.secret, NOW)) for _ in range(50)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*early, *late) == [None] * 50 + [box.alice] * 50
    assert there.looks == 2


# ── The database is not as it should be ──


@pytest.mark.protocol("2.28")
async def test_while_it_is_away_nobody_is_found_and_who_is_inside_is_known(box: Box) -> None:
    async with away(box.postgres, box.name):
        for ask in box.ways_to_ask() * 2:
            with pytest.raises(StoreAway, match="does not exist"):
                await ask()
        assert (box.here.current, box.here.by_id(box.alice.id, NOW)) == (False, box.alice)
    assert await box.here.find(box.secret, NOW) == box.alice
    assert box.here.current
    await box.here.issue("resize", "one", box.alice, NOW)
    assert await box.here.redeem("resize", "one", NOW) == box.alice


async def test_one_that_was_revoked_while_it_was_away_is_gone(box: Box) -> None:
    async with away(box.postgres, box.name):
        with pytest.raises(StoreAway):
            await box.here.refresh()
        async with await Database.open(f"{box.url}_away") as database:
            assert await PostgresAccess(database).revoke(box.alice.id)
    assert await box.here.find(box.secret, NOW) is None


async def test_connections_that_were_cut_are_made_anew(box: Box) -> None:
    await cut(box.postgres, box.name)
    with suppress(StoreAway):  # Unless it has noticed already.
        await box.here.refresh()
    await box.here.refresh()
    assert box.here.current
    assert await box.here.find(box.secret, NOW) == box.alice


async def test_it_waits_for_an_answer_for_a_while_only(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    async with box.holding("LOCK TABLE leaseway.access, leaseway.ticket IN ACCESS EXCLUSIVE MODE"):
        for ask in box.ways_to_ask():
            with pytest.raises(StoreAway, match=r"^the database .* does not answer within 0\.05 s$"):
                await ask()
            assert not box.here.current or ask not in box.ways_to_ask()[:3]
        assert box.here.by_id(box.alice.id, NOW) == box.alice
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 5)
    assert await box.here.find(box.secret, NOW) == box.alice
    assert box.here.current


async def test_a_database_that_cannot_be_written_still_tells_who_may(box: Box) -> None:
    await box.postgres.run(f"ALTER DATABASE {box.name} SET default_transaction_read_only = on")
    there = await box.another(make=False)
    assert await there.find(box.secret, NOW) == box.alice
    assert not await there.refresh()
    assert [token.used_at for token in await there.all()] == [0], "when it was used could not be noted"
    with pytest.raises(StoreError, match="read-only"):
        await there.add("bob", None, None, 0, NOW)


async def test_tables_that_are_gone_are_told(box: Box) -> None:
    async with box.holding("DROP TABLE leaseway.access CASCADE"):
        pass
    for ask in box.ways_to_ask()[:3]:
        with pytest.raises(StoreRefused, match=r"^the tokens in the database .* cannot be read: .*leaseway\.access"):
            await ask()
        assert not box.here.current


async def test_what_is_under_way_at_the_end_is_let_go_of(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that nobody waits for any more holds up no stop."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    there = await box.another()
    async with box.holding("LOCK TABLE leaseway.access IN ACCESS EXCLUSIVE MODE"):
        with pytest.raises(StoreAway, match="does not answer"):
            await there.refresh()
        await there.close()
    assert await box.here.find(box.secret, NOW) == box.alice


async def test_what_was_used_is_lost_where_it_is_away_at_the_end(box: Box) -> None:
    there = await box.another()
    token: Token | None = await there.find(box.secret, NOW)
    assert token == box.alice
    async with away(box.postgres, box.name):
        await there.close()
