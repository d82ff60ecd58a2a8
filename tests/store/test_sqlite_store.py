"""The SQLite store as `store/base.py` promises it: turns, numbers, columns, indexes, and how it is made durable."""

import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.errors import StoreFull, StoreLost
from leaseway_server.core.events import Claim, Event, Result
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.model import START, Candidate, Item, NewItem
from leaseway_server.store import bounds
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.sqlite import files
from leaseway_server.store.sqlite import store as store_module
from leaseway_server.store.sqlite.store import NUMBERS_A_MS, RESERVE, SqliteStore
from support.model import NOW, POLICY
from support.stored import posted

UNKNOWN = "00000000000000a1"


def opened(folder: Path) -> SqliteStore:
    """The store of a folder; its clock stands at `NOW`."""
    return SqliteStore.open(folder / "queue.db", lambda: NOW)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A new store."""
    store = opened(tmp_path)
    yield store
    await store.close()


async def changed(store: SqliteStore, item: Item, event: Event, *, durable: bool = True) -> Item:
    """The item after an event, saved in a turn of its own."""
    async with store.turn(durable=durable) as turn:
        before = (await turn.load([item.id]))[item.id]
        after = apply(before, event, NOW, POLICY)
        assert isinstance(after, Item), after
        await turn.save([(before, after)])
        await turn.commit()
    return after


async def loaded(store: SqliteStore, item_id: str) -> Item:
    """The item as it is stored, with its body and result."""
    async with store.turn(durable=False) as turn:
        item = (await turn.load([item_id]))[item_id]
        await turn.read_bodies([item])
        await turn.read_results([item])
    return item


def count(store: SqliteStore, sql: str) -> int:
    """A number from the file."""
    (number,) = store.connection.execute(sql).fetchone()
    return int(number)


@contextmanager
def statements(store: SqliteStore) -> Iterator[list[str]]:
    """The statements that are executed, each after the name of its thread."""
    seen: list[str] = []
    store.connection.set_trace_callback(lambda sql: seen.append(f"{threading.current_thread().name}: {sql}"))
    yield seen
    store.connection.set_trace_callback(None)


# ── Rows ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_inserted_is_loaded_without_body_and_result(store: SqliteStore) -> None:
    new = NewItem('{"a":1}', posted_by="ann", priority=3, delay_ms=5, ttl_ms=99, max_attempts=2, meta='{"t":1}')
    (item,) = await posted(store, new)
    async with store.turn(durable=False) as turn:
        assert await turn.load([item.id]) == {item.id: replace(item, body="")}
    assert await loaded(store, item.id) == item


@pytest.mark.parametrize(
    "body", ['"\\u0000"', "1e200000", '{"a":1,"b":[true,null]}', '"\U0001f600 \\"\'"', "18446744073709551615"]
)
async def test_bodies_and_results_come_back_byte_for_byte(store: SqliteStore, body: str) -> None:
    (item,) = await posted(store, NewItem(body))
    await changed(store, item, Result(body, None))
    after = await loaded(store, item.id)
    assert (after.body, after.result) == (body, body)


async def test_every_column_is_stored_and_loaded(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem("1"))
    other: Any = {
        name: (getattr(item, name) + 1 if isinstance(getattr(item, name), int) else f"another {name}")
        for name in COLUMNS
        if name not in ("seq", "status")
    }
    after = replace(item, status="processing", **other)
    async with store.turn(durable=True) as turn:
        await turn.save([(item, after)])
        await turn.commit()
    assert await loaded(store, item.id) == after


async def test_columns_are_the_tables_and_the_items(store: SqliteStore) -> None:
    table = tuple(row[1] for row in store.connection.execute("PRAGMA table_info(item)"))
    assert [name for name in table if not name.startswith("match_")] == list(COLUMNS)
    assert set(Item.__slots__) == {"id", "body", "result", "match", *COLUMNS}


async def test_unknown_ids_are_not_loaded(store: SqliteStore) -> None:
    async with store.turn(durable=False) as turn:
        assert await turn.load([UNKNOWN, "no id", ""]) == {}
        assert await turn.load([]) == {}


async def test_a_save_writes_only_the_columns_that_differ(store: SqliteStore) -> None:
    one, two = await posted(store, NewItem("1"), NewItem("2"))
    one, two = await changed(store, one, Claim(2, "box", "w")), await changed(store, two, Claim(2, "box", "w"))
    with statements(store) as seen:
        async with store.turn(durable=False) as turn:
            renewed = [(each, replace(each, lease_until=each.lease_until + 1)) for each in (one, two)]
            await turn.save([*renewed, (one, one)])
            await turn.commit()
    updates = [sql for sql in seen if "UPDATE" in sql]
    assert len(updates) == 2
    assert all("SET lease_until = " in sql and "," not in sql for sql in updates)


async def test_a_result_is_kept_beside_its_item_once(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem('"body"'))
    assert count(store, "SELECT count(*) FROM result") == 0
    finished = await changed(store, item, Result('"result"', None))
    async with store.turn(durable=True) as turn:
        await turn.save([(finished, replace(finished, result="", fetched_at=NOW))])
        await turn.commit()
    assert (await loaded(store, item.id)).result == '"result"'
    assert store.connection.execute("SELECT seq, value FROM body").fetchall() == [(item.seq, '"body"')]
    assert store.connection.execute("SELECT seq, value FROM result").fetchall() == [(item.seq, '"result"')]


async def test_an_item_may_end_in_the_turn_of_its_post(store: SqliteStore) -> None:
    async with store.turn(durable=True) as turn:
        ((seq, item_id),) = await turn.new_ids(1)
        after = apply(create(NewItem("1"), item_id, seq, NOW, POLICY), Result('"r"', None), NOW, POLICY)
        assert isinstance(after, Item)
        await turn.insert([after])
        await turn.commit()
    assert await loaded(store, item_id) == after


async def test_the_turns_time_is_the_clocks(store: SqliteStore) -> None:
    async with store.turn(durable=False) as turn:
        assert await turn.time() == NOW


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_is_left_without_commit_is_undone(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem("1"))
    async with store.turn(durable=True) as turn:
        await turn.save([(item, replace(item, rank=-5))])
    assert await loaded(store, item.id) == item
    with pytest.raises(ZeroDivisionError):  # A fault of the turn's own.
        async with store.turn(durable=True) as turn:
            await turn.save([(item, replace(item, rank=-5 // 0))])
    assert await loaded(store, item.id) == item
    assert not store.connection.in_transaction


async def test_a_fault_of_the_data_passes_as_it_is(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem("1"))
    with pytest.raises(sqlite3.IntegrityError):
        async with store.turn(durable=True) as turn:
            await turn.insert([item])
    with pytest.raises(OverflowError):
        async with store.turn(durable=True) as turn:
            await turn.save([(item, replace(item, due_at=2**63))])
    assert await loaded(store, item.id) == item


async def test_turns_are_synced_as_they_must_be(store: SqliteStore) -> None:
    for durable, synchronous in ((True, 2), (False, 1), (False, 1), (True, 2)):
        async with store.turn(durable=durable):
            assert count(store, "PRAGMA synchronous") == synchronous


async def test_a_store_begins_with_full_syncs(store: SqliteStore) -> None:
    assert count(store, "PRAGMA synchronous") == 2
    assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert count(store, "PRAGMA wal_autocheckpoint") == 0


@pytest.mark.parametrize(("average", "thread"), [(0.0, "MainThread"), (1.0, "leaseway-commit_0")])
async def test_a_commit_goes_to_the_thread_while_they_are_slow(store: SqliteStore, average: float, thread: str) -> None:
    store._commit_seconds = average
    with statements(store) as seen:
        await posted(store, NewItem("1"))
    assert f"{thread}: COMMIT" in seen
    assert all(sql.startswith("MainThread") for sql in seen if "COMMIT" not in sql)


async def test_commits_come_back_to_the_loop_once_they_are_quick(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "INLINE_SECONDS", 0.5)
    monkeypatch.setattr(store_module, "PROBE", 4)
    store._commit_seconds = 0.6
    with statements(store) as seen:
        for _ in range(40):
            await posted(store, NewItem("1"))
    threads = [sql.split(":")[0] for sql in seen if "COMMIT" in sql]
    assert (threads[0], threads[-1]) == ("leaseway-commit_0", "MainThread")


async def test_turns_without_a_sync_commit_inline_however_slow(store: SqliteStore) -> None:
    store._commit_seconds = 1.0
    with statements(store) as seen:
        await posted(store, NewItem("1"), durable=False)
    assert "MainThread: COMMIT" in seen


async def test_a_turn_that_wrote_nothing_syncs_nothing(store: SqliteStore) -> None:
    store._commit_seconds = 1.0
    with statements(store) as seen:
        async with store.turn(durable=True) as turn:
            await turn.commit()
    assert "MainThread: COMMIT" in seen
    assert store._commit_seconds == 1.0, "it tells nothing about the disk"


# ── Numbers and ids ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_numbers_rise_and_ids_lead_back(store: SqliteStore) -> None:
    items = await posted(store, *[NewItem("1")] * 5) + await posted(store, *[NewItem("1")] * 5)
    first = NOW << NUMBERS_A_MS
    assert [item.seq for item in items] == list(range(first, first + 10))
    assert [store.ids.seq_of(item.id) for item in items] == [item.seq for item in items]
    assert len({item.id for item in items}) == 10


async def test_ids_stay_what_they_are_over_a_restart_and_epochs_count_starts(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (item,) = await posted(store, NewItem("1"))
    assert store.epoch == 1
    await store.close()
    again = opened(tmp_path)
    assert (again.epoch, again.ids.seq_of(item.id), again.ids.id_of(item.seq)) == (2, item.seq, item.id)
    (other,) = await posted(again, NewItem("1"))
    assert other.seq > item.seq
    await again.close()


async def test_two_files_have_ids_of_their_own(tmp_path: Path) -> None:
    stores = [opened(tmp_path / name) for name in "ab"]
    assert stores[0].ids.id_of(1) != stores[1].ids.id_of(1)
    for store in stores:
        await store.close()


async def test_a_number_is_never_given_out_twice_over_starts_and_undone_turns(tmp_path: Path) -> None:
    used: list[int] = []
    for _ in range(3):
        store = opened(tmp_path)
        used += [item.seq for item in await posted(store, NewItem("1"))]
        async with store.turn(durable=True) as turn:  # It may have told these to somebody; and is undone.
            used += [seq for seq, _ in await turn.new_ids(RESERVE)]
        used += [item.seq for item in await posted(store, NewItem("1"))]
        await store.close()
    assert len(set(used)) == len(used)
    assert used == sorted(used)


async def test_a_block_of_numbers_is_reserved_in_the_turn_that_needs_it(store: SqliteStore) -> None:
    def reserved() -> int:
        return count(store, "SELECT next_seq FROM state")

    assert reserved() == 1
    async with store.turn(durable=True) as turn:
        await turn.new_ids(1)
    assert reserved() == 1, "the turn was undone"
    await posted(store, NewItem("1"))
    first = reserved()
    assert first > RESERVE
    with statements(store) as seen:
        for _ in range(20):
            await posted(store, NewItem("1"))
    assert not [sql for sql in seen if "UPDATE state" in sql], "not in each turn"
    async with store.turn(durable=True) as turn:
        await turn.new_ids(RESERVE)
        await turn.new_ids(RESERVE)
        await turn.commit()
    assert reserved() > first + RESERVE


# ── Picking, sweeping ───────────────────────────────────────────────────────────────────────────────────────────


def seen(*items: Item) -> list[Candidate]:
    """The items as a search sees them."""
    return [Candidate(*item.position, item.expires_at, item.body) for item in items]


async def test_items_are_picked_in_the_order_of_claims_with_their_bodies(store: SqliteStore) -> None:
    low, first, second, high, _later = await posted(
        store,
        NewItem('"low"', priority=-1),
        NewItem('"first"', ttl_ms=5),
        NewItem('"second"'),
        NewItem('"high"', priority=1),
        NewItem('"later"', delay_ms=1, priority=100),
    )
    async with store.turn(durable=False) as turn:
        assert await turn.pick(START, 10, ()) == seen(high, first, second, low)
        assert await turn.pick(START, 2, ()) == seen(high, first)
        assert await turn.pick(first.position, 10, ()) == seen(second, low)
        assert await turn.pick(START, 2, {high.seq, second.seq}) == seen(first, low)
        assert await turn.pick(low.position, 10, ()) == []
        assert await turn.take(seen(second, high)) == {second.seq: second, high.seq: high}


async def test_a_pick_ends_with_the_body_that_makes_it_long(store: SqliteStore) -> None:
    small, large, last = await posted(store, NewItem("1"), NewItem(f'"{"x" * bounds.PICK_CHARACTERS}"'), NewItem("1"))
    async with store.turn(durable=False) as turn:
        assert await turn.pick(START, 10, ()) == seen(small, large)
        assert await turn.pick(large.position, 10, ()) == seen(last)


async def test_what_is_seen_is_claimable_until_its_life_is_over() -> None:
    assert Candidate(0, 0, 1, 0, "1").claimable(NOW)
    assert Candidate(0, 0, 1, NOW + 1, "1").claimable(NOW)
    assert not Candidate(0, 0, 1, NOW, "1").claimable(NOW)


async def test_what_comes_due_and_what_is_outlived_is_found_in_order(store: SqliteStore) -> None:
    ready, late, soon = await posted(
        store, NewItem("1", ttl_ms=40), NewItem("2", delay_ms=20, ttl_ms=30), NewItem("3", delay_ms=10)
    )

    def bare(*items: Item) -> list[Item]:
        return [replace(item, body="") for item in items]

    async with store.turn(durable=False) as turn:
        assert (await turn.next_due(), await turn.next_expiry()) == (NOW + 10, NOW + 30)
        assert await turn.come_due(NOW + 9, 10) == []
        assert await turn.come_due(NOW + 20, 10) == bare(soon, late)
        assert await turn.come_due(NOW + 20, 1) == bare(soon)
        assert await turn.outlived(NOW + 29, 10) == []
        assert await turn.outlived(NOW + 99, 10) == bare(late, ready)
        assert await turn.outlived(NOW + 99, 1) == bare(late)
        await turn.save([(late, replace(late, ready=1, finished_at=NOW)), (soon, replace(soon, ready=1))])
        assert (await turn.next_due(), await turn.next_expiry()) == (0, NOW + 40)
        await turn.save([(ready, replace(ready, finished_at=NOW))])
        assert await turn.next_expiry() == 0


async def test_leases_are_all_that_is_processing(store: SqliteStore) -> None:
    one, _two = await posted(store, NewItem("1"), NewItem("2"))
    held = await changed(store, one, Claim(2, "box", "w"))
    assert await store.leases() == [replace(held, body="")]


# ── The log ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_log_is_made_at_the_start_and_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAL_BYTES", 2 * 1024 * 1024)
    monkeypatch.setattr(store_module, "CHECKPOINT_FRAMES", 100)
    store, log = opened(tmp_path), tmp_path / "queue.db-wal"
    assert log.stat().st_size >= 2 * 1024 * 1024
    size = log.stat().st_size
    for _ in range(300):
        items = await posted(store, *[NewItem('"' + "x" * 500 + '"')] * 10)
        await changed(store, items[0], Claim(2, "box", "w"))
        await store.maintain()
    assert log.stat().st_size == size
    assert count(store, "SELECT count(*) FROM item") == 3_000
    await store.close()


async def test_a_log_that_grew_while_a_reader_kept_it_is_cut_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As during a long backup: the disk gets back what it took."""
    monkeypatch.setattr(files, "MOST_WAL_BYTES", 256 * 1024)
    monkeypatch.setattr(files, "WAL_BYTES", 128 * 1024)
    monkeypatch.setattr(store_module, "CHECKPOINT_FRAMES", 10)
    store, log = opened(tmp_path), tmp_path / "queue.db-wal"
    with closing(sqlite3.connect(f"{(tmp_path / 'queue.db').as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM item").fetchone()
        for _ in range(20):
            await posted(store, *[NewItem('"' + "x" * 10_000 + '"')] * 10)
            await store.maintain()
        assert log.stat().st_size > 2 * 1024 * 1024
    for _ in range(3):
        await posted(store, NewItem("1"))
        await store.maintain()
    assert log.stat().st_size == 256 * 1024
    assert count(store, "SELECT count(*) FROM item") == 203
    await store.close()


async def test_the_log_is_written_back_on_the_thread_once_it_is_long_enough(store: SqliteStore) -> None:
    with statements(store) as seen:
        (item,) = await posted(store, NewItem("1"))
        await store.maintain()
        assert not [sql for sql in seen if "wal_checkpoint" in sql]
        await posted(store, *[NewItem("1")] * 1_000)
        await store.maintain()
        await store.maintain()
    assert [sql for sql in seen if "wal_checkpoint" in sql] == ["leaseway-commit_0: PRAGMA wal_checkpoint(PASSIVE)"]
    assert (await loaded(store, item.id)).seq == item.seq


async def test_a_closed_store_leaves_one_sound_file(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (item,) = await posted(store, NewItem('"kept"'))
    await changed(store, item, Claim(2, "box", "w"))
    await store.close()
    assert sorted(os.listdir(tmp_path)) == ["queue.db", "queue.lock"]  # noqa: PTH208  Nothing else runs here.
    again = opened(tmp_path)
    assert (await loaded(again, item.id)).status == "processing"
    await again.close()


# ── Space ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_without_space_a_turn_is_refused_and_the_next_one_may_pass(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem("1"))
    pages = count(store, "PRAGMA page_count")
    count(store, f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreFull, match="full"):
        await posted(store, *[NewItem('"' + "x" * 1_000 + '"')] * 200)
    assert not store.connection.in_transaction
    assert count(store, "SELECT count(*) FROM item") == 1
    assert (await changed(store, item, Claim(2, "box", "w"))).status == "processing", "what needs no space passes"
    count(store, f"PRAGMA max_page_count = {pages + 1_000}")
    assert len(await posted(store, *[NewItem('"' + "x" * 1_000 + '"')] * 200)) == 200
    assert count(store, "SELECT count(*) FROM item") == 201


async def test_a_file_that_became_read_only_is_as_one_without_space(store: SqliteStore) -> None:
    (item,) = await posted(store, NewItem("1"))
    store.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreFull, match="readonly"):
        await posted(store, NewItem("2"))
    assert await loaded(store, item.id) == item, "reads go on"
    store.connection.execute("PRAGMA query_only = OFF")
    await posted(store, NewItem("2"))


async def test_a_file_that_was_removed_or_replaced_while_it_is_served_is_lost(
    store: SqliteStore, tmp_path: Path
) -> None:
    store.check()
    path = tmp_path / "queue.db"
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreLost, match=r"queue\.db is gone: No such file"):
        store.check()
    path.write_bytes(b"")
    with pytest.raises(StoreLost, match=r"queue\.db was replaced while it was served"):
        store.check()


async def test_no_commit_of_a_file_is_in_doubt_for_long(store: SqliteStore) -> None:
    await posted(store, NewItem("1"))
    assert not await store.committed(), "what is in doubt is lost here, and the process ends"
