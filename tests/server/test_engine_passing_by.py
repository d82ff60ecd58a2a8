"""The engine on PostgreSQL passes by what another server has locked: that one may stand still, for seconds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from leaseway_server.core.commands import Change, Empty, Handed, Outcome
from leaseway_server.core.dispatch import AGAIN_MS, HANDS_MS
from leaseway_server.core.events import Cancel
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from support.bench import Bench, claim, open_bench
from support.model import LEASE
from support.postgres import Postgres

LOCK = "SELECT FROM leaseway.item WHERE seq = ANY ($1) FOR UPDATE"
TAKE = "UPDATE leaseway.item SET ready = 0, status = 'processing' WHERE ready = 1"
ALIKE = pytest.mark.parametrize("criteria", [None, {"kind": "a"}], ids=["for anything", "with criteria"])


@pytest.fixture
async def bench(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on PostgreSQL, among others."""
    async with open_bench("postgres", tmp_path, lambda: postgres) as bench:
        bench.engine._store.store.numbering.announce = True  # type: ignore[attr-defined]
        yield bench


class Other:
    """Another server, in the middle of a turn."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def has(self, *items: Item) -> None:
        """These rows."""
        await self._connection.execute("BEGIN")
        await self._connection.fetch(
            "SELECT FROM leaseway.item WHERE seq = ANY ($1) FOR UPDATE", [i.seq for i in items]
        )

    async def leaves(self) -> None:
        """The rows are as they were."""
        await self._connection.execute("ROLLBACK")

    async def claims(self) -> None:
        """The rows are leased there."""
        await self._connection.execute(f"{TAKE}; COMMIT")


@pytest.fixture
async def other(postgres: Postgres) -> AsyncIterator[Other]:
    connection = await asyncpg.connect(await postgres.shared())
    yield Other(connection)
    await connection.close()


def given(outcomes: list[Outcome]) -> list[str]:
    """The ids of what was handed out."""
    return [outcome.item.id for outcome in outcomes if isinstance(outcome, Handed)]


async def test_claims_that_wait_get_the_rest_at_once_and_what_another_had_once_it_is_free(
    bench: Bench, other: Other
) -> None:
    items = [await bench.post('{"kind":"a"}') for _ in range(3)]
    first, second, third = items
    await other.has(first, third)
    outcomes = bench.say(claim(2, {"kind": "a"}, count=3, wait_ms=60_000))
    await bench.engine.step()
    assert given(outcomes) == [second.id]
    await bench.pass_by(2 * AGAIN_MS)
    assert given(outcomes) == [second.id]
    assert bench.engine._next_deadline() > bench.clock.now(), "it rests between two looks"
    await other.leaves()
    await bench.pass_by(AGAIN_MS)
    assert given(outcomes) == [second.id, first.id, third.id]


@pytest.mark.protocol("1.69")
@ALIKE
async def test_a_claim_that_does_not_wait_is_kept_for_what_another_has_in_hand(
    bench: Bench, other: Other, criteria: Json
) -> None:
    item = await bench.post('{"kind":"a"}')
    await other.has(item)
    outcomes = bench.say(claim(2, criteria))
    await bench.engine.step()
    assert outcomes == []
    await other.leaves()
    await bench.pass_by(AGAIN_MS)
    assert given(outcomes) == [item.id]


@pytest.mark.protocol("1.69")
@ALIKE
async def test_it_is_told_that_there_is_nothing_where_the_other_takes_it(
    bench: Bench, other: Other, criteria: Json
) -> None:
    await other.has(await bench.post('{"kind":"a"}'))
    outcomes = bench.say(claim(2, criteria))
    await bench.engine.step()
    await other.claims()
    await bench.pass_by(AGAIN_MS)
    assert outcomes == [Empty()]


@pytest.mark.protocol("1.69")
@ALIKE
async def test_it_is_kept_for_no_longer_than_a_second(bench: Bench, other: Other, criteria: Json) -> None:
    await other.has(await bench.post('{"kind":"a"}'))
    outcomes = bench.say(claim(2, criteria))
    await bench.engine.step()
    await bench.pass_by(HANDS_MS - 1)
    assert outcomes == []
    await bench.pass_by(1)
    assert outcomes == [Empty()]


async def test_a_claim_is_not_kept_for_what_no_claim_may_have(bench: Bench) -> None:
    """Its life is over, and it was not swept yet."""
    await bench.post(ttl_ms=1)
    bench.clock.advance(1)
    assert await bench.do(claim(2)) == [Empty()]


@pytest.mark.parametrize(
    ("options", "status"), [({"delay_ms": 1}, "pending"), ({"ttl_ms": 1}, "expired")], ids=["due", "expiry"]
)
async def test_a_row_that_another_has_is_swept_once_it_is_free(
    bench: Bench, other: Other, options: dict[str, Any], status: str
) -> None:
    item = await bench.post(**options)
    await other.has(item)
    await bench.pass_by(1)
    assert bench.engine._next_deadline() > bench.clock.now(), "it rests between two looks"
    await other.leaves()
    await bench.pass_by(AGAIN_MS)
    found = await bench.read(item.id)
    assert (found.status, found.ready) == (status, status == "pending")


async def test_a_key_whose_row_another_has_passes_once_it_is_free(bench: Bench, other: Other) -> None:
    item = await bench.post(key="once")
    await bench.do(Change(item.id, Cancel()))
    await other.has(item)
    bench.clock.advance(bench.engine.queue.policy.dedupe_window)
    for _ in ("the key", "what may be pruned then"):
        await bench.engine.step()
    assert bench.engine._next_deadline() > bench.clock.now(), "it rests between two looks"
    await other.leaves()
    await bench.pass_by(AGAIN_MS)
    assert not (await bench.read(item.id)).held


async def test_a_lease_whose_row_another_has_is_swept_once_it_is_free(bench: Bench, other: Other) -> None:
    holder = bench.engine.new_holder()
    held, free = await bench.claimed(holder), await bench.claimed(holder)
    await other.has(held)
    await bench.pass_by(LEASE)
    assert [(await bench.read(item.id)).losses for item in (held, free)] == [0, 1]
    assert bench.engine._next_deadline() > bench.clock.now(), "it rests between two looks"
    await other.leaves()
    await bench.pass_by(AGAIN_MS)
    assert (await bench.read(held.id)).losses == 1
