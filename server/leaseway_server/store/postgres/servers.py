"""The servers that share a database: each has a row, and says again and again that it lives."""

from typing import Final

from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.statements import SQL

GONE_MS: Final = 3_500
"""A server that said nothing for so long, by the database's clock, is gone."""
NUMBERS_A_MS: Final = 10
"""Bits: a database whose queues get less than 1,024 posts a ms, over its life, meets no number twice after a restored
backup."""
AHEAD: Final = 1 << 20
"""So many numbers the clock has to be ahead before they are raised: nobody takes as many in the time of a statement."""


async def enter(database: Database, name: str, version: str) -> int:
    """A new server is there. Gives its number, its epoch: none before had it."""
    async with database.transaction() as connection:
        await connection.execute(SQL["raise_numbers"], NUMBERS_A_MS, AHEAD)
        return int(await connection.fetchval(SQL["enter"], name, version))


async def beat(database: Database, epoch: int) -> None:
    """The server lives."""
    async with database.transaction() as connection:
        await connection.execute(SQL["beat"], epoch)


async def leave(database: Database, epoch: int) -> None:
    """The server is there no more; what it counted stays counted."""
    async with database.transaction() as connection:
        await connection.execute(SQL["leave"], epoch)
