"""The rows of one turn: as they were loaded, and as they are by now. The only place that knows what is to be saved."""

from collections.abc import Collection, Iterable

from leaseway_server.core.attempts import PRESUMED, Attempt, forgotten, remembered
from leaseway_server.core.commands import Changed, Posted
from leaseway_server.core.events import Event
from leaseway_server.core.lifecycle import Refusal, apply
from leaseway_server.core.model import Changes, Item, Status
from leaseway_server.core.policy import Policy
from leaseway_server.runtime.tally import count_changes
from leaseway_server.store.base import Turn


class Rows:
    """All items that the turn has to do with, by id, over an open transaction."""

    def __init__(self, turn: Turn, policy: Policy) -> None:
        self.now = 0
        """The turn's time, ms since the epoch; set by `load`."""
        self.new: dict[str, Posted] = {}
        self.changes: Changes = ()
        """What changed, with what goes as it was last; set by `save`, and so is `more`."""
        self.more: dict[Status, int] = {}
        """By how much the counts differ afterwards."""
        self.deleted: dict[str, Item] = {}
        """Those that go with this turn, as they were last; to `get` and `change` they are unknown already."""
        self._turn = turn
        self._policy = policy
        self._before: dict[str, Item] = {}
        self._items: dict[str, Item] = {}
        self._removed: list[Item] = []
        self._looked_at: dict[str, Item] = {}
        self._attempts: dict[tuple[int, int], Attempt | None] = {}

    async def load(self, ids: Collection[str], spare: Collection[str] = ()) -> list[str]:
        """Locks and reads the rows that are named, and of the `spare` ones those that no other server has locked; the
        time is read then. Gives the ids of those that others have."""
        passed: list[str] = []
        if ids:
            self._before = await self._turn.load(ids)
        if spare:
            free, passed = await self._turn.load_free(spare)
            self._before |= free
        self._items = dict(self._before)
        self.now = await self._turn.time()
        return passed

    async def load_more(self, found: Iterable[Item]) -> None:
        """Further rows that are locked. What is known of a row already stands."""
        for item in found:
            self.found(item)
        self.now = await self._turn.time()

    async def look(self, ids: Iterable[str]) -> None:
        """Reads rows that the turn has nothing else to do with, and locks none: see `shown`."""
        unknown = [item_id for item_id in ids if item_id not in self._items]
        if unknown:
            self._looked_at = await self._turn.look(unknown)

    def shown(self, item_id: str) -> Item | None:
        """The item as it is by now, or as it was looked at; None where there is none."""
        return self.get(item_id) or self._looked_at.get(item_id)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items and item_id not in self.deleted

    def __getitem__(self, item_id: str) -> Item:
        return self._items[item_id]

    def get(self, item_id: str) -> Item | None:
        """The item as it is by now, or None where it is not known."""
        return None if item_id in self.deleted else self._items.get(item_id)

    def all(self) -> Iterable[Item]:
        """All of them, as they are by now."""
        return self._items.values()

    def changed(self, item: Item) -> bool:
        """Whether an item, as it is by now, is new or is not as it was when the turn began."""
        return self._before.get(item.id) is not item

    def found(self, item: Item) -> Item:
        """A row that another statement of the transaction gave: what is known of it already stands."""
        if item.id not in self._items:
            self._before[item.id] = self._items[item.id] = item
        return self._items[item.id]

    def post(self, posted: Posted) -> None:
        """A new item. `posted` says to the end of the turn how it stands."""
        self._items[posted.item.id] = posted.item
        self.new[posted.item.id] = posted

    def let_go(self, item_id: str) -> None:
        """The item holds its key no more, which no view shows."""
        item = self._items[item_id] = self._items[item_id].copy()
        item.held = 0

    def delete(self, item_id: str) -> Changed:
        """The item goes, where it has ended. (Nobody can name one that was posted in this very turn.)"""
        item = self.get(item_id)
        if item is None:
            return Changed(accepted=False, item=None, reason="unknown")
        if not item.terminal:
            return Changed(accepted=False, item=item, reason="state")
        self.deleted[item_id] = item
        return Changed(accepted=True, item=item)

    def change(self, item_id: str, event: Event) -> Changed:
        """Applies the event. A refusal changes nothing."""
        item = self.get(item_id)
        if item is None:
            return Changed(accepted=False, item=None, reason="unknown")
        after = apply(item, event, self.now, self._policy)
        if isinstance(after, Refusal):
            return Changed(accepted=False, item=item, reason=after.reason, duplicate=after.duplicate)
        self._items[item_id] = after
        if after.ending != item.ending:
            self._end_attempt(item, after)
        if self.new and (posted := self.new.get(item_id)):
            posted.item = after
        return Changed(accepted=True, item=after)

    def _end_attempt(self, before: Item, after: Item) -> None:
        if attempt := remembered(before, after):
            self._attempts[after.seq, attempt.attempts] = attempt
        elif number := forgotten(before, after):
            self._attempts[after.seq, number] = None

    def given_back(self, before: Item) -> bool:
        """Whether the attempt in which the item was when the turn began was ended by its worker's own report."""
        attempt = self._attempts.get((before.seq, before.attempts))
        return attempt is not None and attempt.ending not in PRESUMED

    def remove(self, item: Item) -> None:
        """The item, as the store has it, goes with all that belongs to it."""
        self._before.pop(item.id, None)
        self._items.pop(item.id, None)
        self._removed.append(item)

    def gone(self) -> list[Item]:
        """All that go with this turn, on request or because their time is over."""
        return [*self.deleted.values(), *self._removed]

    def _changed(self) -> list[tuple[Item, Item]]:
        """The rows that were there before, stay, and are others now, as (before, after)."""
        items, deleted = self._items, self.deleted
        rows = [(old, items[old.id]) for old in self._before.values() if items[old.id] is not old]
        return [row for row in rows if row[0].id not in deleted] if deleted else rows

    async def with_bodies(self, items: Collection[Item]) -> None:
        """Fills in the bodies that are not there yet."""
        missing = [item for item in items if not item.body]
        if missing:
            await self._turn.read_bodies(missing)

    async def save_attempts(self) -> None:
        """Writes which attempts ended, or proved not to have."""
        if self._attempts:
            await self._turn.save_attempts(self._attempts)

    async def save(self) -> None:
        """Writes what is new, what changed and what goes, each once, and how many there are then."""
        new = [posted.item for posted in self.new.values()]
        if new:
            await self._turn.insert(new)
        changed = self._changed()
        if changed:
            await self._turn.save(changed)
        gone = self.gone()
        if gone:
            await self._turn.delete(gone)
        deleted = [(self._before[item_id], item) for item_id, item in self.deleted.items()]
        self.changes = [*((None, item) for item in new), *changed, *deleted]
        self.more = count_changes(self.changes, gone)
        if self.more:
            await self._turn.count(self.more)
