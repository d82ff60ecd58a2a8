"""Looking through a queue in PostgreSQL without holding up its turns: on the pool's connections, which lock nothing.

Which item belongs to a list is decided here by the database, a bounded number of rows at a time: `core/listing.py` says
the same in Python, and tests hold the two against each other.
"""

from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.model import Item, Position
from leaseway_server.store import bounds
from leaseway_server.store.columns import item_of
from leaseway_server.store.pages import NEWEST, characters_of, index_for
from leaseway_server.store.postgres.database import Connection, Database
from leaseway_server.store.postgres.statements import SQL


class PostgresLooking:
    """The reading side of one queue. Every method is a transaction of its own."""

    def __init__(self, database: Database, queue: int, ids: IdPermutation) -> None:
        self._database = database
        self._queue = queue
        self._ids = ids

    async def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """See `base.Store.page`."""
        async with self._database.looking() as connection:
            before = await self._before(connection, cursor)
            if before is None:
                return None
            name, sources = index_for(wanted)
            given = (self._queue, before, bounds.LOOKED_AT - 1, *([] if name == "all" else [sources]))
            floor = await connection.fetchval(SQL[f"floor_{name}"], *given) or 0
            lists = [sorted(part) for part in (wanted.status, wanted.posted_by, wanted.key, wanted.label)]
            rows = await connection.fetch(SQL[f"page_{name}"], self._queue, before, floor, sources, limit, now, *lists)
            items = [item_of(self._ids, row) for row in rows]
            if results:
                await self._read_results(connection, items)
        return self._cut(items, limit, floor)

    async def ahead(self, position: Position, most: int) -> int:
        """See `base.Store.ahead`."""
        async with self._database.looking() as connection:
            return int(await connection.fetchval(SQL["ahead"], self._queue, *position, most))

    async def _before(self, connection: Connection, cursor: str) -> int | None:
        """The row number that the page begins before; None where the cursor is none that was given out."""
        if not cursor:
            return NEWEST
        before = self._ids.seq_of(cursor)
        last = await connection.fetchval(SQL["last_number"])
        return before if before is not None and before <= last else None

    async def _read_results(self, connection: Connection, items: list[Item]) -> None:
        """As far as a page may have them."""
        finished = {item.seq: item for item in items if item.status == "finished"}
        for seq, value in await connection.fetch(
            SQL["some_results"], self._queue, list(finished), bounds.PAGE_CHARACTERS
        ):
            finished[seq].result = value

    def _cut(self, items: list[Item], limit: int, floor: int) -> Page:
        """The page ends with the item that makes it too long."""
        size = 0
        for place, item in enumerate(items, 1):
            size += characters_of(item)
            if place == limit or size > bounds.PAGE_CHARACTERS:
                return Page(items[:place], item.id)
        return Page(items, self._ids.id_of(floor) if floor else "")
