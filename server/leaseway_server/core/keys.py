"""Keys of posts (PROTOCOL.md §5): whose they are, how long they are held, and what is the same post again.

Pure. Which items hold which keys is the store's to know, and the turn's to decide (`runtime/keys.py`).
"""

from typing import Final, TypeAlias

from leaseway_server.core.jsontext import equal, parse
from leaseway_server.core.model import Item, NewItem

Key: TypeAlias = tuple[str, str]
"""(poster, key); the poster is "" where a queue's posters share their keys."""

GRAIN: Final = 1_000
"""Keys are let go at full seconds (ms), so that one sweep has many of them."""
MOST_LONGER: Final = 5
"""Of two equal values' compact texts none is longer than the other by more: 10000000000000000000 is 1e19."""


def key_of(posted: Item | NewItem, own_only: bool) -> Key:
    """The key of an item that has one; on a queue whose posters see only what is theirs it is the poster's (§2)."""
    return (posted.posted_by if own_only else "", posted.key)


def held_until(item: Item, window: int) -> int:
    """Until when the item holds its key: the later of its posting + `window` (ms) and its end. 0 while it is open."""
    return max(item.posted_at + window, item.finished_at) if item.finished_at else 0


def holds(item: Item, window: int, now: int) -> bool:
    """Whether the item still holds its key at `now`, though no sweep may have come by yet."""
    return bool(item.held) and not 0 < held_until(item, window) <= now


def swept_at(item: Item, window: int) -> int:
    """When a sweep lets the key go: at the full second after `held_until`; 0 while the item is open."""
    return -(-held_until(item, window) // GRAIN) * GRAIN


def longest_equal(body: str) -> int:
    """No text of more bytes has a value that is equal to the one of `body`."""
    return MOST_LONGER * (len(body) if body.isascii() else len(body.encode()))


def same(one: str, other: str) -> bool:
    """Whether two bodies, as JSON text, are equal as criteria compare: 1 = 1.0, not true."""
    return one == other or equal(parse(one), parse(other))
