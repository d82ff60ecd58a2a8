"""The rules of tokens and tickets that hold in whatever store they are: each test has two servers on one store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from leaseway_server.core import access
from leaseway_server.core.access import TICKET_LIFE, Right, Token
from leaseway_server.core.errors import LimitReached
from leaseway_server.store.access import AccessStore, SqliteAccess, postgres
from leaseway_server.store.access.postgres import PostgresAccess
from leaseway_server.store.postgres.database import Database
from support.postgres import fresh_database

Server = Callable[[], Awaitable[AccessStore]]

NOW = 1_751_500_000_000
MINUTE = 60_000


@pytest.fixture(params=["sqlite", "postgres"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """One more server on the store."""
    async with AsyncExitStack() as closing:
        if request.param == "sqlite":
            yield lambda: closing.enter_async_context(SqliteAccess.open(tmp_path))
            return
        url = await closing.enter_async_context(fresh_database(request.getfixturevalue("postgres")))

        async def connected() -> AccessStore:
            database = await closing.enter_async_context(await Database.open(url))
            return await closing.enter_async_context(PostgresAccess(database))

        yield connected


@pytest.fixture
async def here(server: Server) -> AccessStore:
    return await server()


@pytest.fixture
async def there(server: Server) -> AccessStore:
    return await server()


async def add(tokens: AccessStore, user: str = "alice", expires_at: int = 0, now: int = NOW) -> tuple[Token, str]:
    return await tokens.add(user, None, None, expires_at, now)


# ── Tokens ──


async def test_a_token_is_kept_as_it_was_made(here: AccessStore, there: AccessStore) -> None:
    queues, rights = frozenset({"resize", "mail"}), frozenset[Right]({"post", "fetch"})
    narrow, _ = await here.add("alice", queues, rights, NOW + 5, NOW)
    wide, _ = await here.add("root", None, None, 0, NOW + 1)
    nothing, _ = await here.add("eve ☃ \"'", frozenset(), frozenset(), 0, NOW + 2)
    assert narrow == Token(narrow.id, "alice", queues, rights, NOW, NOW + 5)
    assert await there.all() == [narrow, wide, nothing]
    await there.refresh()
    assert list(there.known.values()) == [narrow, wide, nothing]


async def test_every_secret_and_id_is_another(here: AccessStore) -> None:
    made = [await add(here) for _ in range(20)]
    assert len({token.id for token, _ in made}) == len({secret for _, secret in made}) == 20
    assert all(secret.startswith("lw_") and len(secret) == 46 for _, secret in made)


async def test_a_revoked_token_is_gone(here: AccessStore, there: AccessStore) -> None:
    kept, _ = await add(here, "bob")
    gone, secret = await add(here)
    assert await there.revoke(gone.id)
    assert not await here.revoke(gone.id)
    assert await here.find(secret, NOW) is None
    assert await here.all() == [kept]


@pytest.mark.protocol("2.5")
async def test_a_token_is_found_by_its_whole_secret(here: AccessStore) -> None:
    token, secret = await add(here)
    assert await here.find(secret, NOW) == token
    for wrong in ("", secret[:-1], f"{secret} ", secret.upper(), "lw_", token.id, "\x00", "ü", "\ud800"):
        assert await here.find(wrong, NOW) is None


async def test_one_that_another_server_added_is_found_at_once(here: AccessStore, there: AccessStore) -> None:
    assert await here.find("lw_unknown", NOW) is None
    token, secret = await add(there)
    assert await here.find(secret, NOW) == token


async def test_one_that_another_server_revoked_is_gone_after_a_refresh(here: AccessStore, there: AccessStore) -> None:
    token, secret = await add(here)
    assert await here.find(secret, NOW) == token
    assert await there.revoke(token.id)
    assert here.by_id(token.id, NOW) == token
    assert await here.refresh()
    assert await here.find(secret, NOW) is None
    assert here.by_id(token.id, NOW) is None


async def test_one_that_was_revoked_here_is_gone_after_a_refresh_too(here: AccessStore) -> None:
    token, secret = await add(here)
    await here.refresh()
    assert await here.revoke(token.id)
    assert await here.refresh()
    assert await here.find(secret, NOW) is None


@pytest.mark.protocol("2.3")
async def test_it_ends_at_its_time(here: AccessStore) -> None:
    token, secret = await add(here, expires_at=NOW + 10)
    assert await here.find(secret, NOW + 9) == token
    assert here.by_id(token.id, NOW + 9) == token
    assert await here.find(secret, NOW + 10) is None
    assert here.by_id(token.id, NOW + 10) is None
    assert await here.all() == [token]


async def test_they_are_read_again_only_where_they_changed(here: AccessStore, there: AccessStore) -> None:
    await here.refresh()
    before = here.known
    assert not await here.refresh()
    assert here.known is before
    token, _ = await add(there)
    assert await here.refresh()
    assert (dict(before), dict(here.known)) == ({}, {token.id: token})
    assert not await here.refresh()
    assert here.by_id("nobody", NOW) is None
    assert here.current


# ── When they were used ──


async def used_at(tokens: AccessStore) -> list[int]:
    return [token.used_at for token in await tokens.all()]


async def test_a_token_that_was_not_used_says_so(here: AccessStore, there: AccessStore) -> None:
    await add(here)
    await there.refresh()
    await there.find("lw_unknown", NOW)
    await there.refresh()
    assert await used_at(here) == [0]


async def test_its_use_is_noted_each_minute(here: AccessStore, there: AccessStore) -> None:
    token, secret = await add(here)
    await there.find(secret, NOW)
    await there.refresh()
    assert await used_at(here) == [NOW]
    there.by_id(token.id, NOW + MINUTE - 1)
    await there.refresh()
    assert await used_at(here) == [NOW]
    await there.find(secret, NOW + MINUTE)
    await there.refresh()
    assert await used_at(here) == [NOW + MINUTE]


async def test_of_two_servers_the_last_use_counts(here: AccessStore, there: AccessStore) -> None:
    _, secret = await add(here)
    for server, at in ((here, NOW + 5), (there, NOW)):
        await server.find(secret, at)
        await server.refresh()
    assert await used_at(here) == [NOW + 5]


async def test_the_last_use_is_noted_at_the_end(here: AccessStore, there: AccessStore) -> None:
    _, secret = await add(here)
    await there.find(secret, NOW + 7)
    await there.close()
    assert await used_at(here) == [NOW + 7]


# ── Tickets ──


@pytest.mark.protocol("2.18")
async def test_a_ticket_is_good_once_for_its_queue_and_in_time(here: AccessStore) -> None:
    token, _ = await add(here)
    await here.refresh()
    assert await here.issue("resize", "one", token, NOW) == NOW + TICKET_LIFE
    for queue, secret in (("mail", "one"), ("resize", "One"), ("resize", "lw_unknown"), ("", "one")):
        assert await here.redeem(queue, secret, NOW) is None
    assert await here.redeem("resize", "one", NOW + TICKET_LIFE - 1) == token
    assert await here.redeem("resize", "one", NOW) is None
    await here.issue("resize", "late", token, NOW)
    assert await here.redeem("resize", "late", NOW + TICKET_LIFE) is None


@pytest.mark.protocol("2.18")
async def test_a_ticket_shares_the_end_of_its_token(here: AccessStore) -> None:
    token, _ = await add(here, expires_at=NOW + 10)
    assert await here.issue("resize", "one", token, NOW) == NOW + 10
    assert await here.redeem("resize", "one", NOW + 10) is None


async def test_a_ticket_of_a_revoked_token_is_none(here: AccessStore, there: AccessStore) -> None:
    token, _ = await add(here)
    await here.issue("resize", "one", token, NOW)
    await there.revoke(token.id)
    await here.refresh()
    assert await here.redeem("resize", "one", NOW) is None


@pytest.mark.protocol("2.29")
async def test_a_token_has_so_many_tickets_on_each_queue(here: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_TICKETS", 9)
    monkeypatch.setattr(postgres, "MOST_TICKETS", 9)
    token, _ = await add(here)
    other, _ = await add(here, "bob")
    await here.refresh()
    for number in range(9):
        await here.issue("resize", f"first {number}", token, NOW)
    with pytest.raises(LimitReached, match="9 tickets of this token wait to be used already"):
        await here.issue("resize", "more", token, NOW)
    assert await here.redeem("resize", "more", NOW) is None
    await here.issue("mail", "more", token, NOW)
    await here.issue("resize", "others", other, NOW)
    assert await here.redeem("resize", "first 7", NOW) == token
    await here.issue("resize", "after one was used", token, NOW)
    with pytest.raises(LimitReached):
        await here.issue("resize", "more", token, NOW + TICKET_LIFE - 1)
    await here.issue("resize", "after they ended", token, NOW + TICKET_LIFE)
    assert await here.redeem("resize", "after they ended", NOW + TICKET_LIFE) == token
