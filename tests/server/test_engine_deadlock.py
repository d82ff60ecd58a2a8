"""The engine on PostgreSQL, where another server's locks are in its way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from leaseway_server.core.commands import Change, Changed, Command, Post, Posted
from leaseway_server.core.events import Cancel, Retry
from leaseway_server.core.model import Item, NewItem
from leaseway_server.store.postgres.locks import number_of
from support.bench import Bench, open_bench
from support.postgres import Postgres

LOCK = "SELECT FROM leaseway.item WHERE seq = $1 FOR UPDATE"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"


@pytest.fixture
async def bench(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on PostgreSQL."""
    async with open_bench("postgres", tmp_path, lambda: postgres) as bench:
        yield bench


@pytest.fixture
async def other(postgres: Postgres) -> AsyncIterator[asyncpg.Connection]:
    """Another server's connection, within a transaction, which looks late whether it waits in a circle."""
    connection = await asyncpg.connect(await postgres.shared())
    await connection.execute("SET deadlock_timeout = '20s'; BEGIN")
    yield connection
    await connection.close()


async def waits(bench: Bench) -> None:
    """Returns when the engine's turn waits for a lock."""
    async with bench.engine._store.store._database.transaction() as connection:  # type: ignore[attr-defined]
        while not await connection.fetchval(WAITING):
            pass


async def test_a_turn_that_was_in_a_deadlock_is_run_again_and_nobody_notices(
    bench: Bench, other: asyncpg.Connection, quiet: None
) -> None:
    first, second = await bench.post(), await bench.post()
    await other.fetch(LOCK, second.seq)
    done = asyncio.create_task(bench.do(Change(first.id, Cancel()), Change(second.id, Cancel())))
    await waits(bench)  # It has the first one by now.
    await other.fetch(LOCK, first.seq)  # This closes the circle, of which the engine's turn gives up its part.
    assert not done.done()
    await other.execute("ROLLBACK")
    outcomes = await done
    assert [isinstance(each, Changed) and each.accepted for each in outcomes] == [True, True]
    assert [(await bench.read(item.id)).status for item in (first, second)] == ["cancelled", "cancelled"]
    assert bench.writable()


def cancel_and_post(holder: Item) -> list[Command]:
    """The holder of a key is changed, and the key is posted."""
    return [Change(holder.id, Cancel()), Post(NewItem("{}", key="once"))]


def retry(holder: Item) -> list[Command]:
    """An item is to hold its key anew."""
    return [Change(holder.id, Cancel()), Change(holder.id, Retry())]


@pytest.mark.parametrize("commands", [cancel_and_post, retry])
async def test_a_turn_has_its_keys_before_its_rows_so_that_nobody_waits_in_a_circle(
    bench: Bench, other: asyncpg.Connection, commands: Callable[[Item], list[Command]]
) -> None:
    """Another server is about to post the key."""
    holder = await bench.post(key="once")
    locked = bench.engine._store.store  # type: ignore[attr-defined]
    await other.fetch("SELECT pg_advisory_xact_lock($1)", number_of(f"{locked.queue} once"))
    done = asyncio.create_task(bench.do(*commands(holder)))
    await waits(bench)
    await other.fetch(f"{LOCK} NOWAIT", holder.seq)
    await other.execute("COMMIT")
    changed, after = await done
    assert isinstance(changed, Changed)
    assert changed.accepted
    assert after.duplicate if isinstance(after, Posted) else isinstance(after, Changed) and after.accepted


async def test_a_turn_waits_for_who_has_its_rows(bench: Bench, other: asyncpg.Connection) -> None:
    item = await bench.post()
    await other.fetch(LOCK, item.seq)
    done = asyncio.create_task(bench.do(Change(item.id, Cancel())))
    await waits(bench)
    await other.execute("COMMIT")
    (outcome,) = await done
    assert isinstance(outcome, Changed)
    assert outcome.accepted
