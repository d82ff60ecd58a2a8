"""What a page of a list goes through, and how much is in it: the same in every store. No SQL."""

from typing import Final

from leaseway_server.core.listing import Filter
from leaseway_server.core.model import Item

NEWEST: Final = 2**63 - 1
"""The first page begins before this row number."""
TROUBLE: Final = frozenset({"failed", "dead", "cancelled", "expired"})
"""What has an index by status: the ends that a person looks for."""


def index_for(wanted: Filter) -> tuple[str, list[str]]:
    """The index to go through, and the values to look for there: together they hold every item that is wanted.

    "all" is that of all rows, of which no value is asked.
    """
    if wanted.key:
        return "key", sorted(wanted.key)
    if wanted.statuses() <= TROUBLE:
        return "trouble", sorted(wanted.statuses())
    return "all", [""]


def characters_of(item: Item) -> int:
    """How much of a page's `bounds.PAGE_CHARACTERS` the item takes."""
    return len(item.result) + len(item.progress) + len(item.error) + len(item.meta)
