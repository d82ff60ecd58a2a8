"""What servers tell each other through a database: who is there, what a turn changed, and hints."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from leaseway_server.core.errors import StoreAway, StoreRefused
from leaseway_server.core.events import Result
from leaseway_server.core.model import NewItem
from leaseway_server.runtime.neighbours import Neighbours
from leaseway_server.runtime.tally import MINUTE_MS, Tally
from leaseway_server.store.postgres import hints as hints_module
from leaseway_server.store.postgres import neighbours, servers
from leaseway_server.store.postgres.database import ANSWER_SECONDS, Database
from leaseway_server.store.postgres.hints import PostgresHints
from leaseway_server.store.postgres.neighbours import PostgresRegistry, PostgresSharedQueue
from leaseway_server.store.postgres.rematch import rematch
from leaseway_server.store.postgres.servers import GONE_MS
from leaseway_server.store.postgres.store import PostgresStore
from support.model import NOW, pending
from support.postgres import Postgres, fresh_database
from support.stored import changed, posted
from support.swallowing import way_to_database

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
Enter = Callable[[], Awaitable[PostgresRegistry]]


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    """A database of the test's own."""
    async with fresh_database(postgres) as url, await Database.open(url) as database:
        yield database


@pytest.fixture
async def enter(database: Database) -> Enter:
    """Another server, each time."""

    async def entered() -> PostgresRegistry:
        return PostgresRegistry(database, await servers.enter(database, "host", "0.1"), "host", "0.1")

    return entered


async def aged(database: Database, epoch: int, ms: int) -> None:
    """This server said its last word so much earlier."""
    async with database.transaction() as connection:
        await connection.execute("UPDATE leaseway.server SET beat_at = beat_at - $2 WHERE epoch = $1", epoch, ms)


async def count(store: PostgresStore, more: int) -> None:
    """A turn after which so many more are pending."""
    async with store.turn(durable=True) as turn:
        await turn.count({"pending": more})
        await turn.commit()


async def test_servers_see_each_other_while_they_say_that_they_live(database: Database, enter: Enter) -> None:
    one, other = await enter(), await enter()
    roll = await one.beat()
    assert (set(roll.alive), roll.newest) == ({other.epoch}, other.epoch)
    assert 0 <= roll.now - roll.alive[other.epoch] < GONE_MS
    await aged(database, other.epoch, GONE_MS)
    assert set((await one.beat()).alive) == set()
    assert set((await other.beat()).alive) == {one.epoch}
    assert set((await one.beat()).alive) == {other.epoch}, "it is back"
    await other.leave()
    assert set((await one.beat()).alive) == set()


async def test_whose_last_word_is_of_later_died_before_the_clock_was_set_back(database: Database, enter: Enter) -> None:
    one, other = await enter(), await enter()
    await aged(database, other.epoch, -GONE_MS - 60_000)
    assert set((await one.beat()).alive) == set()
    await other.beat()
    assert set((await one.beat()).alive) == {other.epoch}


async def test_who_was_forgotten_enters_anew_by_saying_that_it_lives(database: Database, enter: Enter) -> None:
    one, other = await enter(), await enter()
    store = await PostgresStore.open(database, "queue", other.epoch)
    await count(store, 2)
    assert await one.forget() == 0
    await aged(database, other.epoch, neighbours.KEPT_MS)
    assert await one.forget() == 1
    shared = PostgresSharedQueue(store)
    _, shares = await shared.look()
    assert [(share.server, share.counts["pending"]) for share in shares] == [(0, 2)], "what it counted stays"
    await other.beat()
    assert set((await one.beat()).alive) == {other.epoch}
    await shared.show(4, watched=True)
    _, shares = await shared.look()
    assert sorted((each.workers, each.watched) for each in shares) == [(0, False), (4, True)]
    with pytest.raises(StoreRefused, match="with another `match`"):
        await rematch(database, store.queue, one.epoch, ("a",))
    await count(store, 1)
    assert (await store.counts())["pending"] == 3
    await store.close()


async def test_a_turn_is_read_by_others_with_what_it_changed(database: Database, enter: Enter) -> None:
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(2):
            stores.append(await PostgresStore.open(database, "queue", (await enter()).epoch))
            stack.push_async_callback(stores[-1].close)
        one, other = map(PostgresSharedQueue, stores)
        assert one.number == other.number
        one.announce(True)
        (ready,) = await posted(stores[0], NewItem("1"))
        (later,) = await posted(stores[0], NewItem("2", delay_ms=60_000), at=NOW)
        (first, second) = await other.changes({stores[0].epoch: 0})
        assert (first.turn, first.changed, first.ready) == (1, [ready.id], [ready.id])
        assert (second.turn, second.changed, second.ready) == (2, [later.id], [])
        assert await other.changes({stores[0].epoch: 2}) == []
        assert set(await other.rows([ready.id, later.id, "00000000000000a1", "no id"])) == {ready.id, later.id}
        await changed(stores[0], ready, Result("42", None))
        rows = await other.rows([ready.id, later.id])
        assert [rows[item.id].result for item in (ready, later)] == ["42", ""]
        await one.show(3, watched=True)
        await one.count({60_000: (1, 2, 3, 4, 5, 6)})
        await one.count({60_000: (2, 2, 3, 4, 5, 6)})
        paused, shares = await other.look()
        assert (paused, {(share.server, share.workers, share.watched) for share in shares}) == (
            False,
            {(stores[0].epoch, 3, True), (stores[1].epoch, 0, False)},
        )
        assert await other.rates(0) == {60_000: [2, 2, 3, 4, 5, 6]}
        assert await one.rates(0) == {}


async def test_what_happened_is_told_minute_by_minute_and_quiet_ones_end_nothing(
    database: Database, enter: Enter
) -> None:
    """As each second: the newest minute, and the one before."""
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(2):
            stores.append(await PostgresStore.open(database, "queue", (await enter()).epoch))
            stack.push_async_callback(stores[-1].close)
        here = Neighbours(PostgresSharedQueue(stores[0]), stores[0].epoch, lambda _hint: None)
        tally = Tally({})
        tally.take({}, [(None, pending())], NOW)
        for later in range(0, 5 * MINUTE_MS, MINUTE_MS // 2):
            await here.tell(tally.own(NOW + later))
        tally.take({}, [(None, pending())] * 2, NOW + 5 * MINUTE_MS)
        await here.tell(tally.own(NOW + 5 * MINUTE_MS))
        rates = await PostgresSharedQueue(stores[1]).rates(0)
        assert [counts[0] for _, counts in sorted(rates.items())] == [1, 2]


async def test_what_is_asked_through_a_pooler_is_a_transaction(database: Database, enter: Enter) -> None:
    """What was prepared may not be there in the next one."""
    store = await PostgresStore.open(database, "queue", (await enter()).epoch)
    store._database = Database(database.address, pooled=True)
    await PostgresSharedQueue(store).show(4, watched=False)
    _, [share] = await PostgresSharedQueue(store).look()
    assert share.workers == 4
    await store.close()


async def test_hints_are_heard_until_the_connection_breaks(database: Database) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    hints = PostgresHints(database, database)
    assert hints.heard_at_once
    async with hints.listening(heard.put_nowait) as gone:
        for hint in ("7:1:turned", "7:1:watches"):
            await hints.send([hint])
            assert await heard.get() == hint
        async with database.transaction() as connection:
            await connection.execute(CUT)
        await gone
    hints.close()


async def test_hints_are_sent_also_where_none_can_be_heard(database: Database) -> None:
    hints = PostgresHints(database, None)
    assert not hints.heard_at_once
    hints.close()
    await hints.send(["7:1:turned"])
    hints.close()


async def test_a_server_whose_word_is_swallowed_says_it_anew_before_long(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others take it for gone by then. With the patience that lists have, it would be so for half a minute."""
    monkeypatch.setattr(servers, "GONE_MS", 300)
    async with (
        fresh_database(postgres) as url,
        way_to_database(url) as way,
        await Database.open(way.url) as database,
        asyncio.timeout(ANSWER_SECONDS / 2),
    ):
        registry = PostgresRegistry(database, await servers.enter(database, "host", "0.1"), "host", "0.1")
        for say in (registry.beat, registry.leave):
            await say()
            way.swallow()
            with pytest.raises(StoreAway):
                await say()
            await say()


async def test_hints_that_are_swallowed_are_given_up_for_another_connection(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_module, "ASKED_SECONDS", 0.1)
    monkeypatch.setattr(hints_module, "ANSWER_SECONDS", 0.3)
    async with (
        fresh_database(postgres) as url,
        way_to_database(url) as way,
        await Database.open(way.url) as database,
        asyncio.timeout(ANSWER_SECONDS / 2),
    ):
        heard: asyncio.Queue[str] = asyncio.Queue()
        hints = PostgresHints(database, database)
        for hint in ("7:1:turned", "7:1:watches"):
            async with hints.listening(heard.put_nowait) as gone:
                await hints.send([hint])
                assert await heard.get() == hint
                way.swallow()
                with pytest.raises(StoreAway):
                    await gone
            with pytest.raises(StoreAway):
                await hints.send([hint])
        hints.close()
