"""Stores that cannot be opened, or not for now: what is told, and that nothing is changed."""

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from leaseway_notify.errors import StoreAway, StoreBusy, StoreRefused
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.settings import KeepSettings
from leaseway_notify.stores import postgres as postgres_store
from leaseway_notify.stores import sqlite as sqlite_store
from leaseway_notify.stores.base import Token
from leaseway_notify.stores.opening import open_store
from leaseway_notify.stores.postgres import PostgresDatabase
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.statements import load_migrations
from leaseway_notify.stores.store import SqlStore
from support.notify_stores import DAY, NOW, Enough, Opener, Rounds, profile, written
from support.postgres import Postgres

# ── Opening ──


async def test_what_was_written_is_there_after_the_next_start(place: tuple[str, Opener]) -> None:
    url, opener = place
    async with await opener() as store:
        await store.save_profile(profile())
        kept = await written(store)
    async with await open_store(url) as store:
        assert await store.notification(kept.notification.id) == kept
        assert await store.profile("ada") == profile()


async def test_two_processes_may_open_a_new_store_at_once(tmp_path: Path, postgres: Postgres) -> None:
    name = postgres.new_name("new")
    await postgres.run(f"CREATE DATABASE {name}")
    try:
        for url in (f"sqlite:{tmp_path / 'new.db'}", postgres.url_of(name)):
            stores = await asyncio.gather(open_store(url), open_store(url), open_store(url))
            await stores[0].save_profile(profile())
            assert await stores[2].profile("ada") == profile()
            for store in stores:
                await store.close()
    finally:
        await postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


async def test_files_that_are_not_ours_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = foreign.read_bytes()
    garbage = tmp_path / "garbage.db"
    garbage.write_text("no database at all, but long enough" * 40)
    (tmp_path / "folder.db").mkdir()
    for name, message in (
        ("foreign.db", "is a SQLite file, but not one of notifications; name another file"),
        ("garbage.db", "cannot be opened: file is not a database"),
        ("folder.db", "cannot be opened: Is a directory"),
        ("missing/n.db", "cannot be opened: No such file or directory"),
    ):
        with pytest.raises(StoreRefused) as refused:
            await open_store(f"sqlite:{tmp_path / name}")
        assert str(refused.value) == f"{tmp_path / name} {message}"
    assert foreign.read_bytes() == before


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path, place: tuple[str, Opener]) -> None:
    await (await place[1]()).close()
    if place[0].startswith("sqlite:"):
        with sqlite3.connect(place[0].removeprefix("sqlite:")) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    else:
        await set_version(place[0], 99)
    try:
        with pytest.raises(StoreRefused, match=r"newer version \(its tables are number 99, this one knows 1\); run"):
            await open_store(place[0])
    finally:
        if place[0].startswith("postgres"):
            await set_version(place[0], 1)


async def set_version(url: str, number: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE leaseway_notify.version SET number = $1", number)
    await connection.close()


async def test_databases_that_cannot_be_used_are_refused_without_their_password(postgres: Postgres) -> None:
    name = postgres.new_name("foreign")
    await postgres.run(f"CREATE DATABASE {name}", "CREATE ROLE newcomer LOGIN PASSWORD 'geheim'")
    await postgres.run("CREATE SCHEMA leaseway_notify; CREATE TABLE leaseway_notify.theirs (a int)", database=name)
    try:
        for url, message in (
            (postgres.url_of(name), "holds what is not ours; move it away"),
            (postgres.url_of("nothing", user="newcomer", password="geheim"), 'database "nothing" does not exist'),
            (postgres.url_of("template1", user="newcomer", password="geheim"), "GRANT CREATE ON DATABASE"),
            ("postgresql://ada:geheim@127.0.0.1:1/app", "the database 127.0.0.1:1/app cannot be used:"),
            ("postgresql://ada:ge@heim/x@127.0.0.1/app", "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
            ("postgresql://ada:geheim@127.0.0.1:port/app", "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
        ):
            with pytest.raises(StoreRefused) as refused:
                await open_store(url)
            assert message in str(refused.value)
            assert "geheim" not in str(refused.value)
    finally:
        await postgres.run(f"DROP DATABASE {name}", "DROP ROLE newcomer")


async def test_without_its_driver_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leaseway_notify.stores.postgres", None)
    with pytest.raises(StoreRefused, match=r"^PostgreSQL needs a driver: pip install 'leaseway\[notify,postgres\]'$"):
        await open_store("postgresql://127.0.0.1/app")


def test_each_database_has_the_same_numbers_of_migrations() -> None:
    numbers = [[number for number, _ in load_migrations(one._DIALECT)] for one in (sqlite_store, postgres_store)]
    assert numbers[0] == numbers[1] == list(range(1, len(numbers[0]) + 1))


# ── Away, busy ──


async def test_a_file_that_another_process_writes_is_waited_for_and_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "PATIENCE", 0.01)
    async with await open_sqlite(tmp_path / "n.db") as store:
        other = sqlite3.connect(tmp_path / "n.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="database is locked"):
            await store.save_profile(profile())
        other.execute("ROLLBACK")
        other.close()
        await store.save_profile(profile())


async def test_work_on_a_file_that_waits_for_anything_else_is_a_mistake(tmp_path: Path) -> None:
    async with await open_sqlite(tmp_path / "n.db") as store:
        with pytest.raises(AssertionError, match="awaits nothing but its session"):
            await store._database.do(lambda _: asyncio.sleep(0))
        await store.save_profile(profile())


async def test_a_full_disk_is_told_and_nothing_of_the_work_stays(tmp_path: Path) -> None:
    async with await open_sqlite(tmp_path / "n.db") as store:
        await store.save_profile(profile())
        connection = store._database._connection  # type: ignore[attr-defined]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreAway, match="database or disk is full"):
            await written(store, body="x" * 10_000, payload={"x": "x" * 60_000})
        connection.execute("PRAGMA max_page_count = 100000")
        assert not (await written(store, body="x" * 10_000, payload={"x": "x" * 60_000})).duplicate


async def test_work_that_is_cancelled_is_done_wholly_or_not_at_all(store: SqlStore) -> None:
    for ready in range(3):
        task = asyncio.create_task(store.save_profile(profile(f"cancelled-{ready}")))
        for _ in range(ready):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        found = await store.profile(f"cancelled-{ready}")
        assert found in (None, profile(f"cancelled-{ready}"))
    await store.save_profile(profile())


async def test_work_that_meets_another_again_and_again_is_busy(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await PostgresDatabase.open(await postgres.shared())
    tries = []

    async def work(session: object) -> None:
        tries.append(session)
        raise asyncpg.DeadlockDetectedError("deadlock detected")

    with pytest.raises(StoreBusy, match="deadlock detected"):
        await database.do(work)
    assert len(tries) == postgres_store.TRIES
    with pytest.raises(asyncpg.UniqueViolationError):
        await database.do(raising(asyncpg.UniqueViolationError("ours to mend")))
    for error in (asyncpg.QueryCanceledError("too long"), OSError("gone"), asyncpg.InterfaceError("pool is closing")):
        with pytest.raises(StoreAway):
            await database.do(raising(error))
    with pytest.raises(asyncpg.InterfaceError):
        await database.look(raising(asyncpg.InterfaceError("the server expects 1 argument")))
    monkeypatch.setattr(postgres_store, "ANSWER_SECONDS", 0.01)
    with pytest.raises(StoreAway, match="connection is closed"):  # Who is at it is not waited for without an end.
        await database.look(lambda _: database.close())


def raising(error: Exception) -> Callable[[object], Awaitable[None]]:
    async def work(_session: object) -> None:
        raise error

    return work


# ── Keeping house ──


async def test_the_house_is_swept_in_portions(store: SqlStore) -> None:
    token = Token("t0", "open", "d", "ada", "chat", "email", NOW)
    await store.add_tokens([replace(token, token=f"t{number}") for number in range(7)])
    for number in range(2):
        kept = await written(store, title=f"{number}")
        await store.cancel(kept.deliveries[0].id, NOW)
        assert await store.give_up(kept.deliveries[1].id, "gone", NOW + 1, NOW)
    keeper = Housekeeper(store, KeepSettings(portion=3), clock=lambda: NOW + 90 * DAY)
    assert await keeper.sweep() == {"tokens": 7, "keys": 2, "places": 0, "dead": 0, "settled": 0, "inbox": 0, "work": 0}
    later = Housekeeper(store, KeepSettings(portion=1), clock=lambda: NOW + 90 * DAY + 1)
    assert await later.sweep() == {"tokens": 0, "keys": 0, "places": 0, "dead": 2, "settled": 2, "inbox": 0, "work": 0}
    assert len(await store.unposted(10)) == 2
    rounds = Rounds(1)
    with pytest.raises(Enough):
        await later.run(rounds.pause)
    assert rounds.pauses == [3600.0]
