"""How a server comes to share a database, and when one is gone; what they tell each other is in `neighbours.py`."""

from typing import Final

from leaseway_server.store.postgres.database import Database
from leaseway_server.store.postgres.statements import SQL

GONE_MS: Final = 3_500
"""A server that said nothing for so long, by the database's clock, is gone."""


async def enter(database: Database, name: str, version: str) -> int:
    """A new server is there. Gives its number, its epoch: none before had it."""
    async with database.transaction() as connection:
        return int(await connection.fetchval(SQL["enter"], name, version))
