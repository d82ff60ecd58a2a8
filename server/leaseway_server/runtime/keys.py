"""The keys that a turn has to do with: who holds them, who takes them, and what is to be written of that.

What is written follows from the rows alone, as they were and as they are: an item that is `held` holds its key. A turn
that names no key asks the store nothing.
"""

from collections.abc import Collection, Iterable

from leaseway_server.core.keys import Key, holds, key_of, longest_equal, swept_at
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
        self._holders: dict[Key, str] = {}

    async def load(self, posts: Iterable[NewItem], retried: Iterable[str]) -> None:
        """Reads who holds the keys of these posts, and of these rows that are there already."""
        posts = [new for new in posts if new.key]
        keys = {self.key(new) for new in posts}
        keys |= {self.key(item) for item in map(self._rows.get, retried) if item is not None and item.key}
        if keys:
            self._holders = await self._turn.key_holders(keys)
            await self._rows.load_more(self._holders.values())
            await self._load_bodies(posts)

    async def _load_bodies(self, posts: Collection[NewItem]) -> None:
        """Reads the bodies that posts may be equal to: what is longer than that need not be read to be another."""
        longest: dict[str, int] = {}
        for new in posts:
            if holder := self._holders.get(self.key(new)):
                longest[holder] = max(longest.get(holder, 0), longest_equal(new.body))
        sizes = await self._turn.body_sizes([self._rows[item_id] for item_id in longest])
        alike = [self._rows[item_id] for item_id, size in sizes.items() if size <= longest[item_id]]
        await self._rows.with_bodies(alike)

    def holder(self, posted: Item | NewItem) -> Item | None:
        """The item that holds the key of this one now; without `body` where none of the turn's posts can equal it."""
        item = self._rows.get(self._holders.get(self.key(posted), ""))
        return item if item is not None and holds(item, self._window, self._rows.now) else None

    def take(self, item: Item) -> None:
        """This item has its key from now on; who had it, and let it pass, has it no more."""
        key = self.key(item)
        before = self._rows.get(self._holders.get(key, ""))
        if before is not None and before.id != item.id:
            self._rows.let_go(before.id)
        self._holders[key] = item.id

    async def sweep(self, limit: int) -> None:
        """Lets go of keys whose time is over; an item that was retried in this turn keeps its own."""
        for found in await self._turn.past_keys(self._rows.now, limit):
            item = self._rows.found(found)
            if item.finished_at:
                self._rows.let_go(item.id)

    async def save(self) -> None:
        """Writes who holds which key, and until when, where that is another than it was."""
        deleted = self._rows.deleted
        keyed = [(old, new) for old, new in self._rows.changes() if new.key and new.id not in deleted]
        freed = [old for old, new in keyed if old is not None and old.held and not new.held]
        held = {self.key(new): self._until(new) for old, new in keyed if new.held and not (old and old.held)}
        ended = [self._until(new) for old, new in keyed if _ends_otherwise(old, new)]
        if freed:
            await self._turn.free_keys(freed)
        if held:
            await self._turn.hold_keys(held)
        if ended:
            await self._turn.end_keys(ended)

    def key(self, posted: Item | NewItem) -> Key:
        """The key of what has one, as it is held here."""
        return key_of(posted, self._own_only)

    def _until(self, item: Item) -> tuple[Item, int]:
        return item, swept_at(item, self._window)


def _ends_otherwise(old: Item | None, new: Item) -> bool:
    """Whether an item that holds its key, and did so before, has another end by now, or none any more."""
    return old is not None and bool(old.held and new.held) and old.finished_at != new.finished_at
