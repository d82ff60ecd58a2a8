"""Where the data of the queue under random programs live, over restarts and crashes: in a dictionary, and in files.

Owns what of a store is looked at behind the engine's back: all that is stored, as it is stored.
"""

import shutil
from pathlib import Path
from typing import Final, Protocol

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.match import MOST_MATCHES, Match
from leaseway_server.core.model import Item
from leaseway_server.store.base import Store
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.postgres.store import PostgresStore
from leaseway_server.store.sqlite.rematch import rematch
from leaseway_server.store.sqlite.store import SqliteStore
from support.clock import ManualClock
from support.memory_store import Disk, MemoryStore

_TEXTS: Final = [f"match_{column}" for column in range(1, MOST_MATCHES + 1)]


class Home(Protocol):
    """Where a store's data live, over the restarts of its server."""

    async def open(self, clock: ManualClock) -> Store:
        """The store, begun anew."""
        ...

    async def close(self) -> None:
        """Lets go of what outlives a store."""
        ...

    def crash(self) -> None:
        """The server is killed: what was committed is there, and nobody said goodbye."""
        ...

    def break_off_indexing(self, match: Match) -> None:
        """Begins to index other members, and does not come to an end."""
        ...

    def rows(self) -> list[Item]:
        """All items as they are stored, in the order of row numbers, with `body`, `result` and `match`."""
        ...

    def attempts(self) -> dict[tuple[int, int], Attempt]:
        """All attempts as they are stored, by the item's row number and theirs."""
        ...


class Twin(Home, Protocol):
    """A home with numbers of its own, which the dictionary follows."""

    @property
    def store(self) -> SqliteStore | PostgresStore:
        """The store that is open, or was last."""
        ...

    def next_number(self) -> int:
        """The row number that is given out next."""
        ...


class MemoryHome:
    """A dictionary. It numbers its items as its twin does, so that what is equal in order falls alike on both sides."""

    def __init__(self, twin: Twin) -> None:
        self._disk = Disk()
        self._twin = twin

    async def open(self, clock: ManualClock) -> Store:
        """A store on the same disk. The twin must be open already."""
        self._disk.next_seq = self._twin.next_number()
        self._disk.epoch = self._twin.store.epoch - 1
        return MemoryStore(self._disk, clock.now, self._twin.store.ids.id_of)

    async def close(self) -> None:
        """Nothing is held."""

    def crash(self) -> None:
        """Nothing is held by the store."""

    def break_off_indexing(self, match: Match) -> None:
        """Done at once, or not at all."""

    def rows(self) -> list[Item]:
        """The disk's."""
        items = [item.copy() for _, item in sorted(self._disk.rows.items())]
        for item in items:
            item.match = (*item.match, *[""] * (MOST_MATCHES - len(item.match)))
        return items

    def attempts(self) -> dict[tuple[int, int], Attempt]:
        """The disk's."""
        return dict(self._disk.attempts)


class SqliteHome:
    """A file in a folder; after a crash the copy of it in the next folder, log and all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starts = 0
        self._path = folder / "0" / "queue.db"
        self.store: SqliteStore

    async def open(self, clock: ManualClock) -> Store:
        """A store on the file."""
        self.store = SqliteStore.open(self._path, clock.now)
        return self.store

    async def close(self) -> None:
        """The folder is its owner's."""

    def next_number(self) -> int:
        """The number behind the last one."""
        return self.store._next_seq

    def crash(self) -> None:
        """The files as they stand at this moment; a clean close would write the log back."""
        self._starts += 1
        after = self._folder / str(self._starts) / "queue.db"
        after.parent.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(self._path.with_name(f"queue.db{ending}"), after.with_name(f"queue.db{ending}"))
        self._path = after

    def break_off_indexing(self, match: Match) -> None:
        """After the first slice."""
        next(rematch(self.store.connection, match), 0)

    def rows(self) -> list[Item]:
        """The file's."""
        store = self.store
        execute = store.connection.execute
        items = [store.item(row) for row in execute(f"SELECT {', '.join(COLUMNS)} FROM item ORDER BY seq")]  # noqa: S608
        bodies, results = dict(execute("SELECT * FROM body")), dict(execute("SELECT * FROM result"))
        assert bodies.keys() == {item.seq for item in items}
        assert results.keys() == {item.seq for item in items if item.status == "finished"}
        texts = execute(f"SELECT {', '.join(_TEXTS)} FROM item ORDER BY seq")  # noqa: S608
        for item, match in zip(items, texts, strict=True):
            item.body, item.result, item.match = bodies[item.seq], results.get(item.seq, ""), match
        return items

    def attempts(self) -> dict[tuple[int, int], Attempt]:
        """The file's."""
        rows = self.store.connection.execute("SELECT * FROM attempt")
        return {(seq, number): Attempt(number, *rest) for seq, number, *rest in rows}
