"""A database that is opened: what may be wrong with it is said clearly, and never with the password."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import asyncpg
import pytest

from leaseway_server.core.errors import StoreAway, StoreRefused
from leaseway_server.store.postgres import schema
from leaseway_server.store.postgres.address import Address
from leaseway_server.store.postgres.database import ANSWER_SECONDS, LOOKING, Database
from leaseway_server.store.postgres.finding import look_at
from leaseway_server.store.queries import load_migrations
from support.postgres import OwnPostgres, Postgres, fresh_database

SECRET: Final = "s3cr3t"


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    """A database with the tables of this version."""
    async with fresh_database(postgres) as url:
        yield url


@asynccontextmanager
async def empty_database(postgres: Postgres, how: str = "ENCODING 'UTF8'") -> AsyncIterator[str]:
    """The name of a new database without a table."""
    name = postgres.new_name("empty")
    await postgres.run(f"CREATE DATABASE {name} {how} TEMPLATE template0")
    try:
        yield name
    finally:
        await postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def user(postgres: Postgres, how: str = "") -> AsyncIterator[str]:
    """The name of a new user, with this password, who may do nothing."""
    name = postgres.new_name("user")
    await postgres.run(f"CREATE USER {name} PASSWORD '{SECRET}' {how}")
    try:
        yield name
    finally:
        await postgres.run(f"DROP USER {name}")


async def refusal(url: str, **how: Any) -> str:
    """Why it is not opened."""
    with pytest.raises(StoreRefused) as refused:
        await Database.open(url, **how)
    told: BaseException | None = refused.value
    assert SECRET not in str(told)
    assert "\n" not in str(told)
    return str(told)


async def tables(postgres: Postgres, name: str) -> set[str]:
    """What the schema holds."""
    connection = await asyncpg.connect(postgres.url_of(name))
    try:
        return {row[0] for row in await connection.fetch(schema.SQL["tables"])}
    finally:
        await connection.close()


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
    assert re.fullmatch(r"the database ann@127\.0\.0\.1:\d+/work cannot be reached: .*Connect call failed.*", told)


async def test_there_is_no_such_host() -> None:
    told = await refusal(f"postgresql://ann:{SECRET}@nowhere.invalid/work")
    assert told.startswith("the database ann@nowhere.invalid/work cannot be reached: ")


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
    async with user(postgres, "CONNECTION LIMIT 0") as name:
        told = await refusal(postgres.url_of("postgres", user=name, password=SECRET))
        assert "raise that limit there, or put PgBouncer in between" in told


# ── What is not fit for us ──────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_too_old(url: str) -> None:
    assert re.search(r"is PostgreSQL \d+; Leaseway needs 99 or newer", await refusal(url, oldest=99))


async def test_its_encoding_cannot_hold_every_text(postgres: Postgres) -> None:
    async with empty_database(postgres, "ENCODING 'LATIN1' LOCALE 'C'") as name:
        told = await refusal(postgres.url_of(name))
        assert "has the encoding LATIN1" in told
        assert "ENCODING 'UTF8'" in told


async def test_the_user_may_not_make_a_schema(postgres: Postgres) -> None:
    async with user(postgres) as who, empty_database(postgres) as name:
        told = await refusal(postgres.url_of(name, user=who, password=SECRET))
        assert "permission denied for database" in told
        assert f'GRANT CREATE ON DATABASE "{name}" TO "{who}"' in told
        await postgres.run(f"CREATE SCHEMA leaseway AUTHORIZATION {who}", database=name)
        async with await Database.open(postgres.url_of(name, user=who, password=SECRET)):
            pass


@pytest.mark.parametrize("tables", [False, True])
async def test_it_is_read_only(postgres: Postgres, tables: bool) -> None:
    async with empty_database(postgres) as name:
        url = postgres.url_of(name)
        if tables:
            async with await Database.open(url):
                pass
        await postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        told = f"the database {Address(url)} is read-only: it is a standby, or default_transaction_read_only is on"
        assert await refusal(url) == f"{told}; name the primary, or end that setting"
        with pytest.raises(StoreRefused, match="is read-only"):
            await look_at(url, "")


async def test_a_check_refuses_what_a_start_would(postgres: Postgres) -> None:
    """No tables and no right to make any; tables of before and no right to add any; tables and no right to write."""
    async with user(postgres) as who, empty_database(postgres) as name:
        url = postgres.url_of(name, user=who, password=SECRET)

        async def refused() -> str:
            with pytest.raises(StoreRefused, match=f'"{who}" may not do what Leaseway needs') as told:
                await look_at(url, "")
            return str(told.value)

        assert "it may not make tables there" in await refused()
        await postgres.run(f"CREATE SCHEMA leaseway AUTHORIZATION {who}", database=name)
        assert (await look_at(url, "")).tables == 0
        await postgres.run("DROP SCHEMA leaseway", database=name)
        async with await Database.open(postgres.url_of(name)):
            pass
        may_read = f"GRANT USAGE ON SCHEMA leaseway TO {who}; GRANT SELECT ON ALL TABLES IN SCHEMA leaseway TO {who}"
        await postgres.run(may_read, database=name)
        assert "it may not read and write a" in await refused()
        await postgres.run(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leaseway TO {who}", database=name)
        assert (await look_at(url, "")).tables > 0
        await postgres.run("UPDATE leaseway.version SET number = number - 1", database=name)
        assert "it may not make tables there" in await refused()


async def test_the_user_may_read_and_not_write(postgres: Postgres) -> None:
    async with user(postgres) as who, empty_database(postgres) as name:
        async with await Database.open(postgres.url_of(name)):
            pass
        may_use = f"GRANT USAGE ON SCHEMA leaseway TO {who}; GRANT SELECT ON ALL TABLES IN SCHEMA leaseway TO {who}"
        await postgres.run(may_use, database=name)
        told = await refusal(postgres.url_of(name, user=who, password=SECRET))
        assert "it may not read and write a" in told
        may_write = "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leaseway"
        await postgres.run(f"GRANT {may_write} TO {who}", database=name)
        async with await Database.open(postgres.url_of(name, user=who, password=SECRET)):
            pass


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ("CREATE TABLE leaseway.invoice (n int)", "invoice"),
        ("CREATE VIEW leaseway.report AS SELECT 1", "report"),
        ("CREATE TABLE leaseway.version (number text)", "version"),
    ],
)
async def test_the_schema_is_somebody_elses(postgres: Postgres, theirs: str, named: str) -> None:
    async with empty_database(postgres) as name:
        await postgres.run("CREATE SCHEMA leaseway", theirs, database=name)
        told = await refusal(postgres.url_of(name))
        assert f"holds what is not Leaseway's ({named})" in told
        assert await tables(postgres, name) == {named}, "nothing was changed"


async def test_somebody_elses_tables_stand_among_ours(postgres: Postgres, url: str) -> None:
    name = url.rpartition("/")[2]
    await postgres.run("CREATE TABLE leaseway.invoice (n int)", database=name)
    assert "holds what is not Leaseway's (invoice)" in await refusal(url)


async def test_a_newer_leaseway_was_there(postgres: Postgres, url: str) -> None:
    name = url.rpartition("/")[2]
    await postgres.run("UPDATE leaseway.version SET number = 99", "CREATE TABLE leaseway.later (n int)", database=name)
    async with await Database.open(url):
        pass  # It says that servers of this version may run beside it.
    await postgres.run("UPDATE leaseway.version SET oldest_reader = 98", database=name)
    assert "brought up to date by a newer Leaseway (version 99 of its tables; this one knows " in await refusal(url)


# ── Migrations ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_migration_that_is_cut_short_never_was(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks behind each statement of the script; and the next start finds a database as before."""
    [(number, script), *_] = load_migrations(schema.PACKAGE)
    statements = [part for part in re.split(r"(?<=;)\n", script) if part.strip()]
    die = "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());"
    async with empty_database(postgres) as name:
        for cut in range(0, len(statements) + 1, 4):
            with monkeypatch.context() as cutting:
                broken = "\n".join([*statements[:cut], die, *statements[cut:]])
                cutting.setattr(schema, "load_migrations", lambda _package, broken=broken: [(number, broken)])
                assert "terminating connection" in await refusal(postgres.url_of(name))
            assert await tables(postgres, name) == set()
        async with await Database.open(postgres.url_of(name)):
            assert await tables(postgres, name) == set(schema.TABLES)


async def test_servers_that_start_at_once_migrate_once(postgres: Postgres) -> None:
    async with empty_database(postgres) as name:
        opened = await asyncio.gather(*(Database.open(postgres.url_of(name)) for _ in range(6)))
        for database in opened:
            await database.close()
        assert await tables(postgres, name) == set(schema.TABLES)


async def test_scripts_follow_each_other_each_in_a_transaction(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = load_migrations(schema.PACKAGE)
    newest = scripts[-1][0]
    rise = "UPDATE leaseway.version SET number = number + 1"
    follow = [(newest + 1, f"{rise}; CREATE TABLE leaseway.later (n int)"), (newest + 2, f"{rise}; SELECT 1 / 0")]
    async with empty_database(postgres) as name:
        monkeypatch.setattr(schema, "load_migrations", lambda _package: scripts + follow)
        monkeypatch.setattr(schema, "TABLES", schema.TABLES | {"later"})
        with pytest.raises(asyncpg.DivisionByZeroError):
            await Database.open(postgres.url_of(name))
        connection = await asyncpg.connect(postgres.url_of(name))
        assert await connection.fetchval("SELECT number FROM leaseway.version") == newest + 1
        await connection.close()


def test_migrations_are_numbered_without_a_gap_and_say_their_number() -> None:
    scripts = load_migrations(schema.PACKAGE)
    assert [number for number, _ in scripts] == list(range(1, len(scripts) + 1))


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


async def test_a_database_that_went_away_is_told_as_such(postgres: Postgres) -> None:
    async with fresh_database(postgres) as url:
        database = await Database.open(url)
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
