"""Items that a test puts into a store itself, without an engine, and what it finds there behind the interface."""

from dataclasses import replace
from typing import Any

from leaseway_server.core.events import Event
from leaseway_server.core.lifecycle import apply, create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.base import Store
from leaseway_server.store.postgres.store import PostgresStore
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY


async def posted(store: Store, *posts: NewItem, at: int = NOW, durable: bool = True) -> list[Item]:
    """Items that were inserted in one turn; they were posted at `at`, ms since the epoch."""
    async with store.turn(durable=durable) as turn:
        ids = await turn.new_ids(len(posts))
        items = [create(new, item_id, seq, at, POLICY) for new, (seq, item_id) in zip(posts, ids, strict=True)]
        await turn.insert(items)
        await turn.commit()
    return items


async def ended(store: Store, *ends: dict[str, Any]) -> list[Item]:
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


async def changed(store: Store, item: Item, event: Event, *, durable: bool = True) -> Item:
    """The item after an event, saved in a turn of its own."""
    async with store.turn(durable=durable) as turn:
        before = (await turn.load([item.id]))[item.id]
        after = apply(before, event, NOW, POLICY)
        assert isinstance(after, Item), after
        await turn.save([(before, after)])
        await turn.commit()
    return after


async def loaded(store: Store, item_id: str) -> Item:
    """The item as it is stored, with its body and result."""
    async with store.turn(durable=False) as turn:
        item = (await turn.load([item_id]))[item_id]
        await turn.read_bodies([item])
        await turn.read_results([item])
    return item


async def rows_of(store: Store, table: str, columns: str = "seq") -> list[tuple[object, ...]]:
    """What a table has of the queue, in the order of row numbers; as it is committed."""
    if isinstance(store, SqliteStore):
        return store.connection.execute(f"SELECT {columns} FROM {table} ORDER BY seq").fetchall()  # noqa: S608
    assert isinstance(store, PostgresStore)
    query = f"SELECT {columns} FROM leaseway.{table} WHERE queue = $1 ORDER BY seq"  # noqa: S608
    async with store._database.transaction() as connection:
        return [tuple(row) for row in await connection.fetch(query, store.queue)]


async def set_rows(store: Store, assignments: str, where: str = "true") -> None:
    """Changes rows of items where they are; SQL that both databases understand."""
    if isinstance(store, SqliteStore):
        store.connection.execute(f"UPDATE item SET {assignments} WHERE {where}")  # noqa: S608
        return
    assert isinstance(store, PostgresStore)
    async with store._database.transaction() as connection:
        await connection.execute(
            f"UPDATE leaseway.item SET {assignments} WHERE queue = $1 AND {where}",  # noqa: S608
            store.queue,
        )
