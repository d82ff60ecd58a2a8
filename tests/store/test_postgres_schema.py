"""The tables in a database: whose they are, whether they are whole, and how they come to be the newest."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.postgres import schema
from leaseway_server.store.postgres.address import Address
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.finding import look_at
from leaseway_server.store.queries import load_migrations
from support.postgres import Postgres, fresh_database, one_version_on
from support.postgres_refusal import SECRET, empty_database, refusal, user


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    """A database with the tables of this version."""
    async with fresh_database(postgres) as url:
        yield url


async def tables(postgres: Postgres, name: str) -> set[str]:
    """What the schema holds."""
    connection = await asyncpg.connect(postgres.url_of(name))
    try:
        return {row[0] for row in await connection.fetch(schema.SQL["tables"])}
    finally:
        await connection.close()


@asynccontextmanager
async def watched(postgres: Postgres, name: str) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Gives all schemas and what is in them, as often as it is asked."""
    connection = await asyncpg.connect(postgres.url_of(name))

    async def made() -> object:
        return await connection.fetch(
            "SELECT nspname, relname FROM pg_namespace AS space LEFT JOIN pg_class ON relnamespace = space.oid "
            "WHERE nspname !~ '^pg_' ORDER BY nspname, relname"
        )

    try:
        yield made
    finally:
        await connection.close()


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


async def test_a_check_refuses_what_a_start_would(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
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
        one_version_on(monkeypatch)
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


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        ("DROP TABLE leaseway.ticket, leaseway.body", "there is no table body, ticket"),
        ("DELETE FROM leaseway.version", "no version is noted"),
    ],
)
async def test_a_restore_that_did_not_end_is_told(postgres: Postgres, url: str, harm: str, named: str) -> None:
    await postgres.run(harm, database=url.rpartition("/")[2])
    told = await refusal(url)
    assert f"is not whole ({named}), as after a restore that did not end; restore a backup of it" in told
    with pytest.raises(StoreRefused, match="is not whole"):
        await look_at(url, "")


async def test_what_is_in_the_way_of_a_migration_is_told(postgres: Postgres) -> None:
    async with empty_database(postgres) as name:
        await postgres.run("CREATE SCHEMA leaseway", "CREATE SEQUENCE leaseway.number", database=name)
        told = await refusal(postgres.url_of(name))
        assert told.endswith('cannot be made or brought up to date: relation "number" already exists')


# ── Migrations ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_migration_that_is_cut_short_never_was(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks behind each statement of the script; and the next start finds a database as before."""
    [(number, script), *_] = load_migrations(schema.PACKAGE)
    statements = re.split(r"(?<=;)\n", script)
    die = "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());"
    async with empty_database(postgres) as name, watched(postgres, name) as made:
        before = await made()
        for cut in range(len(statements) + 1):
            with monkeypatch.context() as cutting:
                broken = "\n".join([*statements[:cut], die, *statements[cut:]])
                cutting.setattr(schema, "load_migrations", lambda _package, broken=broken: [(number, broken)])
                assert "terminating connection" in await refusal(postgres.url_of(name))
            assert await made() == before
        async with await Database.open(postgres.url_of(name)):
            assert await made() != before
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
    """One that fails leaves what those before it made; the next start goes on there."""
    scripts = load_migrations(schema.PACKAGE)
    newest = scripts[-1][0]
    rise = "UPDATE leaseway.version SET number = number + 1"

    def last(statement: str) -> None:
        script = (newest + 1, f"{rise}; {statement}")
        monkeypatch.setattr(schema, "load_migrations", lambda _package: [*scripts, script])

    async def noted() -> int:
        connection = await asyncpg.connect(postgres.url_of(name))
        try:
            return int(await connection.fetchval("SELECT number FROM leaseway.version"))
        finally:
            await connection.close()

    async with empty_database(postgres) as name:
        last("SELECT 1 / 0")
        told = await refusal(postgres.url_of(name))
        assert told.endswith(f"/{name} cannot be made or brought up to date: division by zero")
        assert await noted() == newest
        last("SELECT 1 / 1")
        async with await Database.open(postgres.url_of(name)):
            assert await noted() == newest + 1


def test_migrations_are_numbered_without_a_gap_and_say_their_number() -> None:
    scripts = load_migrations(schema.PACKAGE)
    assert [number for number, _ in scripts] == list(range(1, len(scripts) + 1))
