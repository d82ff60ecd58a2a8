"""Keys of posts (PROTOCOL.md §5): whose they are, how long they are held, and what is the same post again.

Pure. Which items hold which keys is the store's to know, and the turn's to decide (`runtime/keys.py`).
"""

from typing import Final, TypeAlias

from leaseway_server.core.jsontext import equal, parse
from leaseway_server.core.model import Item, NewItem

Key: TypeAlias = tuple[str, str]
"""(poster, key)."""

GRAIN: Final = 1_000
"""Keys are let go at full seconds (ms), so that one sweep has many of them."""
MOST_LONGER: Final = 5
"""Of two equal values' compact texts none is longer than the other by more: 10000000000000000000 is 1e19."""


def key_of(posted: Item | NewItem, own_only: bool) -> Key:
    """The key that no two may hold; the poster is "" where a queue's posters share their keys (§2)."""
    return (posted.posted_by if own_only else "", posted.key)


def holds(item: Item, window: int, now: int) -> bool:
    """Whether the item holds its key at `now`: while it is open, and for `window` (ms) after its post.

    So it does to the later of both, by the window that is configured now; no sweep need have come by.
    """
    return bool(item.held) and (not item.finished_at or now < item.posted_at + window)


def swept_at(posted_at: int, window: int) -> int:
    """When a sweep lets go of the key of an ended item that was posted then: at the full second after the window."""
    return -(-(posted_at + window) // GRAIN) * GRAIN


def longest_equal(body: str) -> int:
    """No text of more bytes has a value that is equal to the one of `body`."""
    return MOST_LONGER * (len(body) if body.isascii() else len(body.encode()))


def same(one: str, other: str) -> bool:
    """Whether two bodies, as JSON text, are equal as criteria compare: 1 = 1.0, not true."""
    return one == other or equal(parse(one), parse(other))
