"""A database that is opened: what may be wrong with it is said clearly, and never with the password."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import asyncpg
import pytest

from leaseway_server.core.errors import StoreAway
from leaseway_server.store.postgres.address import Address
from leaseway_server.store.postgres.database import ANSWER_SECONDS, LOOKING, Database
from support.postgres import OwnPostgres, Postgres, fresh_database, own_postgres
from support.postgres_refusal import SECRET, empty_database, refusal, user


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    """A database with the tables of this version."""
    async with fresh_database(postgres) as url:
        yield url


# ── The URL ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cr3t@db.example:5433/work", "ann@db.example:5433/work"),
        ("postgres://db.example/work?sslmode=require&password=s3cr3t", "db.example/work"),
        ("postgresql:///work?host=/run/postgresql", "/run/postgresql/work"),
        ("postgresql://ann%40x:s3cr3t%2F%40@[::1]/work", "ann@x@[::1]/work"),
        ("postgresql://", "localhost"),
    ],
)
def test_a_url_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    address = Address(url)
    assert (address.shown, str(address), repr(address)) == (shown, shown, f"Address({shown!r})")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ann:s3cr3t@host/db",
        "postgresql://ann:s3cr3t/1@host/db",
        "postgresql://ann:12/s3cr3t@host/db",
        "postgresql://ann:#s3cr3t@host/db",
        "postgresql://ann:1?s3cr3t@host/db",
        "postgresql://ann@host:s3cr3t/db",
        "postgresql://[s3cr3t/db",
        "s3cr3t",
    ],
)
async def test_a_url_that_cannot_be_read_is_shown_nowhere(url: str) -> None:
    assert "the URL of the database cannot be read; it must be postgresql://USER" in await refusal(url)


async def test_an_option_that_the_driver_does_not_take_is_refused(postgres: Postgres) -> None:
    told = await refusal(f"{postgres.url_of('x')}?sslmode=s3cr3t")
    assert "its URL holds an option that cannot be used" in told


# ── Who does not answer, or not us ──────────────────────────────────────────────────────────────────────────────


async def test_nobody_listens_there(unused_tcp_port: int) -> None:
    told = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{unused_tcp_port}/work")
    assert re.fullmatch(r"the database ann@127\.0\.0\.1:\d+/work cannot be reached: nobody listens there; .*", told)


async def test_there_is_no_such_host() -> None:
    told = await refusal(f"postgresql://ann:{SECRET}@nowhere.invalid/work")
    assert told.startswith("the database ann@nowhere.invalid/work cannot be reached: there is no such host (")


async def test_who_listens_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaseway_server.store.postgres.database.CONNECT_SECONDS", 0.05)
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "no answer within 0.05 s" in await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{port}/work")
        await ended.wait()


async def test_there_is_no_such_database(postgres: Postgres) -> None:
    told = await refusal(postgres.url_of("nothing"))
    assert 'database "nothing" does not exist; make it with CREATE DATABASE' in told


async def test_there_is_no_such_user(postgres: Postgres) -> None:
    told = await refusal(postgres.url_of("postgres", user="nobody_of_this_name", password=SECRET))
    if isinstance(postgres, OwnPostgres):
        assert 'role "nobody_of_this_name" does not exist (there CREATE ROLE makes a user' in told


async def test_the_password_is_wrong(postgres: Postgres) -> None:
    if not isinstance(postgres, OwnPostgres):
        pytest.skip("how users prove who they are is that server's own affair")
    async with user(postgres) as name:
        postgres.require_password(name)
        told = await refusal(postgres.url_of("postgres", user=name, password=f"not-{SECRET}"))
        assert f'password authentication failed for user "{name}"' in told
        assert "PGPASSWORD or ~/.pgpass" in told
        await postgres.run(f"GRANT CREATE ON DATABASE {await postgres.template()} TO {name}")
        assert "may not do what Leaseway needs" in await refusal(
            postgres.url_of(await postgres.template(), user=name, password=SECRET)
        )
        await postgres.run(f"REVOKE CREATE ON DATABASE {await postgres.template()} FROM {name}")


async def test_there_are_too_many_connections(postgres: Postgres) -> None:
    """At the start, and later."""
    async with user(postgres) as name, empty_database(postgres) as work:
        await postgres.run(f"GRANT CREATE ON DATABASE {work} TO {name}")
        url = postgres.url_of(work, user=name, password=SECRET)
        async with await Database.open(url) as database:
            await postgres.run(f"ALTER USER {name} CONNECTION LIMIT 0")
            for asks in _asks(database):
                with pytest.raises(StoreAway, match="raise that limit there, or put PgBouncer in between"):
                    await asks()
        assert "raise that limit there, or put PgBouncer in between" in await refusal(url)


# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_not_committed_by_a_borrowed_connection_is_undone(url: str) -> None:
    async with await Database.open(url) as database:
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO leaseway.queue (name, id_key) VALUES ('q', '00'); SELECT 1 / 0")
        async with database.transaction(readonly=True) as connection:
            assert await connection.fetchval("SELECT count(*) FROM leaseway.queue") == 0
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await connection.execute("DELETE FROM leaseway.queue")


@pytest.mark.parametrize("pooled", [False, True])
async def test_every_transaction_has_its_settings_and_needs_no_search_path(url: str, pooled: bool) -> None:
    database = Database(Address(url), pooled=pooled)
    await database._pool
    async with database.transaction() as connection:
        for name, value in (("lock_timeout", "5s"), ("enable_seqscan", "off"), ("jit", "off")):
            assert await connection.fetchval(f"SHOW {name}") == value
    await database.close()


@pytest.mark.parametrize("how", ["ALTER DATABASE {} ALLOW_CONNECTIONS false", "DROP DATABASE {} WITH (FORCE)"])
async def test_a_database_that_went_away_is_told_as_such(postgres: Postgres, how: str) -> None:
    """Whatever keeps a connection from being made."""
    async with empty_database(postgres) as name:
        database = await Database.open(postgres.url_of(name))
        await postgres.run(how.format(name))
        for asks in _asks(database):
            with pytest.raises(StoreAway):
                await asks()
        await database.close()


def _asks(database: Database) -> list[Callable[[], Any]]:
    return [partial(borrow, database), database.connect]


async def borrow(database: Database) -> None:
    """A transaction of the pool."""
    async with database.transaction():
        pass


async def test_of_several_hosts_the_primary_is_found(postgres: Postgres, url: str) -> None:
    if not isinstance(postgres, OwnPostgres):
        pytest.skip("who is let in there is that server's own affair")
    with own_postgres() as standby:
        await standby.run(f"CREATE DATABASE {url.rpartition('/')[2]}")
        await asyncio.to_thread(standby.stop, "fast")
        await asyncio.to_thread(standby.start_as_standby)
        both = url.replace(f":{postgres.port}/", f":{standby.port},127.0.0.1:{postgres.port}/")
        async with await Database.open(both) as database, database.transaction() as connection:
            assert await connection.fetchval("SELECT current_setting('port')") == str(postgres.port)


# ── What runs beside the turns ──────────────────────────────────────────────────────────────────────────────────


async def test_lists_leave_a_connection_to_what_must_not_wait_for_them(url: str) -> None:
    async with await Database.open(url) as database, AsyncExitStack() as lists:
        for _ in range(LOOKING):
            await lists.enter_async_context(database.looking())

        async def look() -> int:
            async with database.looking() as connection:
                return int(await connection.fetchval("SELECT 1"))

        one_more = asyncio.create_task(look())
        for _ in range(3):
            async with database.transaction() as connection:
                assert await connection.fetchval("SELECT 1") == 1
        assert not one_more.done()
        async with database.transaction():
            asking = asyncio.create_task(borrow(database))
            async with database.urgent(ANSWER_SECONDS) as connection:
                assert await connection.fetchval("SELECT 1") == 1
            assert not asking.done()
        await asking
        await lists.aclose()
        assert await one_more == 1


async def test_a_list_does_not_wait_for_others_for_ever(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await Database.open(url) as database, AsyncExitStack() as lists:
        for _ in range(LOOKING):
            await lists.enter_async_context(database.looking())
        monkeypatch.setattr("leaseway_server.store.postgres.database.ANSWER_SECONDS", 0.02)
        with pytest.raises(StoreAway):
            await lists.enter_async_context(database.looking())
