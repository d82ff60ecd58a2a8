"""What a database is found to be before anything is made in it, and whether `listen_url` fits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.access.postgres import PostgresAccess
from leaseway_server.store.place import PostgresUrl, SqliteFolder
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.finding import look_at, unfit
from leaseway_server.store.postgres.servers import enter
from leaseway_server.store.postgres.store import PostgresStore
from support.pgbouncer import pgbouncer
from support.postgres import Postgres, fresh_database, one_version_on


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    async with fresh_database(postgres) as url:
        yield url


async def test_what_is_there_is_told(url: str) -> None:
    async with await Database.open(url) as database:
        epoch = await enter(database, "box", "1")
        for name in ("resize", "mail"):
            await (await PostgresStore.open(database, name, epoch)).close()
        found = await look_at(url, "")
    assert (found.queues, found.servers, found.pooled) == (("mail", "resize"), 1, False)
    assert found.tables == found.newest > 0
    assert int(found.postgres.partition(".")[0]) >= 14


async def test_nothing_is_made_where_nothing_is(url: str, postgres: Postgres) -> None:
    await postgres.run("DROP SCHEMA leaseway CASCADE", database=url.rpartition("/")[2])
    for _ in range(2):
        found = await look_at(url, "")
        assert (found.tables, found.queues, found.servers) == (0, (), 0)
        with pytest.raises(StoreRefused, match="there is no store of Leaseway in the database "):
            await Database.open(url, make=False)


async def test_older_tables_are_told_and_left(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one_version_on(monkeypatch)
    for _ in range(2):
        found = await look_at(url, "")
        assert found.tables == found.newest - 1
        with pytest.raises(StoreRefused, match="which a start of the server brings up to date"):
            await Database.open(url, make=False)


async def test_what_is_up_to_date_needs_nothing_made(url: str) -> None:
    async with await Database.open(url, make=False) as database, PostgresAccess(database) as tokens:
        assert await tokens.all() == []


async def test_another_way_to_the_same_database_fits(url: str, postgres: Postgres) -> None:
    assert (await look_at(url, f"{url}?application_name=news")).servers == 0
    with pytest.raises(StoreRefused, match=r"^listen_url leads to another database than store does \(.*/postgres\)$"):
        await look_at(url, postgres.url_of("postgres"))


async def test_a_pooler_is_noticed(url: str, postgres: Postgres) -> None:
    with pgbouncer(postgres) as port:
        pooled = f"postgresql://postgres@127.0.0.1:{port}/{url.rpartition('/')[2]}"
        assert (await look_at(pooled, url)).pooled
        with pytest.raises(StoreRefused, match="listen_url leads through a pooler"):
            await look_at(url, pooled)


def test_what_is_of_no_use_for_news() -> None:
    assert unfit("db/x", same=True, pooled=False) == ""
    assert "another database" in unfit("db/x", same=False, pooled=True)
    assert unfit("db/x", same=True, pooled=True).startswith("listen_url leads through a pooler (db/x), where no news")


def test_a_place_is_shown_without_its_password() -> None:
    place = PostgresUrl("postgres://ann:s3cret@db/x?password=s3cret", "postgresql://ann:s3cret@db2/x")
    assert str(place) == "postgresql://ann@db/x"
    assert "s3cret" not in repr(place)
    assert str(SqliteFolder(Path("data"))) == "sqlite:data"
