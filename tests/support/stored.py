"""Items that a test puts into a SQLite store itself, without an engine."""

from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.sqlite.store import SqliteStore
from support.model import NOW, POLICY


async def posted(store: SqliteStore, *posts: NewItem, at: int = NOW, durable: bool = True) -> list[Item]:
    """Items that were inserted in one turn; they were posted at `at`, ms since the epoch."""
    async with store.turn(durable=durable) as turn:
        ids = await turn.new_ids(len(posts))
        items = [create(new, item_id, seq, at, POLICY) for new, (seq, item_id) in zip(posts, ids, strict=True)]
        await turn.insert(items)
        await turn.commit()
    return items
