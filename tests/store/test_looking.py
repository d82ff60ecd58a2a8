"""Lists and what stands ahead, read beside the turns: the SQLite store held against the dictionary store."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from leaseway_server.core.errors import StoreLost
from leaseway_server.core.ids import KEY_BYTES, IdPermutation
from leaseway_server.core.lifecycle import create
from leaseway_server.core.listing import LABELS, STATUSES, Filter
from leaseway_server.core.model import Item, NewItem, Status
from leaseway_server.store import bounds
from leaseway_server.store.base import Store
from leaseway_server.store.sqlite import looking
from leaseway_server.store.sqlite.store import SqliteStore
from support.memory_store import Disk, MemoryStore
from support.model import NOW, POLICY

LATER: Final = NOW + 1_000


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
    yield store
    await store.close()


async def fill(store: Store, items: list[Item]) -> list[str]:
    """Inserts copies of the items with ids of the store's own; gives those."""
    async with store.turn(durable=False) as turn:
        ids = await turn.new_ids(len(items))
        await turn.insert([replace(item, seq=seq, id=item_id) for item, (seq, item_id) in zip(items, ids, strict=True)])
        await turn.commit()
    return [item_id for _, item_id in ids]


def item(status: Status = "pending", **changes: Any) -> Item:
    ended = status not in ("pending", "processing")
    made = replace(create(NewItem("1"), "0" * 16, 0, NOW, POLICY), status=status, finished_at=NOW if ended else 0)
    made = replace(made, ready=int(status == "pending"), result='{"r":1}' if status == "finished" else "")
    return replace(made, **changes)


def one_of_each() -> Iterator[Item]:
    """Every status and label, of two posters and of nobody, with two keys and without."""
    for poster, key in product(("", "ann", "bob"), ("", "k", "K")):
        for status in sorted(STATUSES):
            yield item(status, posted_by=poster, key=key)
        for attempts, due_at in ((0, LATER), (2, LATER), (2, NOW)):
            yield item(posted_by=poster, key=key, attempts=attempts, due_at=due_at)


async def listed(store: Store, wanted: Filter, limit: int, now: int = NOW, *, results: bool = True) -> list[Item]:
    """All pages of a list in one."""
    items: list[Item] = []
    cursor = ""
    while True:
        page = await store.page(wanted, cursor, limit, now, results=results)
        assert page is not None
        assert len(page.items) <= limit
        items += page.items
        if not page.next:
            return items
        assert page.next != cursor
        cursor = page.next


ANY: Final[frozenset[str]] = frozenset()
STATUS_CHOICES: Final = [
    ANY,
    *(frozenset({each}) for each in sorted(STATUSES)),
    frozenset({"dead", "failed", "expired"}),
]
LABEL_CHOICES: Final = [ANY, *(frozenset({each}) for each in sorted(LABELS)), frozenset({"retrying", "dead"})]
FILTERS: Final = [
    Filter(*parts)
    for parts in (
        *product(STATUS_CHOICES, LABEL_CHOICES, [ANY], [ANY]),
        *product(
            [ANY, frozenset({"dead"})], [ANY, frozenset({"pending"})], [frozenset({"ann"}), frozenset({"", "x"})], [ANY]
        ),
        *product(
            [ANY, frozenset({"dead"})], [ANY], [ANY, frozenset({"ann"})], [frozenset({"k"}), frozenset({"k", "K", "x"})]
        ),
    )
]


async def test_both_stores_list_the_same(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    items = list(one_of_each())
    memory = MemoryStore(Disk(), lambda: NOW)
    places = {each: n for ids in (await fill(sqlite, items), await fill(memory, items)) for n, each in enumerate(ids)}
    for looked_at, limit in ((20_000, 1_000), (20_000, 3), (7, 4), (1, 1)):
        monkeypatch.setattr(bounds, "LOOKED_AT", looked_at)
        for wanted in FILTERS:
            found = [places[each.id] for each in await listed(sqlite, wanted, limit)]
            assert found == [places[each.id] for each in await listed(memory, wanted, limit)], (wanted, limit)
            assert found == sorted(found, reverse=True)
            assert found == [n for n in reversed(range(len(items))) if wanted.admits(items[n], NOW)]


async def test_labels_change_with_the_time(sqlite: SqliteStore) -> None:
    await fill(sqlite, [item(due_at=LATER)])
    for now, name in ((LATER - 1, "scheduled"), (LATER, "pending")):
        assert len(await listed(sqlite, Filter(label=frozenset({name})), 5, now)) == 1
        assert await listed(sqlite, Filter(label=frozenset({"scheduled", "pending"}) - {name}), 5, now) == []


async def test_a_page_has_results_where_they_are_asked_for_and_never_bodies(sqlite: SqliteStore) -> None:
    await fill(sqlite, [item("finished"), item()])
    for store in (sqlite, MemoryStore(Disk(), lambda: NOW)):
        if isinstance(store, MemoryStore):
            await fill(store, [item("finished"), item()])
        assert [(each.body, each.result) for each in await listed(store, Filter(), 5)] == [("", ""), ("", '{"r":1}')]
        assert [each.result for each in await listed(store, Filter(), 5, results=False)] == ["", ""]


async def test_a_page_ends_with_the_item_that_makes_it_long(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PAGE_CHARACTERS", 10)
    await fill(sqlite, [item(progress="1" * 6) for _ in range(5)])
    page = await sqlite.page(Filter(), "", 5, NOW, results=True)
    assert page is not None
    assert len(page.items) == 2
    assert len(await listed(sqlite, Filter(), 5)) == 5


@pytest.mark.protocol("5.95")
async def test_few_among_many_are_found_in_bounded_pages(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOOKED_AT", 10)
    await fill(sqlite, [item("processing"), *[item()] * 25])
    wanted, cursor = Filter(status=frozenset({"processing"})), ""
    sizes: list[int] = []
    while len(sizes) < 9:
        page = await sqlite.page(wanted, cursor, 5, NOW, results=True)
        assert page is not None
        sizes.append(len(page.items))
        cursor = page.next
        if not cursor:
            break
    assert sizes == [0, 0, 1]


@pytest.mark.protocol("5.99")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_cursor_that_was_not_given_out_is_known(kind: str, sqlite: SqliteStore) -> None:
    store: Store = sqlite if kind == "sqlite" else MemoryStore(Disk(), lambda: NOW)
    await fill(store, [item(), item()])
    never = [IdPermutation(bytes(KEY_BYTES)).id_of(n) for n in range(20)]
    for cursor in ("x", "é", "\x00", "f" * 16, "F" * 16, "0" * 15, " ", *never):
        assert await store.page(Filter(), cursor, 5, NOW, results=True) is None, cursor


async def test_a_cursor_outlives_its_item(sqlite: SqliteStore) -> None:
    await fill(sqlite, [item(), item(), item()])
    page = await sqlite.page(Filter(), "", 1, NOW, results=True)
    assert page is not None
    sqlite.connection.execute("DELETE FROM item WHERE seq = (SELECT max(seq) FROM item)")
    rest = await sqlite.page(Filter(), page.next, 9, NOW, results=True)
    assert rest is not None
    assert len(rest.items) == 2


@pytest.mark.protocol("5.97")
async def test_what_is_posted_meanwhile_is_on_no_later_page(sqlite: SqliteStore) -> None:
    await fill(sqlite, [item(), item()])
    page = await sqlite.page(Filter(), "", 1, NOW, results=True)
    assert page is not None
    new = await fill(sqlite, [item()])
    rest = await sqlite.page(Filter(), page.next, 9, NOW, results=True)
    assert rest is not None
    assert new[0] not in [each.id for each in rest.items]


async def test_what_is_not_committed_is_not_there(sqlite: SqliteStore) -> None:
    async with sqlite.turn(durable=False) as turn:
        ((seq, item_id),) = await turn.new_ids(1)
        await turn.insert([replace(item(), seq=seq, id=item_id)])
        assert await listed(sqlite, Filter(), 5) == []
        await turn.commit()
    assert len(await listed(sqlite, Filter(), 5)) == 1


async def test_it_cannot_write_and_holds_nothing_open(sqlite: SqliteStore) -> None:
    """The log can be written back wholly after it: no read is left open."""
    await fill(sqlite, [item("dead")] * 50)
    for wanted in (Filter(), Filter(status=frozenset({"dead", "failed"})), Filter(key=frozenset({"a", "b"}))):
        await sqlite.page(wanted, "", 3, NOW, results=True)
    await sqlite.ahead((0, NOW, 2**62), 3)
    await fill(sqlite, [item()])
    busy, log, written = sqlite.connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    assert (busy, log) == (0, written)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        sqlite._looking._connection.execute("DELETE FROM item")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_stands_ahead_is_counted(kind: str, sqlite: SqliteStore) -> None:
    store: Store = sqlite if kind == "sqlite" else MemoryStore(Disk(), lambda: NOW)
    places = [(-1, NOW), (-1, NOW - 5), (0, NOW - 5), (0, NOW), (0, NOW), (1, 0)]
    await fill(store, [item(rank=rank, due_at=due_at) for rank, due_at in places])
    await fill(store, [item(rank=-5, due_at=LATER, ready=0), item("processing", rank=-5), item("dead", rank=-5)])
    async with store.turn(durable=False) as turn:
        ready = [each.position for each in await turn.pick((-(2**31), 0, 0), 9, ())]
    assert [await store.ahead(position, 100) for position in ready] == [0, 1, 2, 3, 4, 5]
    assert await store.ahead((2**20, 0, 0), 100) == 6


async def test_no_more_than_asked_are_counted(sqlite: SqliteStore) -> None:
    await fill(sqlite, [item() for _ in range(9)])
    assert 4 <= await sqlite.ahead((0, NOW + 1, 0), 4) <= 12


async def test_turns_go_on_while_a_list_is_read(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader waits in the middle of its work, on its own thread; a turn is committed meanwhile."""
    await fill(sqlite, [item()])
    reading, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    floor: Callable[..., int] = looking.SqliteLooking._floor

    def held(self: looking.SqliteLooking, *arguments: Any) -> int:
        loop.call_soon_threadsafe(reading.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        return floor(self, *arguments)

    monkeypatch.setattr(looking.SqliteLooking, "_floor", held)
    page = asyncio.create_task(sqlite.page(Filter(), "", 9, NOW, results=True))
    await reading.wait()
    await fill(sqlite, [item()])
    go_on.set()
    found = await page
    assert found is not None
    assert 1 <= len(found.items) <= 2


async def test_a_file_that_cannot_be_read_is_lost(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> int:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(looking.SqliteLooking, "_before", fails)
    with pytest.raises(StoreLost, match="disk I/O error"):
        await sqlite.page(Filter(), "", 9, NOW, results=True)
