"""A database that is away for a while, though its PostgreSQL runs: others may use that one meanwhile.

async with away(postgres, name):
    ...
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from support.postgres import Postgres


async def cut(postgres: Postgres, name: str) -> None:
    """Every connection to the database is cut."""
    connection = await asyncpg.connect(postgres.url)
    await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await connection.close()


@asynccontextmanager
async def away(postgres: Postgres, name: str) -> AsyncIterator[None]:
    """There is no database of this name, until the `with` ends; what was in it is there again then."""
    await _rename(postgres, name, f"{name}_away")
    try:
        yield
    finally:
        await _rename(postgres, f"{name}_away", name)


async def _rename(postgres: Postgres, name: str, other: str) -> None:
    """It can only be done while nobody is connected, and servers come again and again."""
    await postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await cut(postgres, name)
    await postgres.run(f"ALTER DATABASE {name} RENAME TO {other}", f"ALTER DATABASE {other} ALLOW_CONNECTIONS true")
