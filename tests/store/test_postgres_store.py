"""What is the PostgreSQL store's own: several servers, locks, connections that break, and how turns are numbered."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost, StoreRefused
from leaseway_server.core.events import Cancel, Claim, Progress, Result
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.model import START, Item, NewItem
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.postgres import database as database_module
from leaseway_server.store.postgres import locks as locks_module
from leaseway_server.store.postgres import numbers
from leaseway_server.store.postgres import store as store_module
from leaseway_server.store.postgres.address import Address
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.neighbours import PostgresRegistry
from leaseway_server.store.postgres.store import PostgresStore
from support.model import NOW, POLICY
from support.postgres import Postgres, fresh_database, own_postgres
from support.postgres_refusal import refusal
from support.stored import changed, loaded, posted, rows_of
from support.stores import TestedPostgresStore, forget
from support.swallowing import way_to_database

Server: TypeAlias = Callable[[], Awaitable[TestedPostgresStore]]


@pytest.fixture
async def url(postgres: Postgres) -> AsyncIterator[str]:
    """A database of the test's own."""
    async with fresh_database(postgres) as url:
        yield url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """It, opened."""
    async with await Database.open(url) as database:
        yield database


@pytest.fixture
async def server(database: Database) -> AsyncIterator[Server]:
    """Another server of the same queue, each time; its clock stands at `NOW`."""
    async with AsyncExitStack() as stack:

        async def start() -> TestedPostgresStore:
            store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
            stack.push_async_callback(store.close)
            return store

        yield start


@pytest.fixture
async def store(server: Server) -> TestedPostgresStore:
    """One server."""
    return await server()


async def ask(database: Database, query: str, *arguments: object) -> object:
    """One value of the database."""
    async with database.transaction() as connection:
        return await connection.fetchval(query, *arguments)


def claimed(items: dict[int, Item], holder: int = 2) -> list[tuple[Item, Item]]:
    """The changes that these claims are."""
    after = [(item, apply(item, Claim(holder, "box", "w"), NOW, POLICY)) for item in items.values()]
    return [(before, item) for before, item in after if isinstance(item, Item)]


# ── Several servers at once ─────────────────────────────────────────────────────────────────────────────────────


async def test_eight_servers_claim_ten_thousand_items_none_twice_and_none_is_left(server: Server) -> None:
    stores = [await server() for _ in range(8)]
    for _ in range(10):
        await posted(stores[0], *[NewItem("1")] * 1_000)

    async def claim_all(store: PostgresStore) -> list[int]:
        had: list[int] = []
        while True:
            async with store.turn(durable=True) as turn:
                items = await turn.take(await turn.pick(START, 37, (), taking=True))
                if not items:
                    return had
                await turn.save(claimed(items))
                await turn.commit()
            had += items

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(claim_all(store)) for store in stores]
    had = [seq for task in tasks for seq in task.result()]
    assert len(had) == len(set(had)) == 10_000
    assert all(task.result() for task in tasks), "they were at it together"
    assert {row[1:] for row in await rows_of(stores[0], "item", "seq, status, attempts")} == {("processing", 1)}
    async with stores[0].turn(durable=True) as turn:
        assert await turn.pick(START, 1, ()) == []


async def test_what_another_server_has_is_left_out_or_missed(server: Server) -> None:
    one, other = await server(), await server()
    first, second, third = await posted(one, *[NewItem("1")] * 3)
    async with one.turn(durable=True) as mine, other.turn(durable=True) as theirs:
        seen = await theirs.pick(START, 9, ())
        await mine.take(await mine.pick(START, 1, (), taking=True))
        assert [each.seq for each in await theirs.pick(START, 1, (), taking=True)] == [second.seq]
        assert list(await theirs.take(seen)) == [second.seq, third.seq]
        assert theirs.missed == [first.id]
    await changed(one, third, Cancel())
    async with other.turn(durable=True) as theirs:
        assert list(await theirs.take([each for each in seen if each.seq == third.seq])) == []
        assert theirs.missed == [third.id], "it is ready no more"


async def test_sweeps_leave_to_others_what_they_are_at(server: Server) -> None:
    one, other = await server(), await server()
    await posted(
        one, NewItem("1", delay_ms=1), NewItem("2", delay_ms=2), NewItem("3", ttl_ms=1), NewItem("4", ttl_ms=2)
    )
    async with one.turn(durable=True) as mine, other.turn(durable=True) as theirs:
        assert len(await mine.come_due(NOW + 9, 1)) == len(await mine.outlived(NOW + 9, 1)) == 1
        assert len(await theirs.come_due(NOW + 9, 9)) == len(await theirs.outlived(NOW + 9, 9)) == 1
    ended = [
        await changed(one, item, Cancel()) for item in await posted(one, NewItem("1", key="k"), NewItem("2", key="l"))
    ]
    async with one.turn(durable=True) as mine, other.turn(durable=True) as theirs:
        assert len(await mine.past_keys(NOW, 1)) == 1
        assert len(await theirs.past_keys(NOW, 9)) == 1
        await theirs.stamp([(each.id, each.rev) for each in ended])
        await theirs.time()
        await theirs.commit()
    assert sorted([(await loaded(one, each.id)).fetched_at for each in ended]) == [0, NOW], "one is kept for longer"


@pytest.mark.parametrize("locks", [locks_module.KEY_LOCKS, 1])
async def test_the_database_decides_who_posts_a_key_first(
    server: Server, locks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks_module, "KEY_LOCKS", locks)
    stores = [await server() for _ in range(4)]
    keys = [f"k{n}" for n in range(5)]

    async def post(store: PostgresStore) -> int:
        """Posts those of the keys that nobody has."""
        async with store.turn(durable=True) as turn:
            held = {item.key for item in await turn.key_holders([("", key) for key in reversed(keys)])}
            new = [NewItem("1", key=key) for key in keys if key not in held]
            ids = await turn.new_ids(len(new))
            await turn.insert(
                [create(n, item_id, seq, NOW, POLICY) for n, (seq, item_id) in zip(new, ids, strict=True)]
            )
            await turn.commit()
        return len(new)

    assert sorted(await asyncio.gather(*map(post, stores))) == [0, 0, 0, 5]
    assert len(await rows_of(stores[0], "item")) == 5


async def test_a_deadlock_is_told_and_what_was_in_it_may_be_done_again(server: Server) -> None:
    one, other = await server(), await server()
    first, second = await posted(one, NewItem("1"), NewItem("2"))

    async def lock_both(
        store: PostgresStore, here: Item, there: Item, mine: asyncio.Event, theirs: asyncio.Event
    ) -> str:
        try:
            async with store.turn(durable=True) as turn:
                await turn.load([here.id])
                mine.set()
                await theirs.wait()
                await turn.load([there.id])
        except StoreBusy as busy:
            return str(busy)
        return ""

    events = asyncio.Event(), asyncio.Event()
    done = await asyncio.gather(
        lock_both(one, first, second, *events), lock_both(other, second, first, *reversed(events))
    )
    assert sorted(done) == ["", "deadlock detected"]
    assert (await changed(one if done[0] else other, first, Cancel())).status == "cancelled"


async def test_a_lock_that_is_not_had_in_time_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaseway_server.store.postgres.database._SETTINGS", {"lock_timeout": "20ms"})
    async with await Database.open(url) as database:
        one, other = [await TestedPostgresStore.enter(database, "queue", lambda: NOW) for _ in range(2)]
        (item,) = await posted(one, NewItem("1"))
        async with one.turn(durable=True) as turn:
            await turn.load([item.id])
            with pytest.raises(StoreBusy, match="lock timeout"):
                await loaded(other, item.id)
        assert await loaded(other, item.id) == item
        for store in (one, other):
            await store.close()


async def test_counts_are_those_of_all_servers_also_of_such_as_are_gone(server: Server, database: Database) -> None:
    for number in (3, -1, 5):
        store = await server()
        async with store.turn(durable=True) as turn:
            await turn.count({"pending": number, "dead": 1})
            await turn.commit()
        if number != 5:
            await forget(database, store.epoch)
    assert {status: n for status, n in (await store.counts()).items() if n} == {"pending": 7, "dead": 3}
    assert await ask(database, "SELECT count(*) FROM leaseway.share") == 2


async def test_leases_of_other_servers_are_theirs_while_these_live(server: Server, database: Database) -> None:
    one, other = await server(), await server()
    items = await posted(one, *[NewItem("1")] * 4)
    holders = [one.epoch << 32 | 1, other.epoch << 32 | 1, 1, 0]
    for item, holder in zip(items, holders, strict=True):
        await changed(one, item, Claim(holder, "box", "w"))
    assert sorted(item.holder for item in await one.leases()) == sorted([holders[0], 1, 0])
    await ask(database, "UPDATE leaseway.server SET beat_at = beat_at - 4000 WHERE epoch = $1", other.epoch)
    assert sorted(item.holder for item in await one.leases()) == sorted(holders)
    await PostgresRegistry(database, other.epoch, "test", "0").beat()
    assert len(await one.leases()) == 3


async def test_a_pause_is_seen_by_the_next_turn_of_every_server(server: Server) -> None:
    one, other = await server(), await server()
    for on in (True, False):
        async with one.turn(durable=True) as turn:
            await turn.pause(on)
            await turn.commit()
        async with other.turn(durable=True) as turn:
            await turn.time()
            assert turn.paused is on


async def test_members_are_not_indexed_anew_while_others_serve_by_the_old_ones(
    server: Server, database: Database
) -> None:
    one, other = await server(), await server()
    await posted(one, NewItem('{"a":1}'))
    assert await one.matched() == ()
    assert await other.matched() == ()
    with pytest.raises(StoreRefused, match="another server serves this queue with another `match`"):
        await one.rematch(("a",))
    await ask(database, "UPDATE leaseway.server SET beat_at = 0 WHERE epoch = $1", other.epoch)
    assert await one.rematch(("a",)) == 1
    third = await server()
    assert await third.matched() == ("a",)
    assert await third.rematch(("a",)) == 1, "the same may be done by several"


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_numbers_begin_with_the_clock_and_are_never_lowered(server: Server, database: Database) -> None:
    first = (await posted(await server(), NewItem("1")))[0].seq
    now = await ask(database, "SELECT (extract(epoch FROM now()) * 1000)::bigint")
    assert isinstance(now, int)
    assert 0 <= (now << numbers.A_MS) - first < 60_000 << numbers.A_MS
    assert (await posted(await server(), NewItem("1")))[0].seq == first + 1, "the clock is not clearly ahead"
    await ask(database, "SELECT setval('leaseway.number', $1)", first + (1 << 50))
    assert (await posted(await server(), NewItem("1")))[0].seq == first + (1 << 50) + 1


async def test_numbers_that_the_database_lost_do_not_come_again(server: Server, database: Database) -> None:
    """A standby that was behind took over: who was told of an item that is lost must not find another by its id."""
    store = await server()
    (item,) = await posted(store, NewItem("1"))
    behind = item.seq - 2 * numbers.AHEAD
    await ask(database, "SELECT setval('leaseway.number', $1)", behind)
    (lost,) = await posted(store, NewItem("1"))
    assert lost.seq == behind + 1
    await ask(database, "DELETE FROM leaseway.item WHERE seq = $1", lost.seq)
    await ask(database, "SELECT setval('leaseway.number', $1)", behind)
    assert store._connection is not None
    store._connection.terminate()
    (other,) = await posted(store, NewItem("2"))
    assert other.id != lost.id


async def test_each_queue_has_ids_of_its_own(database: Database) -> None:
    stores = [await PostgresStore.open(database, name, 1) for name in ("one", "other", "one")]
    assert stores[0].ids.id_of(1) == stores[2].ids.id_of(1) != stores[1].ids.id_of(1)
    assert stores[0].queue == stores[2].queue != stores[1].queue
    assert (await stores[1].counts())["pending"] == 0
    async with stores[1].turn(durable=False) as turn:
        assert abs(await turn.time() - NOW) > 1, "without a test's clock it is the database's"
    for store in stores:
        await store.close()


# ── Connections that break ──────────────────────────────────────────────────────────────────────────────────────


async def kill(database: Database, store: PostgresStore) -> None:
    """The connection of its turns is cut by the database."""
    assert store._connection is not None
    await ask(database, f"SELECT pg_terminate_backend({store._connection.get_server_pid()})")


async def test_a_connection_that_breaks_in_a_turn_undoes_it_and_the_next_turn_has_another(
    store: TestedPostgresStore, database: Database
) -> None:
    (item,) = await posted(store, NewItem("1"))

    async def broken() -> None:
        async with store.turn(durable=True) as turn:
            await turn.save([(item, replace(item, rank=5))])
            await kill(database, store)
            await turn.load([item.id])

    with pytest.raises(StoreAway) as away:
        await broken()
    assert not away.value.unknown
    assert await loaded(store, item.id) == item


Ask: TypeAlias = Callable[[PostgresStore, Database], Awaitable[object]]


async def ask_in_a_turn(store: PostgresStore, _database: Database) -> None:
    """By the connection of the turns."""
    async with store.turn(durable=True) as turn:
        await turn.time()


async def ask_between_turns(store: PostgresStore, _database: Database) -> None:
    """By the same one."""
    await store.counts()


async def ask_beside(_store: PostgresStore, database: Database) -> None:
    """By one of the pool."""
    await ask(database, "SELECT 1")


@pytest.mark.protocol("7.21")
@pytest.mark.parametrize("asks", [ask_in_a_turn, ask_between_turns, ask_beside])
async def test_a_connection_that_swallows_all_is_given_up_for_another(
    url: str, monkeypatch: pytest.MonkeyPatch, asks: Ask
) -> None:
    """As where a firewall has forgotten it: nothing ends, nothing comes, and another one would do."""
    monkeypatch.setattr(database_module, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(database_module, "TURN_SECONDS", 0.3)
    async with way_to_database(url) as way, await Database.open(way.url) as database:
        store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
        await asks(store, database)
        way.swallow()
        with pytest.raises(StoreAway):
            await asks(store, database)
        await asks(store, database)
        await PostgresStore.close(store)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_commit_whose_answer_was_lost_is_resolved_by_its_number(
    store: TestedPostgresStore, database: Database, kept: bool
) -> None:
    (item,) = await posted(store, NewItem("1"))

    async def broken() -> None:
        async with store.turn(durable=True) as turn:
            await turn.save([(item, replace(item, rank=5))])
            execute = turn._execute

            async def commit(query: str) -> str:
                if kept:
                    await execute(query)
                    raise ConnectionResetError("it broke")
                await kill(database, store)
                return await execute(query)

            turn._execute = commit  # type: ignore[assignment]
            await turn.commit()

    with pytest.raises(StoreAway) as away:
        await broken()
    assert away.value.unknown
    assert await store.committed() is kept
    assert (await loaded(store, item.id)).rank == (5 if kept else 0)
    await changed(store, item, Cancel())
    assert store.numbering.turn == (3 if kept else 2)


async def test_it_is_not_told_what_became_of_a_turn_before_that_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leaseway_server.store.postgres.database._SETTINGS", {"lock_timeout": "20ms"})
    async with await Database.open(url) as database:
        store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
        old = await database.connect()
        await old.execute("BEGIN; UPDATE leaseway.share SET turn = turn + 1")
        with pytest.raises(StoreAway) as away:
            await store.committed()
        assert away.value.unknown
        await old.execute("COMMIT")
        assert await store.committed()
        await old.close()
        await store.close()


async def test_a_server_that_the_database_forgot_cannot_know(store: TestedPostgresStore, database: Database) -> None:
    await forget(database, store.epoch)
    with pytest.raises(StoreLost, match="forgotten"):
        await store.committed()


async def test_a_turn_that_wrote_nothing_is_never_unknown(store: TestedPostgresStore, database: Database) -> None:
    async def broken() -> None:
        async with store.turn(durable=True) as turn:
            await turn.time()
            await kill(database, store)
            await turn.commit()

    with pytest.raises(StoreAway) as away:
        await broken()
    assert not away.value.unknown


async def test_a_connection_on_which_a_turn_cannot_be_undone_is_given_up(
    store: TestedPostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item,) = await posted(store, NewItem("1"))
    assert store._connection is not None
    before = store._connection

    async def no_answer(*_arguments: object, **_named: object) -> None:
        raise TimeoutError

    async with store.turn(durable=True) as turn:
        await turn.save([(item, replace(item, rank=5))])
        monkeypatch.setattr(type(before), "execute", no_answer)
    monkeypatch.undo()
    assert before.is_closed()
    assert await loaded(store, item.id) == item


# ── Without space ───────────────────────────────────────────────────────────────────────────────────────────────


CANCELED = "DO $$ BEGIN RAISE 'canceled, says the test' USING ERRCODE = '57014'; END $$"
"""What is canceled, as far as who asks can tell."""


async def cancel_turn(store: PostgresStore, _database: Database) -> None:
    """In a turn."""
    async with store.turn(durable=True):
        assert store._connection is not None
        await store._connection.execute(CANCELED)


async def cancel_question(store: PostgresStore, _database: Database) -> None:
    """Between two turns."""
    await store.ask(CANCELED)


async def cancel_beside(_store: PostgresStore, database: Database) -> None:
    """On a connection of the pool."""
    async with database.transaction() as connection:
        await connection.execute(CANCELED)


@pytest.mark.parametrize("cancel", [cancel_turn, cancel_question, cancel_beside])
async def test_a_connection_on_which_anything_was_canceled_is_not_believed_any_more(
    store: TestedPostgresStore, database: Database, cancel: Callable[[PostgresStore, Database], Awaitable[None]]
) -> None:
    """A late cancel has each answer taken for that of the next question."""
    (item,) = await posted(store, NewItem("1"))

    async def sessions() -> tuple[object, object]:
        """Those of the turns and of what is beside them."""
        [(turns,)] = await store.ask("SELECT pg_backend_pid()")
        return turns, await ask(database, "SELECT pg_backend_pid()")

    before = await sessions()
    with pytest.raises(StoreAway, match="canceled"):
        await cancel(store, database)
    assert await loaded(store, item.id) == item
    changed = [one != other for one, other in zip(before, await sessions(), strict=True)]
    assert changed == ([False, True] if cancel is cancel_beside else [True, False])


async def test_a_commit_that_was_canceled_may_be_that_of_the_statement_before_and_is_in_doubt(
    store: TestedPostgresStore, database: Database
) -> None:
    async with database.transaction() as connection:
        await connection.execute(
            "CREATE FUNCTION pg_temp.cancel() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'canceled, says the test' USING ERRCODE = '57014'; END $$;"
            "CREATE CONSTRAINT TRIGGER cancel AFTER INSERT ON leaseway.item DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION pg_temp.cancel()"
        )
    with pytest.raises(StoreAway, match="canceled") as away:
        await posted(store, NewItem("1"))
    assert away.value.unknown
    assert not await store.committed()


@pytest.mark.protocol("7.20")
async def test_who_may_only_read_is_as_without_space_and_is_left_for_another(url: str, postgres: Postgres) -> None:
    """A pooler may lead to a standby for a while: connections that stayed there would never be of use."""
    name = url.rpartition("/")[2]
    async with await Database.open(url) as database, AsyncExitStack() as stack:
        store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
        stack.push_async_callback(PostgresStore.close, store)
        (item,) = await posted(store, NewItem("1"))
        await postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        assert store._connection is not None
        store._connection.terminate()
        await database._pool.expire_connections()
        async with AsyncExitStack() as several:
            for _ in range(2):
                await several.enter_async_context(database.transaction())
        for _ in range(2):
            with pytest.raises(StoreFull, match="read-only"):
                await posted(store, NewItem("2"))
            with pytest.raises(StoreFull, match="read-only"):
                await ask(database, "DELETE FROM leaseway.ticket")
            async with store.turn(durable=False) as turn:
                assert list(await turn.look([item.id])) == [item.id], "reads go on"
        await postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        with pytest.raises(StoreFull, match="read-only"):
            await posted(store, NewItem("2"))
        assert len(await posted(store, NewItem("2"))) == 1
        async with AsyncExitStack() as several:
            for _ in range(2):
                beside = await several.enter_async_context(database.transaction())
                assert await beside.fetchval("SHOW transaction_read_only") == "off"


@pytest.mark.protocol("7.20")
async def test_a_standby_is_asked_nothing_until_it_takes_over() -> None:
    """In a failover a name may lead to one for a while. What it says may be older than what was acknowledged."""
    with own_postgres() as postgres:
        async with fresh_database(postgres) as url, await Database.open(url) as database:
            store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
            (item,) = await posted(store, NewItem("1"))
            await asyncio.to_thread(postgres.stop, "fast")
            await asyncio.to_thread(postgres.start_as_standby)
            assert await refusal(url) == (
                f"the database {database.address} cannot be reached: "
                "it is a standby, which can only be read; name the primary"
            )
            for asks in (store.counts, lambda: loaded(store, item.id), lambda: store.ahead(item.position, 1)):
                with pytest.raises(StoreAway, match="it is a standby"):
                    await asks()
            await asyncio.to_thread(postgres.promote)
            assert await store.ahead(item.position, 1) == 0
            assert len(await posted(store, NewItem("2"))) == 1
            await PostgresStore.close(store)


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[int], None]]:
    """A file system of 32 MiB at the folder; what is given sets another size, in MiB."""
    folder.mkdir()

    def mount(*options: str) -> None:
        ran = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "leaseway", folder], check=False)
        if ran.returncode:
            pytest.skip("no file system can be mounted here")

    mount("size=32m")
    try:
        shutil.chown(folder, "nobody")  # Who may mount is root, and so PostgreSQL is run by nobody.
        yield lambda size: mount("remount", f"size={size}m")
    finally:
        subprocess.run(["umount", folder], check=True)


async def test_without_space_a_turn_is_refused_and_the_next_one_may_pass() -> None:
    with own_postgres() as postgres, small_disk(postgres.folder / "small") as resize:
        await postgres.run(f"CREATE TABLESPACE small LOCATION '{postgres.folder}/small'")
        await postgres.run("CREATE DATABASE small ENCODING 'UTF8' TEMPLATE template0 TABLESPACE small")
        async with await Database.open(postgres.url_of("small")) as database:
            store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
            (item,) = await posted(store, NewItem("1"))
            large = [NewItem('"' + os.urandom(10_000).hex() + '"') for _ in range(200)]

            async def fill() -> None:
                for _ in range(20):
                    await posted(store, *large)

            with pytest.raises(StoreFull, match="No space left on device"):
                await fill()
            assert await loaded(store, item.id) == item, "reads go on"
            resize(256)
            assert len(await posted(store, *large)) == 200
            await store.close()
        await postgres.run("DROP DATABASE small WITH (FORCE)", "DROP TABLESPACE small")


@pytest.mark.protocol("1.45", "7.2")
async def test_what_a_view_shows_survives_a_crash_of_the_database_and_its_numbers_do_not_come_again() -> None:
    """Monitors saw the progress, and are connected all the while: another change must not come under its `rev`."""
    with own_postgres() as postgres:
        await postgres.run("ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
        async with fresh_database(postgres) as url, await Database.open(url) as database:
            store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
            (item,) = await posted(store, NewItem("1"))
            shown = await changed(store, item, Claim(2, "box", "w"))
            shown = await changed(store, shown, Progress('"half"', 2, "box", 1), durable=False)
            async with store.turn(durable=False) as turn:
                await turn.save([(shown, replace(shown, lease_until=shown.lease_until + 1))])  # A renewal.
                await turn.commit()
            numbered = store.numbering.turn
            await asyncio.to_thread(postgres.stop, "immediate")
            await asyncio.to_thread(postgres.start)
            assert not await store.committed()
            found = await loaded(store, item.id)
            assert (found.rev, found.progress) == (shown.rev, '"half"')
            await changed(store, found, Cancel())
            assert store.numbering.turn == numbered + 1
            await store.close()


# ── What a turn writes, and how often it asks ───────────────────────────────────────────────────────────────────


async def test_a_turn_tells_others_what_it_changed_while_there_are_any(
    store: TestedPostgresStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await posted(store, NewItem("1"))
    assert await ask(database, "SELECT count(*) FROM leaseway.change") == 0
    store.numbering.announce = True
    ready, later = await posted(store, NewItem("1"), NewItem("2", delay_ms=5, posted_by="ann"))
    await changed(store, ready, Claim(2, "box", "w"))
    await changed(store, later, Cancel())
    async with store.turn(durable=True) as turn:
        await turn.delete([later])
        await turn.commit()
    async with store.turn(durable=True) as turn:
        await turn.commit()
    store.check()
    async with database.transaction() as connection:
        rows = await connection.fetch("SELECT turn, seqs, ready, ended, posters FROM leaseway.change ORDER BY turn")
    assert [tuple(row) for row in rows] == [
        (2, [ready.seq, later.seq], [ready.seq], [], []),
        (3, [ready.seq], [], [], []),
        (4, [later.seq], [], [later.seq], ["ann"]),
        (5, [later.seq], [], [], []),
    ]
    await store.maintain()
    monkeypatch.setattr(store_module, "CHANGES_MS", -1)
    await store.maintain()
    assert await ask(database, "SELECT count(*) FROM leaseway.change") == 4, "not after each turn"
    store._forget_at = 0
    await store.maintain()
    assert await ask(database, "SELECT count(*) FROM leaseway.change") == 0


@pytest.mark.parametrize("items", [1, 40])
async def test_how_often_a_turn_asks_does_not_grow_with_its_items(store: TestedPostgresStore, items: int) -> None:
    ended = await posted(store, *[NewItem("1", key=f"old{n}") for n in range(items)])
    asked: list[str] = []
    assert store._connection is not None
    store._connection.add_query_logger(lambda record: asked.append(record.query))
    async with store.turn(durable=True) as turn:
        ids = await turn.new_ids(items)
        loaded = await turn.load([item.id for item in ended])
        await turn.time()
        await turn.key_holders([("", f"k{n}") for n in range(items)])
        new = [create(NewItem("1", key=f"k{n}"), item_id, seq, NOW, POLICY) for n, (seq, item_id) in enumerate(ids)]
        candidates = await turn.pick(START, items, [item.seq for item in ended], taking=True)
        assert candidates == []
        changes = []
        for place, item in enumerate(loaded.values()):
            event = Claim(2, "box", "w") if place % 2 else Result("1", None)
            after = apply(item, event, NOW, POLICY)
            assert isinstance(after, Item)
            changes.append((item, after))
        await turn.insert(new)
        await turn.save(changes)
        await turn.count({"pending": 1})
        await turn.commit()
    await store.counts()  # What was asked last is logged, too.
    assert [query.split()[0] for query in asked] == [
        "BEGIN",
        "SELECT",  # numbers
        "SELECT",  # load
        "SELECT",  # time
        "SELECT",  # the keys' locks
        "SELECT",  # their holders
        "WITH",  # pick
        "WITH",  # insert, with bodies
        "UPDATE",
        "INSERT",  # results
        "WITH",  # its number, and what it changed
        "COMMIT",
    ]


async def test_the_columns_are_the_items(database: Database) -> None:
    query = (
        "SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = 'leaseway.item'::regclass AND attnum > 0"
    )
    found = await ask(database, query)
    assert isinstance(found, list)
    assert {name for name in found if not name.startswith("match_")} == {"queue", *COLUMNS}


async def test_a_fault_of_the_data_passes_as_it_is(store: TestedPostgresStore) -> None:
    (item,) = await posted(store, NewItem("1"))

    async def save(faulty: Item) -> None:
        async with store.turn(durable=True) as turn:
            await turn.save([(item, faulty)])

    with pytest.raises(asyncpg.DataError, match="int64"):
        await save(replace(item, due_at=2**63))
    with pytest.raises(asyncpg.CharacterNotInRepertoireError):
        await save(replace(item, worker="\0"))
    assert await loaded(store, item.id) == item


async def test_a_turn_goes_through_a_pooler_of_transactions(url: str) -> None:
    """Nothing is left in the session: no statement that is prepared, and no setting."""
    async with await Database.open(url) as direct:
        database = Database(Address(url), pooled=True)
        await database._pool
        store = await TestedPostgresStore.enter(database, "queue", lambda: NOW)
        (item,) = await posted(store, NewItem("1", key="k"), durable=False)
        await changed(store, item, Result("1", None))
        assert store._connection is not None
        assert await store._connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
        assert await store._connection.fetchval("SHOW lock_timeout") == "0"
        assert [tuple(row) for row in await store.ask("SELECT $1::int", 5)] == [(5,)]
        assert await store._connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        await store.close()
        await database.close()
        assert await ask(direct, "SELECT count(*) FROM leaseway.item") == 1
