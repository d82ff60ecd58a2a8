"""The part of a turn that reads what a monitor follows: its own items, or all (PROTOCOL.md §3, `mine` and `all`).

A page at a time, bounded in rows and in characters, so that no claim feels it.
"""

from typing import Final

from leaseway_server.core.commands import Followed, ReadFollowed
from leaseway_server.core.model import Item
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn

PAGE: Final = 250
"""So many rows a command looks at."""
PAGE_CHARACTERS: Final = 4 * 1024 * 1024
PAGE_AT_ONCE: Final = 1024 * 1024
"""All pages of a turn end where they are so long, and one page does; what is left is for the next."""


class FollowedPages:
    """What one turn reads. The items are given as they are at its end."""

    def __init__(self, turn: Turn, rows: Rows) -> None:
        self._turn = turn
        self._rows = rows
        self._asked: list[tuple[ReadFollowed, Followed]] = []

    def add(self, command: ReadFollowed) -> Followed:
        """A command of this turn. What is given back is filled in by `read`."""
        followed = Followed(now=self._rows.now)
        self._asked.append((command, followed))
        return followed

    async def read(self) -> None:
        """Fills in all of them; to be called when no item changes any more."""
        budget = PAGE_CHARACTERS
        for command, followed in self._asked:
            budget = await self._fill(command, followed, budget)

    async def _fill(self, command: ReadFollowed, followed: Followed, budget: int) -> int:
        """One page. Gives what is left of the budget."""
        followed.before = command.before
        if budget <= 0:
            return budget
        found = [self._rows.found(row) for row in await self._look(command)]
        room = min(budget, PAGE_AT_ONCE)
        for item in found:
            followed.before = item.seq
            if item.id not in self._rows or (item.terminal and not command.poster):
                continue
            if item.status == "finished" and not item.result:
                await self._turn.read_results([item])
            followed.items.append(item)
            room -= _characters(item)
            budget -= _characters(item)
            if room <= 0:
                return budget
        if len(found) < PAGE:
            followed.before = 0
        return budget

    async def _look(self, command: ReadFollowed) -> list[Item]:
        if command.poster:
            return await self._turn.mine(command.poster, command.before, PAGE)
        return await self._turn.newest(command.before, PAGE)


def _characters(item: Item) -> int:
    return len(item.result) + len(item.progress) + len(item.error) + len(item.meta)
