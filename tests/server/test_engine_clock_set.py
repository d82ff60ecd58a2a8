"""What an engine does when the clock of its store is set: nothing ends early by that, and nothing is stuck."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Changed, Empty, Resumed, ResumeLeases
from leaseway_server.core.events import Renew
from leaseway_server.core.model import HTTP
from leaseway_server.core.queue import Queue
from leaseway_server.runtime import turn as turn_module
from leaseway_server.runtime.deadlines import LATELY_MS
from support.bench import GRACE, Bench, claim
from support.model import LEASE, POLICY

HOUR = 3_600_000
STEPS = pytest.mark.parametrize("step", [1_000, -1_000, HOUR, -HOUR, 24 * HOUR, -24 * HOUR])


async def status(bench: Bench, item_id: str) -> str:
    """How the item stands."""
    return (await bench.read(item_id)).status


@STEPS
@pytest.mark.protocol("7.25", "7.26")
async def test_a_lease_has_all_its_time_again_and_no_more(bench: Bench, step: int) -> None:
    holder = bench.engine.new_holder()
    items = [await bench.claimed(holder), await bench.claimed(HTTP)]
    await bench.pass_by(LEASE - 1)
    bench.clock.step(step)
    await bench.engine.step()
    await bench.pass_by(LEASE - 1)
    assert [await status(bench, item.id) for item in items] == ["processing"] * 2
    await bench.pass_by(1)
    assert [await status(bench, item.id) for item in items] == ["pending"] * 2


@STEPS
@pytest.mark.protocol("1.70", "7.25", "7.26")
async def test_so_has_the_time_in_which_progress_is_due(bench: Bench, step: int) -> None:
    progress_by = LEASE // 2
    await bench.pass_by(GRACE + 1)
    bench.engine.reconfigure(Queue("queue", replace(POLICY, progress_by=progress_by)))
    item = await bench.claimed(bench.engine.new_holder())
    await bench.pass_by(progress_by - 1)
    bench.clock.step(step)
    await bench.engine.step()
    await bench.pass_by(progress_by - 1)
    assert await status(bench, item.id) == "processing"
    await bench.pass_by(1)
    assert await status(bench, item.id) == "pending"


@STEPS
@pytest.mark.protocol("7.25", "7.26")
async def test_what_is_left_of_a_grace_is_left(bench: Bench, step: int) -> None:
    items = [await bench.claimed(bench.engine.new_holder()) for _ in range(2)]
    await bench.restart()
    await bench.pass_by(GRACE - 1_000)
    bench.clock.step(step)
    await bench.engine.step()
    await bench.pass_by(999)
    back = ResumeLeases(bench.engine.new_holder(), "box", "box-1", ((items[0].id, 1),))
    (resumed,) = await bench.do(back)
    assert isinstance(resumed, Resumed)
    assert resumed.leases[0].accepted
    assert await status(bench, items[1].id) == "processing"
    await bench.pass_by(1)
    parted = await bench.read(items[1].id)
    assert (parted.status, parted.ending, parted.losses) == ("pending", "parted", 0)
    assert await status(bench, items[0].id) == "processing"


@STEPS
async def test_a_claim_waits_for_as_long_as_it_said(bench: Bench, step: int) -> None:
    outcomes = bench.say(claim(2, wait_ms=2_000))
    await bench.engine.step()
    await bench.pass_by(1_000)
    bench.clock.step(step)
    await bench.pass_by(999)
    assert outcomes == []
    await bench.pass_by(1)
    assert outcomes == [Empty()]


@STEPS
@pytest.mark.protocol("7.27")
async def test_what_is_due_at_a_time_goes_by_the_clock_as_it_is(bench: Bench, step: int) -> None:
    item = await bench.post(delay_ms=60_000, ttl_ms=120_000)
    bench.clock.step(step)
    for passed in (0, 59_999 - step, 1, 59_999, 1):
        bench.clock.advance(max(0, passed))
        await bench.engine.step()
        await bench.engine.step()
        now, found = bench.clock.now(), await bench.read(item.id)
        expected = "expired" if now >= item.expires_at else "pending"
        assert (found.status, bool(found.ready)) == (expected, item.due_at <= now < item.expires_at)


@STEPS
@pytest.mark.protocol("7.28")
async def test_the_time_of_the_last_change_never_goes_back(bench: Bench, step: int) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    bench.clock.step(step)
    assert (await bench.read(item.id)).holder == holder
    await bench.pass_by(LEASE)
    after = await bench.read(item.id)
    assert after.status == "pending"
    assert after.updated_at >= item.updated_at


async def test_many_leases_count_anew_in_slices_and_none_ends_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "SLICE", 2)
    monkeypatch.setattr("leaseway_server.runtime.deadlines.SLICE", 2)
    holder = bench.engine.new_holder()
    items = [await bench.claimed(holder) for _ in range(5)]
    bench.clock.step(HOUR)
    for _ in range(3):
        await bench.engine.step()
    for item in items:
        found = await bench.read(item.id)
        assert (found.lease_until, found.rev, found.status) == (bench.clock.now() + LEASE, item.rev, "processing")


async def test_leases_count_anew_at_once_also_where_the_process_stood_still(bench: Bench) -> None:
    """As after an outage of the database: a server that starts meanwhile finds them right."""
    item = await bench.claimed(HTTP)
    bench.clock.advance(HOUR)
    bench.clock.step(HOUR)
    await bench.engine.step()
    assert (await bench.read(item.id)).lease_until == bench.clock.now() + LEASE


async def test_who_renews_by_the_clock_as_it_is_counts_from_then(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    bench.clock.step(-HOUR)
    (renewed,) = await bench.do(Change(item.id, Renew(holder, "box", 1)))
    assert isinstance(renewed, Changed)
    assert renewed.accepted
    await bench.pass_by(LEASE)
    assert await status(bench, item.id) == "pending"


@pytest.mark.parametrize("lately", [True, False])
async def test_what_is_read_soon_after_counts_anew_too(bench: Bench, quiet: None, lately: bool) -> None:
    """Other servers, who leased it, may not have seen yet that the clock was set."""
    item = await bench.claimed(HTTP)
    await bench.pass_by(LEASE - LATELY_MS)
    bench.clock.step(HOUR)
    await bench.engine.step()
    await bench.pass_by(0 if lately else LATELY_MS)
    before = (await bench.read(item.id)).lease_until
    bench.clock.advance(1)
    bench.engine.suspect()
    await bench.engine.step()
    await bench.engine.step()
    assert (await bench.read(item.id)).lease_until == before + lately
