"""Lists and what stands ahead, read beside the turns: each store held against the dictionary store."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from leaseway_server.core.ids import KEY_BYTES, IdPermutation
from leaseway_server.core.lifecycle import create
from leaseway_server.core.listing import LABELS, STATUSES, Filter
from leaseway_server.core.model import Item, NewItem, Status
from leaseway_server.store import bounds
from leaseway_server.store.base import Store
from leaseway_server.store.sqlite.store import SqliteStore
from support.memory_store import Disk, MemoryStore
from support.model import NOW, POLICY

LATER: Final = NOW + 1_000


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


async def test_every_store_lists_as_the_dictionary_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    items = list(one_of_each())
    memory = MemoryStore(Disk(), lambda: NOW)
    places = {each: n for ids in (await fill(store, items), await fill(memory, items)) for n, each in enumerate(ids)}
    for looked_at, limit in ((20_000, 1_000), (20_000, 3), (7, 4), (1, 1)):
        monkeypatch.setattr(bounds, "LOOKED_AT", looked_at)
        for wanted in FILTERS if isinstance(store, SqliteStore) or limit == 1_000 else FILTERS[limit::8]:
            found = [places[each.id] for each in await listed(store, wanted, limit)]
            assert found == [places[each.id] for each in await listed(memory, wanted, limit)], (wanted, limit)
            assert found == sorted(found, reverse=True)
            assert found == [n for n in reversed(range(len(items))) if wanted.admits(items[n], NOW)]


async def test_labels_change_with_the_time(store: Store) -> None:
    await fill(store, [item(due_at=LATER)])
    for now, name in ((LATER - 1, "scheduled"), (LATER, "pending")):
        assert len(await listed(store, Filter(label=frozenset({name})), 5, now)) == 1
        assert await listed(store, Filter(label=frozenset({"scheduled", "pending"}) - {name}), 5, now) == []


async def test_a_page_has_results_where_they_are_asked_for_and_never_bodies(store: Store) -> None:
    await fill(store, [item("finished"), item()])
    assert [(each.body, each.result) for each in await listed(store, Filter(), 5)] == [("", ""), ("", '{"r":1}')]
    assert [each.result for each in await listed(store, Filter(), 5, results=False)] == ["", ""]


async def test_a_page_ends_with_the_item_that_makes_it_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "PAGE_CHARACTERS", 10)
    await fill(store, [item(progress="1" * 6) for _ in range(5)])
    page = await store.page(Filter(), "", 5, NOW, results=True)
    assert page is not None
    assert len(page.items) == 2
    assert len(await listed(store, Filter(), 5)) == 5


@pytest.mark.protocol("5.95")
async def test_few_among_many_are_found_in_bounded_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOOKED_AT", 10)
    await fill(store, [item("processing"), *[item()] * 25])
    wanted, cursor = Filter(status=frozenset({"processing"})), ""
    sizes: list[int] = []
    while len(sizes) < 9:
        page = await store.page(wanted, cursor, 5, NOW, results=True)
        assert page is not None
        sizes.append(len(page.items))
        cursor = page.next
        if not cursor:
            break
    assert sizes == [0, 0, 1]


@pytest.mark.protocol("5.99")
async def test_a_cursor_that_was_not_given_out_is_known(store: Store) -> None:
    never = [IdPermutation(bytes(KEY_BYTES)).id_of(n) for n in range(20)]
    for each in (store, MemoryStore(Disk(), lambda: NOW)):
        await fill(each, [item(), item()])
        for cursor in ("x", "é", "\x00", "f" * 16, "F" * 16, "0" * 15, " ", *never):
            assert await each.page(Filter(), cursor, 5, NOW, results=True) is None, cursor


async def test_a_cursor_outlives_its_item(store: Store) -> None:
    await fill(store, [item(), item(), item()])
    page = await store.page(Filter(), "", 1, NOW, results=True)
    assert page is not None
    async with store.turn(durable=False) as turn:
        await turn.delete(page.items)
        await turn.commit()
    rest = await store.page(Filter(), page.next, 9, NOW, results=True)
    assert rest is not None
    assert len(rest.items) == 2


@pytest.mark.protocol("5.97")
async def test_what_is_posted_meanwhile_is_on_no_later_page(store: Store) -> None:
    await fill(store, [item(), item()])
    page = await store.page(Filter(), "", 1, NOW, results=True)
    assert page is not None
    new = await fill(store, [item()])
    rest = await store.page(Filter(), page.next, 9, NOW, results=True)
    assert rest is not None
    assert new[0] not in [each.id for each in rest.items]


async def test_what_is_not_committed_is_not_there(store: Store) -> None:
    async with store.turn(durable=False) as turn:
        ((seq, item_id),) = await turn.new_ids(1)
        await turn.insert([replace(item(), seq=seq, id=item_id)])
        assert await listed(store, Filter(), 5) == []
        await turn.commit()
    assert len(await listed(store, Filter(), 5)) == 1


async def test_what_stands_ahead_is_counted(store: Store) -> None:
    for each in (store, MemoryStore(Disk(), lambda: NOW)):
        places = [(-1, NOW), (-1, NOW - 5), (0, NOW - 5), (0, NOW), (0, NOW), (1, 0)]
        await fill(each, [item(rank=rank, due_at=due_at) for rank, due_at in places])
        await fill(each, [item(rank=-5, due_at=LATER, ready=0), item("processing", rank=-5), item("dead", rank=-5)])
        async with each.turn(durable=False) as turn:
            ready = [found.position for found in await turn.pick((-(2**31), 0, 0), 9, ())]
        assert [await each.ahead(position, 100) for position in ready] == [0, 1, 2, 3, 4, 5]
        assert await each.ahead((2**20, 0, 0), 100) == 6


async def test_no_more_than_asked_are_counted(store: Store) -> None:
    await fill(store, [item() for _ in range(9)])
    assert 4 <= await store.ahead((0, NOW + 1, 0), 4) <= 12
