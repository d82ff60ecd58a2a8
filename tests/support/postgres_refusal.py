"""A database that may not be fit, a user who may do nothing, and why it is not opened.

async with empty_database(postgres) as name, user(postgres) as who:
    told = await refusal(postgres.url_of(name, user=who, password=SECRET))
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.postgres.database import Database
from support.postgres import Postgres

SECRET: Final = "s3cr3t"
"""The password of every such user, which is never told."""


@asynccontextmanager
async def empty_database(postgres: Postgres, how: str = "ENCODING 'UTF8'") -> AsyncIterator[str]:
    """The name of a new database without a table."""
    name = postgres.new_name("empty")
    await postgres.run(f"CREATE DATABASE {name} {how} TEMPLATE template0")
    try:
        yield name
    finally:
        await postgres.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@asynccontextmanager
async def user(postgres: Postgres, how: str = "") -> AsyncIterator[str]:
    """The name of a new user, with this password, who may do nothing."""
    name = postgres.new_name("user")
    await postgres.run(f"CREATE USER {name} PASSWORD '{SECRET}' {how}")
    try:
        yield name
    finally:
        await postgres.run(f"DROP USER {name}")


async def refusal(url: str, **how: Any) -> str:
    """Why it is not opened."""
    with pytest.raises(StoreRefused) as refused:
        await Database.open(url, **how)
    told: BaseException | None = refused.value
    assert SECRET not in str(told)
    assert "\n" not in str(told)
    return str(told)
