"""The keys that a turn has to do with: who holds them, and who takes them.

All of it follows from the rows and from what is configured now: an item that is `held` holds its key for as long as
`core/keys.py` says, and whose keys count for a post is the queue's present `visibility` to say. A turn that names no
key asks the store nothing.
"""

from collections.abc import Collection, Iterable

from leaseway_server.core.keys import Key, holds, key_of, longest_equal
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn


class Keys:
    """The keys of one turn, over an open transaction."""

    def __init__(self, turn: Turn, rows: Rows, queue: Queue) -> None:
        self._turn = turn
        self._rows = rows
        self._own_only = queue.own_only
        self._window = queue.policy.dedupe_window
        self._at = 0
        """The time of the question who holds what (ms since the epoch), which its answers are judged by."""
        self._holders: dict[Key, dict[str, None]] = {}
        """The ids of who holds a key, or may have let it pass. Where `visibility` was "own" before, several may."""

    async def lock(self, posts: Iterable[NewItem], retried: Collection[str]) -> None:
        """Nobody else posts their keys meanwhile; call it before rows are loaded. A key never changes."""
        rows = await self._turn.look(retried) if retried else {}
        keys = {new.key for new in posts} | {item.key for item in rows.values()}
        await self._turn.lock_keys(keys - {""})

    async def load(self, posts: Iterable[NewItem], retried: Iterable[str]) -> None:
        """Reads who holds the keys of these posts, and of these rows that are there already."""
        posts = [new for new in posts if new.key]
        rows = map(self._rows.get, retried)
        named: list[Item | NewItem] = [*posts, *(item for item in rows if item is not None and item.key)]
        if named:
            self._at = self._rows.now
            found = await self._find(named)
            await self._rows.load_more(found)
            for item in found:
                self._holders.setdefault(self.key(item), {})[item.id] = None
            await self._load_bodies(posts)

    async def _find(self, named: Collection[Item | NewItem]) -> list[Item]:
        found = await self._turn.key_holders({(each.posted_by, each.key) for each in named})
        if not self._own_only:
            found += await self._turn.shared_key_holders({each.key for each in named}, self._at - self._window)
        return found

    async def _load_bodies(self, posts: Collection[NewItem]) -> None:
        """Reads the bodies that posts may be equal to: what is longer than that need not be read to be another."""
        longest: dict[str, int] = {}
        for new in posts:
            for holder in self._holders.get(self.key(new), ()):
                longest[holder] = max(longest.get(holder, 0), longest_equal(new.body))
        sizes = await self._turn.body_sizes([self._rows[item_id] for item_id in longest])
        alike = [self._rows[item_id] for item_id, size in sizes.items() if size <= longest[item_id]]
        await self._rows.with_bodies(alike)

    def holder(self, posted: Item | NewItem) -> Item | None:
        """The item that holds the key of this one now, the poster's own before another's.

        It is without `body` where none of the turn's posts can equal it.
        """
        rows = map(self._rows.get, self._holders.get(self.key(posted), ()))
        holders = [item for item in rows if item is not None and self._holds(item)]
        return min(holders, key=lambda item: item.posted_by != posted.posted_by, default=None)

    def take(self, item: Item) -> None:
        """This item has its key from now on; who had it, and let it pass, has it no more."""
        holders = self._holders.setdefault(self.key(item), {})
        for before in map(self._rows.get, holders):
            if before is not None and before.held and not self._holds(before):
                self._rows.let_go(before.id)
        holders[item.id] = None

    async def sweep(self, limit: int) -> int:
        """Lets go of keys whose time is over; an item that was retried in this turn keeps its own. Gives how many rows
        there were."""
        now = self._rows.now
        rows = await self._turn.past_keys(now - self._window, limit)
        for row in rows:
            item = self._rows.found(row)
            if item.held and not holds(item, self._window, now):
                self._rows.let_go(item.id)
        return len(rows)

    def key(self, posted: Item | NewItem) -> Key:
        """The key of what has one, as no two may hold it here."""
        return key_of(posted, self._own_only)

    def _holds(self, item: Item) -> bool:
        return holds(item, self._window, self._at)
