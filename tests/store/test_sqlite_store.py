"""What is the SQLite store's own: how it is made durable, its numbers, its log, and what happens without space."""

import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from leaseway_server.core.errors import StoreFull, StoreLost
from leaseway_server.core.events import Claim
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.queries import load_migrations
from leaseway_server.store.sqlite import files
from leaseway_server.store.sqlite import store as store_module
from leaseway_server.store.sqlite.files import PACKAGE
from leaseway_server.store.sqlite.store import NUMBERS_A_MS, RESERVE, SqliteStore
from support.model import NOW
from support.stored import changed, ended, loaded, posted

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


async def test_columns_are_the_tables_and_the_items(store: SqliteStore) -> None:
    table = tuple(row[1] for row in store.connection.execute("PRAGMA table_info(item)"))
    assert [name for name in table if not name.startswith("match_")] == list(COLUMNS)
    assert set(Item.__slots__) == {"id", "body", "result", "match", *COLUMNS}


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


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── What was before, and what goes ──────────────────────────────────────────────────────────────────────────────


async def test_a_file_of_before_there_were_counts_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue.db"
    with monkeypatch.context() as before:
        before.setattr(files, "load_migrations", lambda _package: load_migrations(PACKAGE)[:1])
        connection = files.connect(path)
    kinds = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(item)")}
    for seq, status in enumerate(("pending", "dead", "dead")):
        values = {name: 0 if kind == "INTEGER" else "" for name, kind in kinds.items()} | {"seq": seq, "status": status}
        marks = ", ".join(f":{name}" for name in kinds)
        connection.execute(f"INSERT INTO item VALUES ({marks})", values)  # noqa: S608
    connection.close()
    store = SqliteStore.open(path, lambda: NOW)
    assert await store.counts() == {"pending": 1, "dead": 2}
    await store.close()


async def test_what_goes_is_not_overwritten_page_by_page(store: SqliteStore) -> None:
    (item,) = await ended(store, {"status": "dead", "finished_at": 1, "body": "x" * 800_000})
    written = frames(store)  # All of it is in the file now: what follows begins the log anew.
    async with store.turn(durable=True) as turn:
        await turn.delete([item])
        await turn.commit()
    assert frames(store) < 20 < written


def frames(store: SqliteStore) -> int:
    """How many pages the log has."""
    return int(store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
