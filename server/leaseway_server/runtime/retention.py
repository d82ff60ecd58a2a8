"""Ended items whose time is over go, a slice a turn: nothing durable is needed, and no claim is to feel it.

What may go is `core/retention.py`'s, what goes with an item the store's.
"""

from collections.abc import Collection
from typing import Final

from leaseway_server.core.retention import Keep
from leaseway_server.runtime.rows import Rows
from leaseway_server.store.base import Turn

SLICE: Final = 25
"""So many items go in one turn, which takes about a ms; the next turn goes on."""
LOOK_MS: Final = 5_000
"""While there are ended items, their time is looked at so often: they go within ten seconds of it (PROTOCOL.md §7)."""


async def prune(turn: Turn, rows: Rows, keep: Keep, read: Collection[str]) -> bool:
    """Has a slice go. Gives whether there may be more.

    What the turn has to do with otherwise, as what it is to `read`, stays until the next.
    """
    left = SLICE
    for which in keep.outstayed(rows.now):
        found = await turn.outstayed(which, left)
        for item in found:
            if item.id not in rows and item.id not in read:
                rows.remove(item)
        left -= len(found)
        if not left:
            break
    return left < SLICE
