"""What a store keeps beside its items, and how items go: counts, the pause, attempts, retention."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.model import Status
from leaseway_server.core.retention import Outstayed
from leaseway_server.store import bounds
from leaseway_server.store.base import Store
from support.model import NOW
from support.stored import ended, rows_of


def attempt(number: int, ending: Any = "lost", error: str = "") -> Attempt:
    return Attempt(number, f"box-{number}", NOW, NOW + number, ending, error)


# ── Counts and the pause ────────────────────────────────────────────────────────────────────────────────────────


async def test_counts_are_kept_and_undone_with_their_turn(store: Store) -> None:
    assert not any((await store.counts()).values())
    async with store.turn(durable=True) as turn:
        await turn.count({"pending": 2, "dead": 1})
        await turn.count({"pending": -1})
        await turn.commit()
    async with store.turn(durable=True) as turn:
        await turn.count({"pending": 7, "failed": 1})
    assert {status: n for status, n in (await store.counts()).items() if n} == {"pending": 1, "dead": 1}


async def test_a_pause_is_kept_over_a_restart_and_undone_with_its_turn(opened: Callable[[], Awaitable[Store]]) -> None:
    for kept in (False, True, False):
        store = await opened()
        assert await store.paused() is kept
        async with store.turn(durable=True) as turn:
            await turn.pause(not kept)
        assert await store.paused() is kept
        async with store.turn(durable=True) as turn:
            await turn.pause(not kept)
            await turn.commit()
        await store.close()


# ── Attempts ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_attempts_are_replaced_forgotten_and_read_in_their_order(store: Store) -> None:
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
async def test_of_very_many_attempts_the_newest_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_what_outstayed_is_found_by_its_own_clock_and_in_its_order(store: Store) -> None:
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


async def test_an_item_goes_with_all_that_belongs_to_it(store: Store) -> None:
    end = {"status": "finished", "finished_at": 1}
    stays, goes, went = await ended(store, end, end, end)
    async with store.turn(durable=True) as turn:
        await turn.save_attempts({(each.seq, 1): attempt(1) for each in (stays, goes, went)})
        await turn.delete([goes, went])
        assert await turn.load([stays.id, goes.id, went.id]) == {stays.id: replace(stays, body="", result="")}
        await turn.commit()
    for table in ("item", "body", "result", "attempt"):
        assert await rows_of(store, table) == [(stays.seq,)]


async def test_a_slice_ends_with_the_item_that_makes_it_too_large(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(store, *({"status": "finished", "finished_at": n, "body": "x" * 60} for n in range(1, 10)))
    for characters, expected in ((10_000, 9), (150, 3), (1, 1)):
        monkeypatch.setattr(bounds, "REMOVE_CHARACTERS", characters)
        async with store.turn(durable=False) as turn:
            assert len(await turn.outstayed(Outstayed("finished", False, 100), 100)) == expected
