"""How a server comes to share a database, and when one is gone; what they tell each other is in `neighbours.py`."""

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
