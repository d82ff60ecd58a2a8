"""Looking through a SQLite store without holding up its turns: on a connection of its own that cannot write.

It runs on a thread of its own, in short read transactions, of which none outlives its question; it never checkpoints.
It sees what is committed and nothing else. Which item belongs to a list is decided here by the database, a bounded
number of rows at a time: `core/listing.py` says the same in Python, and tests hold the two against each other.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from heapq import merge
from pathlib import Path

import orjson

from leaseway_server.core.ids import IdPermutation
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.model import Position
from leaseway_server.store import bounds
from leaseway_server.store.columns import item_of
from leaseway_server.store.pages import NEWEST, characters_of, index_for
from leaseway_server.store.sqlite.turn import SQL


class SqliteLooking:
    """The reading side of one store. Every method belongs on one thread, and is a transaction of its own."""

    def __init__(self, path: Path, id_key: bytes) -> None:
        self._connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        self._ids = IdPermutation(id_key)  # Its own: that of the turns remembers what is worked on.

    def page(self, wanted: Filter, cursor: str, limit: int, now: int, *, results: bool) -> Page | None:
        """See `base.Store.page`."""
        with self._transaction():
            before = self._before(cursor)
            if before is None:
                return None
            index, values = index_for(wanted)
            sources = [(index, value) for value in values]
            floor = max((self._floor(source, before) for source in sources), default=0)
            arguments = _arguments(wanted) | {"before": before, "floor": floor, "limit": limit, "now": now}
            with ExitStack() as cursors:
                rows = [cursors.enter_context(closing(self._rows(source, arguments))) for source in sources]
                return self._filled(merge(*rows, reverse=True), limit, floor, results=results)

    def _filled(self, rows: Iterable[Sequence[object]], limit: int, floor: int, *, results: bool) -> Page:
        items = []
        size = 0
        for row in rows:
            item = item_of(self._ids, row)
            if results and item.status == "finished":
                item.result = self._connection.execute(SQL["one_result"], (item.seq,)).fetchone()[0]
            items.append(item)
            size += characters_of(item)
            if len(items) == limit or size > bounds.PAGE_CHARACTERS:
                return Page(items, item.id)
        return Page(items, self._ids.id_of(floor) if floor else "")

    def ahead(self, position: Position, most: int) -> int:
        """See `base.Store.ahead`."""
        rank, due_at, seq = position
        with self._transaction():
            return sum(
                self._connection.execute(SQL[name], (*arguments, most)).fetchone()[0]
                for name, arguments in (
                    ("ahead_same_moment", (rank, due_at, seq)),
                    ("ahead_same_rank", (rank, due_at)),
                    ("ahead_higher_rank", (rank,)),
                )
            )

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _before(self, cursor: str) -> int | None:
        """The row number that the page begins before; None where the cursor is none that was given out."""
        if not cursor:
            return NEWEST
        before = self._ids.seq_of(cursor)
        _, next_seq, _ = self._connection.execute(SQL["state"]).fetchone()
        return before if before is not None and before < next_seq else None

    def _floor(self, source: tuple[str, str], before: int) -> int:
        """The last row to be looked at; 0 where that is the very last."""
        name, value = source
        arguments = {"source": value, "before": before, "looked_at": bounds.LOOKED_AT - 1}
        row = self._connection.execute(SQL[f"floor_{name}"], arguments).fetchone()
        return int(row[0]) if row else 0

    def _rows(self, source: tuple[str, str], arguments: dict[str, object]) -> sqlite3.Cursor:
        name, value = source
        return self._connection.execute(SQL[f"page_{name}"], arguments | {"source": value})


def _arguments(wanted: Filter) -> dict[str, object]:
    """The filter's sets, as the statements take them."""
    return {part: orjson.dumps(sorted(getattr(wanted, part))).decode() for part in Filter.__slots__}
