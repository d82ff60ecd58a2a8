"""The tables in the database: whose they are, which version, and how they come to be the newest.

Each step is a transaction under one lock: servers that start at the same time wait for each other, and a step that was
cut short never was.
"""

from typing import Final

import asyncpg

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.postgres.faults import said_by
from leaseway_server.store.queries import load_migrations, load_queries

PACKAGE: Final = "leaseway_server.store.postgres"
SQL: Final = load_queries(PACKAGE, "schema.sql")
OLDEST: Final = 14
"""The first PostgreSQL that has all that our statements need."""
NEW_DATABASE: Final = "CREATE DATABASE NAME ENCODING 'UTF8' TEMPLATE template0"
"""How a database is made that we can use, for people."""
TABLES: Final = frozenset(
    {
        "version",
        "queue",
        "server",
        "share",
        "change",
        "activity",
        "token",
        "ticket",
        "access",
        "item",
        "body",
        "result",
        "attempt",
    }
)


def newest() -> int:
    """The version of the tables that this Leaseway makes."""
    return load_migrations(PACKAGE)[-1][0]


async def check_server(connection: asyncpg.Connection, where: str, oldest: int = OLDEST) -> None:
    """Raises `StoreRefused` where this PostgreSQL is too old, or the database cannot hold every text."""
    major = connection.get_server_version().major
    if major < oldest:
        raise StoreRefused(f"{where} is PostgreSQL {major}; Leaseway needs {oldest} or newer")
    encoding = await connection.fetchval(SQL["encoding"])
    if encoding != "UTF8":
        raise StoreRefused(
            f"the database {where} has the encoding {encoding}, which cannot hold every text; "
            f"make another one with {NEW_DATABASE}"
        )


async def migrate(connection: asyncpg.Connection, where: str) -> None:
    """Brings the tables to the newest version. Raises `StoreRefused` where they are not ours or too new, or where this
    user may not do what is needed."""
    await _check_writable(connection, where)
    try:
        while not await _step(connection, where):
            pass
        await _check_rights(connection, where)
    except asyncpg.InsufficientPrivilegeError as error:
        raise await _without_rights(connection, where, said_by(error)) from error
    except asyncpg.PostgresError as error:
        raise StoreRefused(
            f"Leaseway's tables in the database {where} cannot be made or brought up to date: {said_by(error)}"
        ) from error


async def check_tables(connection: asyncpg.Connection, where: str) -> None:
    """Raises `StoreRefused` where there are no tables, or not those of this version; changes nothing."""
    version = await version_of(connection, where)
    if not version:
        raise StoreRefused(f"there is no store of Leaseway in the database {where}; a start of the server makes one")
    if version < newest():
        raise StoreRefused(
            f"the tables in the database {where} are an older Leaseway's, which a start of the server brings up to date"
        )


async def check_start(connection: asyncpg.Connection, where: str, version: int) -> None:
    """Raises `StoreRefused` where a start would, with tables of this version (0: there are none); changes nothing."""
    await _check_writable(connection, where)
    if version < newest() and not await connection.fetchval(SQL["may_make"]):
        raise await _without_rights(connection, where, "it may not make tables there")
    await _check_rights(connection, where)


async def _step(connection: asyncpg.Connection, where: str) -> bool:
    """Runs the next script; True where there was none."""
    scripts = load_migrations(PACKAGE)
    async with connection.transaction():
        await connection.execute(SQL["lock"])
        version = await version_of(connection, where)
        following = [script for number, script in scripts if number > version]
        if following:
            if not await connection.fetchval(SQL["is_there"]):
                await connection.execute(SQL["make"])
            await connection.execute(following[0])
    return len(following) <= 1


async def version_of(connection: asyncpg.Connection, where: str) -> int:
    """The version of the tables; 0 where there are none. Raises `StoreRefused` where they are not for us."""
    tables = {name for (name,) in await connection.fetch(SQL["tables"])}
    if not tables:
        return 0
    if "version" not in tables or await connection.fetchval(SQL["is_ours"]) != 2:
        raise _foreign(where, tables)
    number, oldest_reader = await connection.fetchrow(SQL["version"]) or (0, 0)
    if not number:
        raise _incomplete(where, "no version is noted")
    if oldest_reader > newest():
        raise StoreRefused(
            f"the database {where} was brought up to date by a newer Leaseway (version {number} of its tables; "
            f"this one knows {newest()}); run the newer one"
        )
    if number <= newest() and tables - TABLES:
        raise _foreign(where, tables - TABLES)
    if number >= newest() and TABLES - tables:
        raise _incomplete(where, f"there is no table {', '.join(sorted(TABLES - tables)[:5])}")
    return int(number)


def _incomplete(where: str, what: str) -> StoreRefused:
    return StoreRefused(
        f"the schema leaseway of the database {where} is not whole ({what}), as after a restore that did not end; "
        "restore a backup of it, or remove it (DROP SCHEMA leaseway CASCADE): then a start makes a new, empty one"
    )


def _foreign(where: str, tables: set[str]) -> StoreRefused:
    named = ", ".join(sorted(tables)[:5])
    return StoreRefused(
        f"the schema leaseway of the database {where} holds what is not Leaseway's ({named}); "
        "move that elsewhere, or give Leaseway a database of its own"
    )


async def _check_writable(connection: asyncpg.Connection, where: str) -> None:
    if await connection.fetchval(SQL["is_read_only"]):
        raise StoreRefused(
            f"the database {where} is read-only: it is a standby, or default_transaction_read_only is on; "
            "name the primary, or end that setting"
        )


async def _check_rights(connection: asyncpg.Connection, where: str) -> None:
    missing = [name for (name,) in await connection.fetch(SQL["not_allowed"])]
    if missing:
        raise await _without_rights(connection, where, f"it may not read and write {', '.join(missing[:5])}")


async def _without_rights(connection: asyncpg.Connection, where: str, what: str) -> StoreRefused:
    user, database = await connection.fetchrow(SQL["who"]) or ("", "")
    return StoreRefused(
        f'the user "{user}" may not do what Leaseway needs in the database {where}: {what}; as its owner run: '
        f'GRANT CREATE ON DATABASE "{database}" TO "{user}"; or make the schema leaseway over to this user'
    )
