"""What hinders a move, and what goes wrong on the way: it is told, nothing is lost, and the move goes on."""

import asyncio
import random
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreGone, StoreRefused
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import NewItem
from leaseway_server.moving import tables
from leaseway_server.moving.move import Moving
from leaseway_server.moving.side import Side
from leaseway_server.store.moved import Mark
from leaseway_server.store.place import PostgresUrl, SqliteFolder
from leaseway_server.store.postgres import database as postgres_database
from leaseway_server.stores import kind_of
from moving.scene import data_of, mark_of, move, refused, run, served, undo
from support.faulty_side import Count, Killed
from support.model import NOW, POLICY
from support.postgres import Postgres, fresh_database
from support.rehoused import House, content, fill, tokens_of
from support.tokens import TokenFile

# ── What hinders it ──


async def test_neither_end_may_be_served(folder: House, database: House) -> None:
    await fill(folder, random.Random(1))  # noqa: S311
    async with folder.opened("other"):
        assert "other.db is served by another process" in await refused(folder, database)
    async with database.opened("demo"):
        told = await refused(folder, database)
        where = str(database.place).removeprefix("postgresql://")
        assert f"the queue demo of the database {where} is served by a server on " in told
    assert await mark_of(folder, "demo") == ""
    await run(database, "UPDATE leaseway.server SET beat_at = 0")
    await move(folder, database)
    async with database.opened("demo"):
        assert "is served by a server on " in await refused(database, House(SqliteFolder(data_of(folder) / "back")))


async def test_nobody_starts_on_a_file_that_is_being_moved(folder: House, database: House) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    async with kind_of(folder.place).side(make=False) as side:
        await (await side.queue("demo")).look()
        with pytest.raises(StoreRefused, match="is being moved by another process; wait until that is done"):
            async with folder.opened("demo"):
                pass
        assert "is being moved by another process" in await refused(folder, database)


async def test_two_moves_at_once_do_not_meet(folder: House, database: House) -> None:
    """Of one queue into two places, or of two into one: the second to mark it is refused."""
    mark = Mark("leaving", "1", "elsewhere", NOW)
    await fill(database, random.Random(1), ("demo",))  # noqa: S311
    async with kind_of(database.place).side(make=False) as one, kind_of(database.place).side(make=False) as other:
        first, second = await one.queue("demo"), await other.queue("demo")
        found = await second.look()
        await first.set_mark(None, mark)
        with pytest.raises(StoreRefused, match="is being moved by somebody else at this moment"):
            await second.set_mark(found.mark, replace(mark, id="2"))
        await first.set_mark(mark, None)
        assert found.facts is not None
        with pytest.raises(StoreRefused, match="has items of its own"):
            await second.begin(found.facts, mark)
    for house in (folder, database):
        async with kind_of(house.place).side(make=True) as there:
            await (await there.queue("new")).begin(found.facts, replace(mark, state="filling"))
        async with kind_of(house.place).side(make=True) as there:
            with pytest.raises(StoreRefused, match="is being filled from elsewhere"):
                await (await there.queue("new")).begin(found.facts, mark)


async def test_a_server_that_stood_still_writes_nothing_once_the_queue_has_left(
    folder: House, database: House, tmp_path: Path
) -> None:
    await fill(database, random.Random(1))  # noqa: S311
    async with database.opened("demo") as store:
        await run(database, "UPDATE leaseway.server SET beat_at = 0")
        await move(database, folder)
        with pytest.raises(StoreGone, match="was moved to another store"):
            async with store.turn(durable=True) as turn:
                await turn.time()


async def test_a_turn_that_stood_still_since_before_the_move_is_waited_for(
    folder: House, database: House, tmp_path: Path
) -> None:
    """Its server may go on at any moment, and tell a producer that the item is there."""
    await fill(database, random.Random(1))  # noqa: S311
    async with database.opened("demo") as store, store.turn(durable=True) as turn:
        await turn.time()
        await run(database, "UPDATE leaseway.server SET beat_at = 0")
        moving = asyncio.create_task(move(database, folder))
        async with kind_of(database.place).side(make=False) as side:
            while not moving.done() and not await _waits(side):
                pass
        [(seq, item_id)] = await turn.new_ids(1)
        await turn.insert([create(NewItem("1"), item_id, seq, NOW, POLICY)])
        await turn.commit()
        await moving
    async with folder.opened("demo") as store, store.turn(durable=False) as turn:
        assert list(await turn.look([item_id])) == [item_id]


async def _waits(side: Side) -> bool:
    """Whether anybody waits for a lock there."""
    async with side._database.transaction() as connection:  # type: ignore[attr-defined]
        waits = "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database WHERE NOT granted AND datname = $1"
        return bool(await connection.fetchval(waits, await connection.fetchval("SELECT current_database()")))


async def test_a_target_that_holds_something_is_left_alone(folder: House, database: House, tmp_path: Path) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    await fill(database, random.Random(2), ("demo",))  # noqa: S311
    before = await content(database, "demo")
    assert "has items of its own; move to a place that has none" in await refused(folder, database)
    assert await content(database, "demo") == before
    another = House(SqliteFolder(tmp_path / "another"))
    await fill(another, random.Random(3), ("demo",))  # noqa: S311
    await move(database, House(SqliteFolder(tmp_path / "free")))
    assert "was moved to sqlite:" in await refused(another, database)
    assert "was moved to sqlite:" in await refused(database, another)


async def test_an_empty_queue_at_the_target_is_taken_over(folder: House, database: House) -> None:
    """As one that a server made which was started there to try it."""
    async with database.opened("demo"):
        pass
    await run(database, "UPDATE leaseway.server SET beat_at = 0")
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    before = await content(folder, "demo")
    await move(folder, database)
    assert await content(database, "demo") == before


async def test_what_is_half_filled_is_finished_by_its_own_source_only(
    folder: House, database: House, tmp_path: Path
) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    another = House(SqliteFolder(tmp_path / "another"))
    await fill(another, random.Random(2), ("demo",))  # noqa: S311
    with pytest.raises(Killed):
        await move(folder, database, count=Count("last"))
    assert "is being filled from sqlite:" in await refused(another, database)
    assert "is being filled from sqlite:" in await refused(database, House(SqliteFolder(tmp_path / "third")))
    with pytest.raises(StoreRefused, match="does not come from"):
        await undo(another, database)
    await undo(folder, database)
    await move(another, database)


async def test_a_move_under_way_leads_to_one_place(
    folder: House, database: House, postgres: Postgres, tmp_path: Path
) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    with pytest.raises(Killed):
        await move(folder, database, count=Count("begin"))
    async with fresh_database(postgres) as url:
        assert "demo.db is being moved to postgresql://" in await refused(folder, House(PostgresUrl(url)))
        await move(folder, database)
        assert "demo.db was moved to postgresql://" in await refused(folder, House(PostgresUrl(url)))
    await run(database, "DELETE FROM leaseway.queue")
    assert "demo.db was moved to postgresql://" in await refused(folder, database)


async def test_queues_are_named_as_they_are(folder: House, database: House, tmp_path: Path) -> None:
    await fill(folder, random.Random(1))  # noqa: S311
    told = await refused(folder, database, names={"demo", "prints"})
    assert told.startswith("there is no queue prints in sqlite:")
    assert told.endswith("; there are demo, other")
    nothing = House(SqliteFolder(tmp_path / "nothing"))
    assert f"there is no store of Leaseway in sqlite:{tmp_path / 'nothing'}" in await refused(nothing, database)
    assert "there is no store of Leaseway in postgresql://" in await refused(database, nothing)


async def test_files_that_are_not_fit_are_refused(folder: House, database: House, tmp_path: Path) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    path, lock = tmp_path / "store/demo.db", tmp_path / "store/demo.lock"
    (tmp_path / "store/notes.db").write_text("none of ours")
    lock.write_text("4711")
    assert "demo.db was not stopped cleanly" in await refused(folder, database)
    lock.write_text("stopped")
    version = pragma(path, "user_version")
    pragma(path, f"user_version = {version + 1}")
    assert "demo.db was written by a newer Leaseway" in await refused(folder, database)
    pragma(path, f"user_version = {version - 1}")
    assert "demo.db is an older Leaseway's; start the server of this version once" in await refused(folder, database)
    pragma(path, f"user_version = {version}")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM state")
    assert "demo.db was never served" in await refused(folder, database)
    path.write_bytes(path.read_bytes()[:8192] + b"?" * 8192)
    assert "demo.db " in await refused(folder, database)


def pragma(path: Path, what: str) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int((file.execute(f"PRAGMA {what}").fetchone() or [0])[0])


async def test_a_database_of_another_version_is_refused(folder: House, database: House) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    await run(database, "UPDATE leaseway.version SET number = 99, oldest_reader = 99")
    assert "brought up to date by a newer Leaseway" in await refused(folder, database)
    assert "brought up to date by a newer Leaseway" in await refused(database, folder)


# ── Tokens ──


async def test_tokens_come_along_once_and_are_made_at_the_new_place_only(folder: House, database: House) -> None:
    await fill(folder, random.Random(1))  # noqa: S311
    async with kind_of(folder.place).access(make=False) as tokens:
        made, secret = await tokens.add("carl", None, None, 0, NOW)
    await move(folder, database, {"demo"})
    async with kind_of(folder.place).access(make=False) as tokens:
        assert len(await tokens.all()) == 3, "a queue is served there still"
    await move(folder, database)
    with pytest.raises(StoreRefused, match=r"_access.db was moved to postgresql://.*use the store there"):
        async with kind_of(folder.place).access(make=True):
            pass
    async with kind_of(database.place).access(make=False) as tokens:
        assert await tokens.find(secret, NOW) == made
    await move(database, House(SqliteFolder(data_of(folder) / "back")))
    with pytest.raises(StoreRefused, match="was moved to sqlite:"):
        async with kind_of(database.place).access(make=False):
            pass


async def test_tokens_that_differ_are_left_to_the_operator(folder: House, database: House) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    async with kind_of(database.place).access(make=True) as tokens:
        made, _ = await tokens.add("eve", None, None, 0, NOW)
    told = await refused(folder, database)
    assert f"has {made.id} of eve besides" in told
    assert "it lacks " in told
    assert await mark_of(folder, "demo") == ""
    await move(folder, database, tokens="leave")
    assert [row[2] for row in await tokens_of(database)] == ["eve"]
    await undo(folder, database)
    await move(folder, database, tokens="add")
    assert {row[2] for row in await tokens_of(database)} == {"ann", "böb", "eve"}


async def test_a_token_that_is_made_on_the_way_is_not_lost(folder: House, database: House) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    made: list[str] = []

    async with kind_of(folder.place).side(make=False) as there, kind_of(database.place).side(make=True) as here:

        def at_work(*_said: object) -> None:
            if not made:
                with TokenFile(data_of(folder)) as tokens:
                    made.append(tokens.add("late", None, None, 0, NOW)[0].id)

        with pytest.raises(StoreRefused, match=r"tokens in sqlite:.* were changed while it was moved; move once more"):
            await Moving(there, here, at_work).run(None, "same")
    await move(folder, database, tokens="add")
    assert made[0] in {row[1] for row in await tokens_of(database)}


# ── What goes wrong on the way ──


async def test_a_full_disk_is_told_and_the_move_goes_on_when_there_is_room(
    folder: House, database: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SLICE_ROWS", 5)
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    before = await content(folder, "demo")
    await move(folder, database)
    back = House(SqliteFolder(tmp_path / "back"))
    with small_files(1024 * 1024 + 100_000):
        assert "back/demo.db cannot be used: " in await refused(database, back)
    assert await served(back, "demo") == "filling"
    await move(database, back)
    assert await content(back, "demo") == before


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """No file of this process gets larger than this: a write past it fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


async def test_a_database_that_cannot_be_written_is_told(
    folder: House, database: House, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is full, or a standby; or where somebody holds what a move needs."""
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    name = database.place.url.rpartition("/")[2]  # type: ignore[union-attr]
    await postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert " is read-only: it is a standby, or default_transaction_read_only is on" in await refused(folder, database)
    await postgres.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    monkeypatch.setitem(postgres_database._SETTINGS, "lock_timeout", "20ms")
    async with (
        kind_of(database.place).side(make=False) as other,
        other._database.transaction() as holding,  # type: ignore[attr-defined]
    ):
        await holding.execute("LOCK TABLE leaseway.queue IN ACCESS EXCLUSIVE MODE")
        assert " is in use by somebody who does not let go: " in await refused(folder, database)
    await move(folder, database)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
async def test_a_connection_that_breaks_is_told_and_the_move_goes_on(
    folder: House, database: House, tmp_path: Path, back: bool
) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    before = await content(folder, "demo")
    source, target = folder, database
    if back:
        await move(folder, database)
        source, target = database, House(SqliteFolder(tmp_path / "back"))
    told = 0

    async with kind_of(source.place).side(make=False) as there, kind_of(target.place).side(make=True) as here:
        ends = {"there": there, "here": here}
        pooled = ends["there" if back else "here"]._database  # type: ignore[attr-defined]

        def break_once(*_said: object) -> None:
            nonlocal told
            told += 1
            if told == 3:
                pooled._pool.terminate()

        with pytest.raises(StoreRefused, match="cannot be reached any more"):
            await Moving(there, here, break_once).run(None, "same")
    await move(source, target)
    assert await content(target, "demo") == before


async def test_what_the_database_does_not_take_is_told(folder: House, database: House, tmp_path: Path) -> None:
    """Nobody could post such a key."""
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    with closing(sqlite3.connect(tmp_path / "store/demo.db")) as file, file:
        file.execute("UPDATE item SET key = 'a' || char(0) WHERE seq = (SELECT max(seq) FROM item)")
    assert "does not take what it was given: " in await refused(folder, database)
