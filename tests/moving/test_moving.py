"""Whole stores are moved from one kind to the other and back, interrupted at each step, and taken back."""

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.moving.side import Facts
from leaseway_server.moving.undo import forget
from leaseway_server.store.moved import Mark
from leaseway_server.store.place import PostgresUrl, SqliteFolder
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.locks import lock_numbers
from leaseway_server.store.postgres.numbers import AHEAD
from leaseway_server.stores import kind_of
from moving.scene import QUEUES, contents, data_of, mark_of, move, refused, run, served, undo
from support.faulty_side import Count, Killed
from support.model import NOW
from support.postgres import Postgres, fresh_database
from support.rehoused import House, content, fill

# ── There and back ──


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("seed", range(3))
async def test_a_store_is_the_same_there_and_when_it_is_back(
    folder: House, database: House, tmp_path: Path, seed: int
) -> None:
    await fill(folder, random.Random(seed))  # noqa: S311
    before = await contents(folder)
    moved = await move(folder, database)
    assert (set(moved.contents), moved.tokens) == (set(QUEUES), 2)
    assert {name: each.rows["item"] for name, each in moved.contents.items()} == dict.fromkeys(QUEUES, 40)
    assert await contents(database) == before
    back = House(SqliteFolder(tmp_path / "back"))
    again = await move(database, back)
    assert {name: each.digest for name, each in again.contents.items()} == {
        name: each.digest for name, each in moved.contents.items()
    }
    assert await contents(back) == before


async def test_ids_and_sockets_are_never_given_out_twice(folder: House, database: House, tmp_path: Path) -> None:
    """Nor is a lease one of a server that starts where it was moved to, or that runs there for other queues."""
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    with closing(sqlite3.connect(tmp_path / "store/demo.db")) as file, file:
        file.execute("UPDATE item SET holder = 1 << 32 | seq & 4294967295 WHERE status = 'processing' AND holder > 1")
        file.execute("UPDATE state SET next_seq = 9000000000000000")  # Far in the future, as after a clock gone wrong.
    async with database.opened("else") as elsewhere:
        await move(folder, database)
        async with database.opened("demo") as store, store.turn(durable=True) as turn:
            assert min(await turn.new_ids(9))[0] >= 9_000_000_000_000_000
            leases = await store.leases()
            epochs = {lease.holder >> 32 for lease in leases} - {0}
            assert len(leases) > 5
            assert len(epochs) == 1
            assert epochs.isdisjoint({elsewhere.epoch, store.epoch})
            assert max(epochs) < store.epoch
    back = House(SqliteFolder(tmp_path / "back"))
    await move(database, back, {"demo"})
    async with back.opened("demo") as store, store.turn(durable=True) as turn:
        assert min(await turn.new_ids(9))[0] >= 9_000_000_000_000_000
        assert max(lease.holder >> 32 for lease in await store.leases()) < store.epoch


async def test_row_numbers_are_skipped_one_by_one_where_the_database_is_close(
    folder: House, database: House, tmp_path: Path
) -> None:
    async with database.opened("else") as store, store.turn(durable=True) as turn:
        [(last, _)] = await turn.new_ids(1)
    await fill(folder, random.Random(1), ("demo",), 1)  # noqa: S311
    with closing(sqlite3.connect(tmp_path / "store/demo.db")) as file, file:
        file.execute("UPDATE state SET next_seq = ?", (last + 1_000,))
    await move(folder, database)
    async with database.opened("demo") as store, store.turn(durable=True) as turn:
        [(first, _)] = await turn.new_ids(1)
    assert last + 1_000 <= first < last + 10**9


async def test_numbers_that_a_server_raises_meanwhile_are_not_lowered_by_a_move(database: House) -> None:
    """It is about to raise them for its next post when the move begins, to more than the queue that comes has had."""
    assert isinstance(database.place, PostgresUrl)
    facts = Facts(bytes(16), paused=False, match="[]", numbers=4 * AHEAD)
    async with await Database.open(database.place.url) as server, kind_of(database.place).side(make=True) as side:
        queue = await side.queue("demo")
        async with server.transaction() as connection:
            await lock_numbers(connection)
            begins = asyncio.create_task(queue.begin(facts, Mark("filling", "1", "elsewhere", NOW)))
            while not begins.done() and not await connection.fetchval(
                "SELECT count(*) FROM pg_locks WHERE NOT granted"
            ):
                pass
            assert not begins.done()
            await connection.fetchval("SELECT setval('leaseway.number', $1)", 9 * AHEAD)
        await begins
        async with server.transaction() as connection:
            assert await connection.fetchval("SELECT last_value FROM leaseway.number") == 9 * AHEAD


# ── Interrupted ──

STEPS = (
    ("queues", 1), ("look", 1), ("tokens", 1), ("set_mark", 1), ("begin", 1), ("begin", 2), ("counts", 1), ("last", 1),
    ("read", 1), ("write", 1), ("write", 4), ("write", 9), ("add_tokens", 1), ("set_mark", 1), ("end", 1), ("end", 2),
    ("mark_tokens", 1),
)  # fmt: skip
"""Each kind of step of a move, in an order in which each run goes further than the one before."""


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
async def test_a_move_that_ends_at_any_step_goes_on(
    folder: House, postgres: Postgres, tmp_path: Path, back: bool
) -> None:
    """Each run ends before the next step; all of them lead to the end, and no server is let in before."""
    async with fresh_database(postgres) as url, fresh_database(postgres) as other:
        await fill(folder, random.Random(7), items=10)  # noqa: S311
        source, target = folder, House(PostgresUrl(url))
        before = await contents(folder)
        if back:
            await move(folder, House(PostgresUrl(other)))
            source, target = House(PostgresUrl(other)), House(SqliteFolder(tmp_path / "back"))
        resumed = 0
        for verb, nth in STEPS:
            with pytest.raises(Killed):
                await move(source, target, count=Count(verb, nth))
            if verb in ("set_mark", "begin", "end", "mark_tokens"):  # Between them the marks are as they were.
                resumed += await nobody_is_let_in(source, target)
        moved = await move(source, target)
        assert resumed == 3
        assert {*moved.already, *moved.contents} == set(QUEUES)
        assert await contents(target) == before
        assert await served(source, "demo") == "left"
        with pytest.raises(StoreRefused, match="was moved to"):
            async with kind_of(source.place).access(make=False):
                pass


async def nobody_is_let_in(source: House, target: House) -> bool:
    """Whether the queue is on its way: then neither end may be served; else one of them may."""
    states = [await mark_of(house, "demo") for house in (source, target)]
    states[0] = states[0].replace("filled", "")  # By the move before, and nobody served it since.
    assert states in [["", ""], ["leaving", ""], ["leaving", "filling"], ["left", "filling"], ["left", "filled"]]
    for house, state in zip((source, target), states, strict=True):
        if state in ("leaving", "left", "filling"):
            assert await served(house, "demo") == state
    return "leaving" in states


async def test_what_was_moved_is_told_when_it_is_moved_once_more(folder: House, database: House) -> None:
    await fill(folder, random.Random(1))  # noqa: S311
    await move(folder, database, {"demo"})
    moved = await move(folder, database)
    assert (moved.already, set(moved.contents)) == (["demo"], {"other"})
    async with database.opened("demo"):
        pass
    assert (await move(folder, database)).already == ["demo", "other"]


CHANGES = {
    "a time": "UPDATE leaseway.item SET due_at = due_at + 1 WHERE seq = (SELECT max(seq) FROM leaseway.item)",
    "a body": "UPDATE leaseway.body SET value = '1' WHERE seq = (SELECT max(seq) FROM leaseway.body)",
    "a row less": "DELETE FROM leaseway.attempt WHERE seq = (SELECT min(seq) FROM leaseway.attempt)",
    "a socket": "UPDATE leaseway.item SET holder = holder + 1 WHERE holder > 1",
    "the pause": "UPDATE leaseway.queue SET paused = NOT paused",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_was_changed_on_the_way_is_found(folder: House, database: House, change: str) -> None:
    await fill(folder, random.Random(1), ("demo",))  # noqa: S311
    with pytest.raises(Killed):
        await move(folder, database, count=Count("end"))
    await run(database, change)
    assert "does not hold what" in await refused(folder, database)
    assert await undo(folder, database) == ["demo"]
    await move(folder, database)


# ── Taken back ──


ENDS = (
    (("set_mark", 2), ("mark_tokens", 1)),
    (("begin", 2), ("set_mark", 1)),
    (("write", 1), ("look", 1)),
    (("write", 6), ("remove", 1)),
    (("add_tokens", 1), ("tokens", 1)),
    (("set_mark", 3), ("remove", 2)),
    (("end", 1), ("set_mark", 5)),
    (("end", 2), ("remove_tokens", 1)),
    (("mark_tokens", 1), ("queues", 2)),
)
"""Where a move ends, and where taking it back: each kind of step of both."""


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
async def test_a_move_is_taken_back_from_any_step(
    folder: House, postgres: Postgres, tmp_path: Path, back: bool
) -> None:
    async with fresh_database(postgres) as url, fresh_database(postgres) as other:
        await fill(folder, random.Random(7), items=8)  # noqa: S311
        source, target = folder, House(PostgresUrl(url))
        if back:
            await move(folder, House(PostgresUrl(other)))
            source, target = House(PostgresUrl(other)), House(SqliteFolder(tmp_path / "back"))
        before, demo = await contents(source), await content(source, "demo")
        for step, step_back in ENDS:
            with pytest.raises(Killed):
                await move(source, target, count=Count(*step))
            with pytest.raises(Killed):
                await undo(source, target, Count(*step_back))
            await undo(source, target)
            assert await content(source, "demo") == demo
            assert await nothing_of_it_is_in(target)
        await move(source, target)
        with pytest.raises(Killed):
            await undo(source, target, Count("set_mark", 6))
        await undo(source, target)
        assert await nothing_of_it_is_in(target)
        assert await undo(source, target) == []
        assert await contents(source) == before


async def nothing_of_it_is_in(house: House) -> bool:
    async with kind_of(house.place).side(make=True) as side:
        return not await side.queues() and not await side.tokens()


async def test_a_move_is_taken_back_with_its_own_ends_only(folder: House, database: House, tmp_path: Path) -> None:
    nowhere = House(SqliteFolder(tmp_path / "nowhere"))
    await fill(database, random.Random(1), ("demo",))  # noqa: S311
    with pytest.raises(Killed):
        await move(database, folder, count=Count("last"))
    with pytest.raises(StoreRefused, match="is being moved to sqlite:"):
        await undo(database, nowhere)
    with pytest.raises(StoreRefused, match="does not come from"):
        await undo(folder, database)
    assert await undo(folder, nowhere) == []
    assert await served(folder, "demo") == "filling"
    await move(database, folder)
    with pytest.raises(StoreRefused, match="was moved to sqlite:"):
        await undo(database, nowhere)
    (data_of(folder) / "demo.db").unlink()
    with pytest.raises(StoreRefused, match="was served, or removed, since it was moved there"):
        await undo(database, folder)
    assert await served(database, "demo") == "left"


async def test_what_was_served_there_is_not_taken_back_but_by_force(folder: House, database: House) -> None:
    await fill(folder, random.Random(1))  # noqa: S311
    before = await contents(folder)
    await move(folder, database)
    async with database.opened("demo"):
        pass
    with pytest.raises(StoreRefused, match="was served, or removed, since it was moved there"):
        await undo(folder, database)
    assert await served(folder, "demo") == "left"
    with pytest.raises(StoreRefused, match="was moved to postgresql://"):
        async with kind_of(folder.place).access(make=False):
            pass
    async with kind_of(folder.place).side(make=False) as side:
        assert await forget(side, None) == ["demo", "other"]
    assert await contents(folder) == before
    assert "has items of its own" in await refused(folder, database)
