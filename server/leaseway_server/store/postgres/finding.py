"""What a database is found to be, for `leaseway check`: it is asked, and nothing is changed."""

from dataclasses import dataclass

import asyncpg

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.postgres.database import first_connection
from leaseway_server.store.postgres.schema import SQL, check_start, newest, version_of
from leaseway_server.store.postgres.servers import GONE_MS


@dataclass(frozen=True, slots=True)
class Finding:
    """`postgres` is its version; `tables` that of ours, 0 where there are none yet; `newest` the one we would make.

    `pooled`: something stands in between, such as PgBouncer. `servers` are those that are at work there.
    """

    postgres: str
    tables: int
    newest: int
    pooled: bool
    queues: tuple[str, ...]
    servers: int


async def look_at(url: str, listen_url: str) -> Finding:
    """Connects to both (`listen_url` "": there is none). Raises `StoreRefused`, also where they do not fit together,
    and where a start would."""
    async with first_connection(url) as first:
        tables = await version_of(first.connection, first.address.shown)
        await check_start(first.connection, first.address.shown, tables)
        queues, servers = (tables and await first.connection.fetchrow(SQL["found"], GONE_MS)) or ((), 0)
        identity = await _identity(first.connection)
    if listen_url:
        await _check_listening(listen_url, identity)
    version = first.connection.get_server_version()
    return Finding(f"{version.major}.{version.minor}", tables, newest(), first.pooled, tuple(queues), servers)


async def _check_listening(url: str, identity: tuple[object, ...]) -> None:
    async with first_connection(url) as first:
        same = await _identity(first.connection) == identity
    if fault := unfit(first.address.shown, same=same, pooled=first.pooled):
        raise StoreRefused(fault)


def unfit(where: str, *, same: bool, pooled: bool) -> str:
    """Why a `listen_url` that leads there is of no use; "" where it is. `same`: it is the database of `store`."""
    if not same:
        return f"listen_url leads to another database than store does ({where})"
    if pooled:
        return (
            f"listen_url leads through a pooler ({where}), where no news are heard; "
            "let it lead to PostgreSQL itself, or take it out: then servers look for news each second"
        )
    return ""


async def _identity(connection: asyncpg.Connection) -> tuple[object, ...]:
    """What tells one database from another, whatever way leads there."""
    return tuple(await connection.fetchrow(SQL["identity"]) or ())
