"""Locks that no row stands for, by names; each until its transaction is over. PostgreSQL calls them advisory."""

from collections.abc import Collection
from hashlib import blake2b
from typing import Final

from leaseway_server.store.postgres.database import Connection
from leaseway_server.store.postgres.statements import SQL

KEY_LOCKS: Final = 64
"""A turn with more keys than this has all keys of the queue to itself: each lock has its place in a table of a fixed
size."""


class KeyLocks:
    """The keys that one turn has locked, of the queue with this number."""

    def __init__(self, connection: Connection, queue: int) -> None:
        self._connection = connection
        self._queue = queue
        self._had: set[str] = set()

    async def take(self, keys: Collection[str]) -> None:
        """Each key by itself, or all of the queue's at once; the locks of the first kind count as one of the second."""
        new = set(keys) - self._had
        if not new:
            return
        self._had |= new
        all_keys = number_of(f"{self._queue}")
        if len(new) > KEY_LOCKS:
            await self._connection.fetch(SQL["lock"], all_keys)
            return
        locks = sorted({number_of(f"{self._queue} {key}") for key in new})
        await self._connection.fetch(SQL["lock_keys"], [all_keys, *locks], all_keys)


async def lock_numbers(connection: Connection) -> None:
    """Nobody else raises the numbers of items meanwhile: so none lowers what another has raised."""
    await connection.fetch(SQL["lock"], number_of("numbers"))


def number_of(name: str) -> int:
    """By which the database knows this lock."""
    return int.from_bytes(blake2b(f"leaseway {name}".encode(), digest_size=8).digest(), "big", signed=True)
