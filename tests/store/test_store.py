"""A store as `store/base.py` promises it, whichever it is: rows, turns, numbers, and what is found in which order."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from leaseway_server.core.events import Cancel, Claim, Result
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.model import START, Candidate, Item, NewItem
from leaseway_server.store import bounds
from leaseway_server.store.base import Store
from leaseway_server.store.columns import COLUMNS
from support.model import NOW, POLICY
from support.stored import changed, loaded, posted, rows_of

UNKNOWN = "00000000000000a1"


def seen(*items: Item) -> list[Candidate]:
    """The items as a search sees them."""
    return [Candidate(*item.position, item.expires_at, item.body) for item in items]


async def test_only_the_first_who_opens_it_made_it(opened: Callable[[], Awaitable[Store]]) -> None:
    for made in (True, False):
        store = await opened()
        assert store.made is made
        await store.close()


async def test_what_is_inserted_is_loaded_without_body_and_result(store: Store) -> None:
    new = NewItem('{"a":1}', posted_by="ann", priority=3, delay_ms=5, ttl_ms=99, max_attempts=2, meta='{"t":1}')
    (item,) = await posted(store, new)
    async with store.turn(durable=False) as turn:
        assert await turn.load([item.id]) == {item.id: replace(item, body="")}
    assert await loaded(store, item.id) == item


@pytest.mark.parametrize(
    "body", ['"\\u0000"', "1e200000", '{"a":1,"b":[true,null]}', '"\U0001f600 \\"\'"', "18446744073709551615"]
)
async def test_bodies_and_results_come_back_byte_for_byte(store: Store, body: str) -> None:
    (item,) = await posted(store, NewItem(body))
    await changed(store, item, Result(body, None))
    after = await loaded(store, item.id)
    assert (after.body, after.result) == (body, body)


async def test_every_column_is_stored_and_loaded(store: Store) -> None:
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


async def test_unknown_ids_are_not_loaded(store: Store) -> None:
    async with store.turn(durable=False) as turn:
        assert await turn.load([UNKNOWN, "no id", ""]) == {}
        assert await turn.load([]) == {}


async def test_what_is_looked_at_is_as_it_is_loaded(store: Store) -> None:
    items = await posted(store, NewItem("1"), NewItem("2"))
    async with store.turn(durable=False) as turn:
        ids = [item.id for item in items]
        assert await turn.look([*ids, UNKNOWN, "no id"]) == await turn.load(ids)
        assert await turn.look([UNKNOWN[::-1], "no id"]) == {}
        assert await turn.look([]) == {}


async def test_a_result_is_kept_beside_its_item_once(store: Store) -> None:
    (item,) = await posted(store, NewItem('"body"'))
    assert await rows_of(store, "result") == []
    finished = await changed(store, item, Result('"result"', None))
    async with store.turn(durable=True) as turn:
        await turn.save([(finished, replace(finished, result="", fetched_at=NOW))])
        await turn.commit()
    assert (await loaded(store, item.id)).result == '"result"'
    assert await rows_of(store, "body", "seq, value") == [(item.seq, '"body"')]
    assert await rows_of(store, "result", "seq, value") == [(item.seq, '"result"')]


async def test_an_item_may_end_in_the_turn_of_its_post(store: Store) -> None:
    async with store.turn(durable=True) as turn:
        ((seq, item_id),) = await turn.new_ids(1)
        after = apply(create(NewItem("1"), item_id, seq, NOW, POLICY), Result('"r"', None), NOW, POLICY)
        assert isinstance(after, Item)
        await turn.insert([after])
        await turn.commit()
    assert await loaded(store, item_id) == after


async def test_the_turns_time_is_the_clocks(store: Store) -> None:
    async with store.turn(durable=False) as turn:
        assert await turn.time() == NOW


async def test_a_turn_that_is_left_without_commit_is_undone(store: Store) -> None:
    (item,) = await posted(store, NewItem("1"))
    async with store.turn(durable=True) as turn:
        await turn.save([(item, replace(item, rank=-5))])
    assert await loaded(store, item.id) == item
    with pytest.raises(ZeroDivisionError):  # A fault of the turn's own.
        async with store.turn(durable=True) as turn:
            await turn.save([(item, replace(item, rank=-5 // 0))])
    assert await loaded(store, item.id) == item


async def test_items_are_picked_in_the_order_of_claims_with_their_bodies(store: Store) -> None:
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


async def test_a_pick_ends_with_the_body_that_makes_it_long(store: Store) -> None:
    small, large, last = await posted(store, NewItem("1"), NewItem(f'"{"x" * bounds.PICK_CHARACTERS}"'), NewItem("1"))
    async with store.turn(durable=False) as turn:
        assert await turn.pick(START, 10, ()) == seen(small, large)
        assert await turn.pick(large.position, 10, ()) == seen(last)


async def test_what_is_seen_is_claimable_until_its_life_is_over() -> None:
    assert Candidate(0, 0, 1, 0, "1").claimable(NOW)
    assert Candidate(0, 0, 1, NOW + 1, "1").claimable(NOW)
    assert not Candidate(0, 0, 1, NOW, "1").claimable(NOW)


async def test_what_comes_due_and_what_is_outlived_is_found_in_order(store: Store) -> None:
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


async def test_the_oldest_of_the_ready_ones_is_found_whatever_its_priority(store: Store) -> None:
    async with store.turn(durable=False) as turn:
        assert await turn.oldest_ready() == 0
    await posted(store, *(NewItem("1", priority=priority) for priority in (5, 0, 5)))
    await posted(store, NewItem("1", priority=1), at=NOW - 9)
    await posted(store, NewItem("1", priority=-3, delay_ms=5), at=NOW - 20)
    async with store.turn(durable=False) as turn:
        assert await turn.oldest_ready() == NOW - 9


async def test_leases_are_all_that_is_processing(store: Store) -> None:
    one, _two = await posted(store, NewItem("1"), NewItem("2"))
    held = await changed(store, one, Claim(2, "box", "w"))
    assert await store.leases() == [replace(held, body="")]


async def test_rows_of_many_kinds_are_saved_together_each_with_its_own(store: Store) -> None:
    items = await posted(store, *(NewItem(str(n), meta=f'{{"n":{n}}}', key=f"k{n}") for n in range(6)))
    others = [
        replace(items[0], progress='{"step":1}', rev=2),
        replace(items[1], error='{"message":"no"}', failures=1, rank=5),
        replace(items[2], holder=2**40, worker="w", status="processing", ready=0),
        replace(items[3], fetched_at=NOW, status="dead", finished_at=NOW, ready=0),
        replace(items[4], progress='"\\u0000"', error='"é"', meta="{}"),
    ]
    async with store.turn(durable=True) as turn:
        await turn.save([*zip(items, others, strict=False), (items[5], items[5])])
        await turn.commit()
    assert [await loaded(store, item.id) for item in items] == [*others, items[5]]


async def test_a_stamp_is_the_first_delivery_of_that_very_end(store: Store) -> None:
    items = await posted(store, *[NewItem("1")] * 4)
    ended = [await changed(store, item, Cancel()) for item in items[:3]]
    async with store.turn(durable=True) as turn:
        await turn.save([(ended[1], replace(ended[1], fetched_at=NOW - 5))])
        await turn.commit()
    async with store.turn(durable=True) as turn:
        told = [(ended[0].id, ended[0].rev), (ended[1].id, ended[1].rev), (ended[2].id, 99), (UNKNOWN, 1)]
        await turn.stamp(told)
        rows = await turn.load([ended[0].id])
        await turn.time()
        assert rows[ended[0].id].fetched_at == NOW
        await turn.commit()
    assert [(await loaded(store, item.id)).fetched_at for item in items] == [NOW, NOW - 5, 0, 0]


# ── Numbers and ids ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_ids_stay_what_they_are_over_a_restart_and_epochs_rise(opened: Callable[[], Awaitable[Store]]) -> None:
    store = await opened()
    (item,) = await posted(store, NewItem("1"))
    await store.close()
    again = await opened()
    assert (await loaded(again, item.id)) == item
    (other,) = await posted(again, NewItem("1"))
    assert other.seq > item.seq
    assert again.epoch > store.epoch
    await again.close()


async def test_a_number_is_never_given_out_twice_over_starts_and_undone_turns(
    opened: Callable[[], Awaitable[Store]],
) -> None:
    used: list[int] = []
    for _ in range(3):
        store = await opened()
        used += [item.seq for item in await posted(store, NewItem("1"))]
        async with store.turn(durable=True) as turn:  # It may have told these to somebody; and is undone.
            used += [seq for seq, _ in await turn.new_ids(10_000)]
        used += [item.seq for item in await posted(store, NewItem("1"))]
        await store.close()
    assert len(set(used)) == len(used)
    assert used == sorted(used)
