"""A store of notifications of either kind, which a test may open more than once, and what fills it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncpg

from leaseway_notify.event import Event
from leaseway_notify.plan import Plan, plan
from leaseway_notify.profile import Profile, PushSubscription
from leaseway_notify.stores.postgres import open_postgres
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from support.postgres import Postgres
from support.stores import Kind

Opener: TypeAlias = Callable[[], Awaitable[SqlStore]]

NOW: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
DAY: Final = 86_400_000
_tables: list[str] = []


@asynccontextmanager
async def notify_store(kind: Kind, folder: Path, postgres: Callable[[], Postgres]) -> AsyncIterator[tuple[str, Opener]]:
    """Where an empty store is, and how to open it; `postgres` is asked only where it is needed."""
    if kind == "sqlite":
        path = folder / "notify.db"
        yield f"sqlite:{path}", lambda: open_sqlite(path)
        return
    url = await _empty_database(postgres())
    yield url, lambda: open_postgres(url)


async def _empty_database(postgres: Postgres) -> str:
    """One database for all tests of the process, emptied for each."""
    url = await postgres.shared()
    if not _tables:
        await (await open_postgres(url)).close()
    connection = await asyncpg.connect(url)
    try:
        if not _tables:
            rows = await connection.fetch(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname <> 'version' "
                "AND relnamespace = 'leaseway_notify'::regnamespace"
            )
            _tables.extend(f"leaseway_notify.{row['relname']}" for row in rows)
        await connection.execute("; ".join(f"DELETE FROM {table}" for table in _tables))  # noqa: S608  Quicker than TRUNCATE.
    finally:
        await connection.close()
    return url


def cut(name: str) -> str:
    """Breaks all connections to a database."""
    return f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608


def subscription(number: int = 1) -> PushSubscription:
    """A browser."""
    return PushSubscription(f"browser-{number}", f"https://push.example.com/{number}", "key", "auth")


def profile(recipient: str = "ada", **members: Any) -> Profile:
    """Somebody who can be reached on every channel."""
    reachable = {"address": f"{recipient}@example.com", "subscriptions": (subscription(),)}
    return Profile(recipient, **reachable | members)


def event(**members: Any) -> Event:
    """Somebody mentions ada."""
    said = {"type": "mention", "recipient": "ada", "title": "Bob mentioned you", "actor": "bob", "context": "doc-1"}
    return Event(**said | members)


def planned(now: int = NOW, **members: Any) -> Plan:
    """A plan for it."""
    said = event(**members)
    return plan(said, profile(said.recipient), now)


async def written(store: SqlStore, now: int = NOW, **members: Any) -> Plan:
    """A plan for it, that is written."""
    (kept,) = await store.write([planned(now, **members)], now=now, held_until=now + DAY)
    return kept


class Enough(Exception):
    """So many rounds were."""


class Rounds:
    """Ends the rounds after so many pauses."""

    def __init__(self, many: int) -> None:
        self._many = many
        self.pauses: list[float] = []

    async def pause(self, seconds: float) -> None:
        """As `asyncio.sleep`, without the sleep."""
        self.pauses.append(seconds)
        if len(self.pauses) == self._many:
            raise Enough
