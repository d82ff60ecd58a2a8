"""A store's verbs for keys and deletes, as `store/base.py` promises them."""

from dataclasses import replace

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.events import Cancel, Result
from leaseway_server.core.lifecycle import apply
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.base import Store, Turn
from support.model import NOW, POLICY
from support.stored import posted, rows_of

STRANGE = "ü \U0001f600 '\"\\ [null] %"


async def end(turn: Turn, *items: Item) -> list[Item]:
    """Saves that these items were cancelled at `NOW`."""
    changes = [(item, apply(item, Cancel(), NOW, POLICY)) for item in items]
    ended = [(before, after) for before, after in changes if isinstance(after, Item)]
    assert len(ended) == len(items)
    await turn.save(ended)
    return [after for _, after in ended]


async def let_go(turn: Turn, *items: Item) -> None:
    await turn.save([(item, replace(item, held=0)) for item in items])


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


async def test_keys_are_found_by_poster_and_text(store: Store) -> None:
    posts = [NewItem("1", posted_by=poster, key=key) for poster, key in [("ann", "k"), ("bob", "k"), ("", STRANGE)]]
    ann, _bob, strange = await posted(store, *posts)
    async with store.turn(durable=False) as turn:
        named = [("ann", "k"), ("", STRANGE), ("", "k"), ("bob", "K")]
        assert ids(await turn.key_holders(named)) == [ann.id, strange.id]
        assert await turn.key_holders([]) == []


async def test_whose_key_it_is_does_not_matter_where_keys_are_shared(store: Store) -> None:
    ann, bob, other = await posted(
        store, *(NewItem("1", posted_by=poster, key=key) for poster, key in [("ann", "k"), ("bob", "k"), ("cid", "x")])
    )
    async with store.turn(durable=False) as turn:
        assert ids(await turn.shared_key_holders(["y", "x"], NOW)) == [other.id]
        assert ids(await turn.shared_key_holders(["k"], NOW)) in ([ann.id], [bob.id])
        (ended,) = await end(turn, ann)
        assert ids(await turn.shared_key_holders(["k"], NOW)) == [bob.id], "that one is open"
        await end(turn, bob)
        assert ids(await turn.shared_key_holders(["k"], NOW)) == []
        assert len(await turn.shared_key_holders(["k"], NOW - 1)) == 1
        await let_go(turn, ended)
        assert ids(await turn.shared_key_holders(["k"], NOW - 1)) == [bob.id]


async def test_keys_of_ended_items_pass_in_the_order_of_the_posts(store: Store) -> None:
    items = [(await posted(store, NewItem("1", key=f"k{number}"), at=NOW - number))[0] for number in range(4)]
    async with store.turn(durable=False) as turn:
        assert await turn.oldest_passing_key() == 0
        assert await turn.past_keys(NOW, 9) == [], "they are open"
        ended = await end(turn, *items[:3])
        assert await turn.oldest_passing_key() == NOW - 2
        assert await turn.past_keys(NOW - 3, 9) == []
        assert ids(await turn.past_keys(NOW - 1, 9)) == [items[2].id, items[1].id]
        assert ids(await turn.past_keys(NOW, 1)) == [items[2].id]
        await let_go(turn, *ended)
        assert await turn.oldest_passing_key() == 0
        assert ids(await turn.key_holders([("", item.key) for item in items])) == [items[3].id]


async def test_sizes_are_in_bytes(store: Store) -> None:
    items = await posted(store, *map(NewItem, ("1", '"ü\U0001f600"', f'"{"x" * 900_000}"')))
    async with store.turn(durable=False) as turn:
        sizes = await turn.body_sizes(items)
        assert [sizes[item.id] for item in items] == [1, 8, 900_002]
        assert await turn.body_sizes([]) == {}


async def test_nothing_is_left_of_what_is_deleted(store: Store) -> None:
    plain, keyed, kept = await posted(store, NewItem("1"), NewItem("2", key="k"), NewItem("3", key="k2"))
    async with store.turn(durable=False) as turn:
        ended = []
        for item, event in ((plain, Cancel()), (keyed, Result("1", None)), (kept, Result("1", None))):
            after = apply(item, event, NOW, POLICY)
            assert isinstance(after, Item)
            ended.append((item, after))
        await turn.save(ended)
        lost = Attempt(1, "w", NOW, NOW, "lost", "")
        await turn.save_attempts({(item.seq, 1): lost for item in (keyed, kept)})
        await turn.delete([after for _, after in ended[:2]])
        assert ids(await turn.key_holders([("", "k"), ("", "k2")])) == [kept.id]
        await turn.commit()
    for table in ("item", "body", "result", "attempt"):
        assert await rows_of(store, table) == [(kept.seq,)], table
