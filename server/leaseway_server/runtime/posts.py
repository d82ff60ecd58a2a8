"""The posts of a turn: their numbers, what their keys say, whether there is room; an array wholly or not at all."""

from collections.abc import Iterator, Sequence

from leaseway_server.core.commands import Post, PostAll, Posted, PostedAll
from leaseway_server.core.errors import Conflict, LimitReached, Refused
from leaseway_server.core.keys import Key, same
from leaseway_server.core.lifecycle import create
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.keys import Keys
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn


def news_of(command: Post | PostAll) -> Sequence[NewItem]:
    """The items that it posts."""
    return (command.new,) if isinstance(command, Post) else command.news


class Posts:
    """What a turn posts, over an open transaction. `pending` items wait already."""

    def __init__(self, turn: Turn, rows: Rows, keys: Keys, queue: Queue, pending: int) -> None:
        self._turn = turn
        self._rows = rows
        self._keys = keys
        self._queue = queue
        self._pending = pending
        self._numbers: Iterator[tuple[int, str]] = iter(())
        self._duplicates: list[Posted] = []

    async def number(self, posts: int) -> None:
        """Row numbers and ids for so many posts."""
        if posts:
            self._numbers = iter(await self._turn.new_ids(posts))

    def post(self, command: Post | PostAll) -> Posted | PostedAll:
        """All of it or nothing. Raises `Conflict`, `LimitReached`, `BadMessage`; in an array with the index."""
        mine: dict[Key, Item] = {}
        if isinstance(command, Post):
            return self._keep([self._plan(command.new, mine)])[0]
        return PostedAll(tuple(self._keep([self._plan_at(index, new, mine) for index, new in enumerate(command.news)])))

    def _plan_at(self, index: int, new: NewItem, mine: dict[Key, Item]) -> Posted:
        try:
            return self._plan(new, mine)
        except Refused as refused:
            raise refused.within(f"/{index}") from None

    def _plan(self, new: NewItem, mine: dict[Key, Item]) -> Posted:
        """The item that there would be, or the one that has the key. `mine` are those of the same array, by key."""
        if not new.key:
            return Posted(self._new(new))
        key = self._keys.key(new)
        holder = mine.get(key) or self._keys.holder(new)
        if holder is None:
            mine[key] = self._new(new)
            return Posted(mine[key])
        if not holder.body or not same(holder.body, new.body):
            which = "" if key in mine else _named(holder, new)  # One of this array will not have been posted.
            raise Conflict(f"this key is held by another item{which}", path="/key")
        return Posted(holder, duplicate=True)

    def _new(self, new: NewItem) -> Item:
        seq, item_id = next(self._numbers)
        return create(new, item_id, seq, self._rows.now, self._queue.policy)

    def _keep(self, planned: list[Posted]) -> list[Posted]:
        """Posts what is new of it, if there is room for all of that."""
        new = [posted for posted in planned if not posted.duplicate]
        if new and self._pending + len(self._rows.new) + len(new) > self._queue.max_pending:
            raise LimitReached(f"{self._queue.max_pending} items wait at most, which is all that the queue takes")
        for posted in new:
            self._rows.post(posted)
            if posted.item.key:
                self._keys.take(posted.item)
        self._duplicates += [posted for posted in planned if posted.duplicate]
        return planned

    def settle(self) -> None:
        """What was there before is told as it stands at the end of the turn."""
        for posted in self._duplicates:
            posted.item = self._rows.get(posted.item.id) or posted.item


def _named(holder: Item, new: NewItem) -> str:
    """Its id, for nobody but the user who posted it: to know an id is to know more than a key."""
    return f" of yours, {holder.id}" if new.posted_by and holder.posted_by == new.posted_by else ""
