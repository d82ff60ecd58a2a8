"""PROTOCOL.md §1: what of an item's life only two events at one moment show."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leaseway_server.core.commands import Change, Changed
from leaseway_server.core.events import Result
from support.bench import Bench, open_bench


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on either store."""
    async with open_bench(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as bench:
        yield bench


@pytest.mark.protocol("1.37", "1.3", "1.7")
async def test_a_result_that_comes_before_the_sweep_counts_and_one_behind_it_does_not(bench: Bench) -> None:
    first, second = await bench.post(ttl_ms=1_000), await bench.post(ttl_ms=1_000)
    bench.clock.advance(5_000)
    (in_time,) = await bench.do(Change(first.id, Result("1", None)))
    (late,) = await bench.do(Change(second.id, Result("1", None)))
    assert isinstance(in_time, Changed)
    assert isinstance(late, Changed)
    assert (in_time.accepted, late.accepted, late.reason) == (True, False, "terminal")
    assert ((await bench.read(first.id)).status, (await bench.read(second.id)).status) == ("finished", "expired")
