"""The numbers of an inbox, with PostgreSQL, where two may write at once; SQLite has one writer at a time."""

import asyncio
from pathlib import Path

import asyncpg

from leaseway_notify.stores.postgres import PostgresSession
from leaseway_notify.stores.recipients import put_in_inbox
from support.notify_stores import NOW, notify_store, profile, written
from support.postgres import Postgres

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def waiting(connection: asyncpg.Connection) -> None:
    """Returns once somebody waits for somebody else."""
    while True:
        if await connection.fetchval(WAITING):
            return
        await asyncio.sleep(0)


async def test_an_entry_is_seen_after_those_with_smaller_numbers(tmp_path: Path, postgres: Postgres) -> None:
    """A page that has seen a number looks for greater ones alone."""
    async with notify_store("postgres", tmp_path, lambda: postgres) as (url, opener), await opener() as store:
        await store.save_profile(profile())
        first, second = [(await written(store, title=title)).notification for title in ("first", "second")]
        slow, looking = await asyncpg.connect(url), await asyncpg.connect(url)
        try:
            async with slow.transaction():
                await put_in_inbox(PostgresSession(slow), first, NOW)
                other = asyncio.create_task(store.put_in_inbox(second, NOW))
                blocked = asyncio.create_task(waiting(looking))
                await asyncio.wait({other, blocked}, return_when=asyncio.FIRST_COMPLETED)
                blocked.cancel()
                assert await store.inbox("ada", 10) == []
            await other
            assert [entry.notification.title for entry in await store.inbox("ada", 10)] == ["second", "first"]
        finally:
            slow.terminate()
            looking.terminate()
