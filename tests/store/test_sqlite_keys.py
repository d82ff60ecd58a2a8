"""The SQLite store's verbs for keys and deletes, as `store/base.py` promises them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_server.core.events import Cancel, Result
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY

STRANGE = "ü \U0001f600 '\"\\ [null] %"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A new store; its clock stands at `NOW`."""
    store = SqliteStore.open(tmp_path / "queue.db", lambda: NOW)
    yield store
    await store.close()


async def posted(store: SqliteStore, *posts: NewItem) -> list[Item]:
    async with store.turn(durable=False) as turn:
        ids = await turn.new_ids(len(posts))
        items = [create(new, item_id, seq, NOW, POLICY) for new, (seq, item_id) in zip(posts, ids, strict=True)]
        await turn.insert(items)
        await turn.commit()
    return items


async def test_keys_are_found_by_poster_and_text_and_in_one_statement(store: SqliteStore) -> None:
    ann, bob, strange = await posted(store, *(NewItem("1", key="k") for _ in range(3)))
    async with store.turn(durable=False) as turn:
        await turn.hold_keys({("ann", "k"): (ann, 0), ("bob", "k"): (bob, 0), ("", STRANGE): (strange, 0)})
        seen: list[str] = []
        store.connection.set_trace_callback(seen.append)
        named = [("ann", "k"), ("", STRANGE), ("", "k"), ("bob", "K")]
        assert await turn.key_holders(named) == {("ann", "k"): ann.id, ("", STRANGE): strange.id}
        store.connection.set_trace_callback(None)
        assert len(seen) == 1


async def test_who_holds_a_key_anew_takes_it_from_whoever_did(store: SqliteStore) -> None:
    one, two = await posted(store, NewItem("1", key="k"), NewItem("2", key="k"))
    async with store.turn(durable=False) as turn:
        await turn.hold_keys({("", "k"): (one, 0)})
        await turn.hold_keys({("", "k"): (two, 0)})
        await turn.free_keys([one])
        await turn.end_keys([(one, NOW)])
        assert await turn.key_holders([("", "k")]) == {("", "k"): two.id}
        assert await turn.next_key_end() == 0


async def test_keys_end_and_are_swept_in_the_order_of_their_ends(store: SqliteStore) -> None:
    items = await posted(store, *(NewItem("1", posted_by="ann", key=f"k{number}") for number in range(4)))
    async with store.turn(durable=False) as turn:
        await turn.hold_keys({("ann" if item.seq % 2 else "", item.key): (item, 0) for item in items})
        assert await turn.next_key_end() == 0
        await turn.end_keys([(item, NOW + 9 - number) for number, item in enumerate(items[:3])])
        assert await turn.next_key_end() == NOW + 7
        assert await turn.past_keys(NOW + 6, 9) == []
        assert [item.id for item in await turn.past_keys(NOW + 9, 1)] == [items[2].id]
        assert {item.id for item in await turn.past_keys(NOW + 9, 9)} == {item.id for item in items[:3]}
        await turn.free_keys(items[:3])
        assert await turn.next_key_end() == 0
        keys = [("ann" if item.seq % 2 else "", item.key) for item in items]
        assert await turn.key_holders(keys) == {keys[3]: items[3].id}


async def test_sizes_are_in_bytes(store: SqliteStore) -> None:
    items = await posted(store, *map(NewItem, ("1", '"ü\U0001f600"', f'"{"x" * 900_000}"')))
    async with store.turn(durable=False) as turn:
        sizes = await turn.body_sizes(items)
        assert [sizes[item.id] for item in items] == [1, 8, 900_002]
        assert await turn.body_sizes([]) == {}


async def test_nothing_is_left_of_what_is_deleted(store: SqliteStore) -> None:
    plain, keyed, kept = await posted(store, NewItem("1"), NewItem("2", key="k"), NewItem("3", key="k2"))
    async with store.turn(durable=False) as turn:
        await turn.hold_keys({("", "k"): (keyed, 0), ("", "k2"): (kept, 0)})
        ended = []
        for item, event in ((plain, Cancel()), (keyed, Result("1", None)), (kept, Result("1", None))):
            after = apply(item, event, NOW, POLICY)
            assert isinstance(after, Item)
            ended.append((item, after))
        await turn.save(ended)
        for item in (keyed, kept):
            row = (item.seq, 1, "w", NOW, NOW, "lost", "")
            store.connection.execute("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        await turn.delete([after for _, after in ended[:2]])
        await turn.commit()
    for table in ("item", "body", "result", "attempt", "held_key"):
        assert [row[0] for row in store.connection.execute(f"SELECT seq FROM {table}")] == [kept.seq], table  # noqa: S608
