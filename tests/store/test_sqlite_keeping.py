"""What the SQLite store keeps beside its items, and how items go: counts, the pause, attempts, retention."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import Item, NewItem, Status
from leaseway_server.core.retention import Outstayed
from leaseway_server.store import bounds
from leaseway_server.store.queries import load_migrations
from leaseway_server.store.sqlite import files
from leaseway_server.store.sqlite.files import PACKAGE
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A new store; its clock stands at `NOW`."""
    store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
    yield store
    await store.close()


async def ended(store: SqliteStore, *ends: dict[str, Any]) -> list[Item]:
    """Items that ended so, each with a body, and the finished ones with a result."""
    async with store.turn(durable=True) as turn:
        ids = await turn.new_ids(len(ends))
        items = [
            replace(
                create(NewItem('"body"'), item_id, seq, NOW, POLICY),
                **{"ready": 0, "result": '"r"' if end["status"] == "finished" else "", **end},
            )
            for end, (seq, item_id) in zip(ends, ids, strict=True)
        ]
        await turn.insert(items)
        await turn.commit()
    return items


def attempt(number: int, ending: Any = "lost", error: str = "") -> Attempt:
    return Attempt(number, f"box-{number}", NOW, NOW + number, ending, error)


# ── Counts and the pause ────────────────────────────────────────────────────────────────────────────────────────


async def test_counts_are_kept_and_undone_with_their_turn(store: SqliteStore) -> None:
    assert await store.counts() == {}
    async with store.turn(durable=True) as turn:
        await turn.count({"pending": 2, "dead": 1})
        await turn.count({"pending": -1})
        await turn.commit()
    async with store.turn(durable=True) as turn:
        await turn.count({"pending": 7, "failed": 1})
    assert await store.counts() == {"pending": 1, "dead": 1}


async def test_a_pause_is_kept_over_a_restart_and_undone_with_its_turn(tmp_path: Path) -> None:
    for kept in (False, True, False):
        store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
        assert await store.paused() is kept
        async with store.turn(durable=True) as turn:
            await turn.pause(not kept)
        assert await store.paused() is kept
        async with store.turn(durable=True) as turn:
            await turn.pause(not kept)
            await turn.commit()
        await store.close()


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


# ── Attempts ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_attempts_are_replaced_forgotten_and_read_in_their_order(store: SqliteStore) -> None:
    one, two = await ended(store, {"status": "dead"}, {"status": "dead"})
    async with store.turn(durable=True) as turn:
        await turn.save_attempts({(one.seq, 2): attempt(2), (one.seq, 1): attempt(1), (two.seq, 1): attempt(1)})
        await turn.save_attempts({(one.seq, 2): attempt(2, "failed", '{"message":"no"}'), (two.seq, 1): None})
        await turn.save_attempts({(two.seq, 9): None})
        assert await turn.read_attempts([one, two]) == {
            one.id: [attempt(1), attempt(2, "failed", '{"message":"no"}')],
            two.id: [],
        }
        await turn.commit()
    async with store.turn(durable=False) as turn:
        assert len((await turn.read_attempts([one]))[one.id]) == 2


@pytest.mark.protocol("5.110")
async def test_of_very_many_attempts_the_newest_are_read(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = await ended(store, {"status": "dead"})
    monkeypatch.setattr(bounds, "ATTEMPT_CHARACTERS", 3 * (110 + bounds.ATTEMPT_BESIDE))
    async with store.turn(durable=False) as turn:
        await turn.save_attempts({(item.seq, n): attempt(n, "failed", f'"{"x" * 100}"') for n in range(1, 10)})
        assert [each.attempts for each in (await turn.read_attempts([item]))[item.id]] == [7, 8, 9]
        await turn.save_attempts({(item.seq, n): Attempt(n, "", NOW, NOW, "released", "") for n in range(10, 30)})
        read = (await turn.read_attempts([item]))[item.id]
        assert [each.attempts for each in read] == list(range(25, 30)), "those that say nothing count too"


# ── Retention ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("3.20")
async def test_what_outstayed_is_found_by_its_own_clock_and_in_its_order(store: SqliteStore) -> None:
    items = await ended(
        store,
        {"status": "finished", "finished_at": 50, "fetched_at": 90},
        {"status": "finished", "finished_at": 60, "fetched_at": 80},
        {"status": "finished", "finished_at": 70},
        {"status": "finished", "finished_at": 65},
        {"status": "finished", "finished_at": 1, "held": 1},
        {"status": "finished", "finished_at": 1, "fetched_at": 1, "held": 1},
        {"status": "dead", "finished_at": 10, "fetched_at": 99},
        {"status": "dead", "finished_at": 5},
        {"status": "pending", "finished_at": 0},
    )

    ids = [item.id for item in items]

    async def found(status: Status, fetched: bool, until: int, limit: int = 10) -> list[int]:
        async with store.turn(durable=False) as turn:
            return [ids.index(each.id) for each in await turn.outstayed(Outstayed(status, fetched, until), limit)]

    assert await found("finished", True, 90) == [1, 0]
    assert await found("finished", True, 89) == [1]
    assert await found("finished", False, 70) == [3, 2]
    assert await found("finished", False, 69) == [3]
    assert await found("finished", False, 70, 1) == [3]
    assert await found("dead", False, 10) == [7, 6], "whether it was fetched counts for finished ones alone"
    async with store.turn(durable=False) as turn:
        assert await turn.outstayed(Outstayed("dead", False, 5), 10) == [replace(items[7], body="")], "whole rows"


async def test_an_item_goes_with_all_that_belongs_to_it(store: SqliteStore) -> None:
    end = {"status": "finished", "finished_at": 1}
    stays, goes, went = await ended(store, end, end, end)
    async with store.turn(durable=True) as turn:
        await turn.save_attempts({(each.seq, 1): attempt(1) for each in (stays, goes, went)})
        await turn.delete([goes, went])
        assert await turn.load([stays.id, goes.id, went.id]) == {stays.id: replace(stays, body="", result="")}
        await turn.commit()
    for table in ("item", "body", "result", "attempt"):
        assert store.connection.execute(f"SELECT seq FROM {table}").fetchall() == [(stays.seq,)]  # noqa: S608


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


async def test_a_slice_ends_with_the_item_that_makes_it_too_large(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(store, *({"status": "finished", "finished_at": n, "body": "x" * 60} for n in range(1, 10)))
    for characters, expected in ((10_000, 9), (150, 3), (1, 1)):
        monkeypatch.setattr(bounds, "REMOVE_CHARACTERS", characters)
        async with store.turn(durable=False) as turn:
            assert len(await turn.outstayed(Outstayed("finished", False, 100), 100)) == expected
