"""What the engine does when its store fails it: nothing is lost or done twice, nobody is told a falsehood."""

from typing import Any

import pytest

from leaseway_server.core.commands import (
    Change,
    Changed,
    Drop,
    Empty,
    Failed,
    Found,
    Handed,
    Post,
    Posted,
    Read,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost
from leaseway_server.core.events import Cancel, Result
from leaseway_server.core.model import NewItem
from leaseway_server.runtime.shortage import RETRY_MS
from support.bench import Bench, claim, refused
from support.faulty_store import GUILTY
from support.model import LEASE

# ── When there is no space ──────────────────────────────────────────────────────────────────────────────────────


def state(bench: Bench) -> tuple[object, ...]:
    """What the engine holds in memory."""
    engine = bench.engine
    leases = {item_id: (lease.holder, lease.ends) for item_id, lease in engine._leases._leases.items()}
    waiting = [(ask, each.number, each.left) for ask, each in engine._dispatch._by_ask.items()]
    minima = engine._deadlines.minima
    return leases, sorted(waiting, key=lambda each: each[1]), minima.due, minima.expiry


async def test_a_turn_without_space_changes_nothing_and_is_refused(bench: Bench, quiet: None) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    waiting = bench.say(claim(holder, wait_ms=60_000))
    await bench.engine.step()
    before, row = state(bench), await bench.read(item.id)
    bench.faults.at_commit = ["full"]
    outcomes = await bench.do(
        Post(NewItem("1")),
        Change(item.id, Result("1", 1)),
        claim(holder, wait_ms=60_000),
        claim(holder),
        Withdraw(holder),
        ResumeLeases(bench.engine.new_holder(), "box", "box-1", ((item.id, 1),)),
    )
    assert len(outcomes) == 6
    assert refused(outcomes)
    assert not bench.writable()
    assert waiting == []
    assert state(bench) == before
    assert await bench.read(item.id) == row
    await bench.pass_by(RETRY_MS)
    assert bench.writable()
    assert [type(outcome) for outcome in await bench.do(Change(item.id, Result("1", 1)))] == [Changed]
    await bench.post('"now"')
    assert [type(outcome) for outcome in waiting] == [Handed]


async def test_reads_are_answered_without_space(bench: Bench, quiet: None) -> None:
    item = await bench.post()
    bench.faults.at_commit = ["full"]
    found, post = await bench.do(Read((item.id,)), Post(NewItem("1")))
    assert isinstance(found, Found)
    assert found.items[item.id].status == "pending"
    assert refused([post])


@pytest.mark.parametrize("fault", ["full", "busy"])
async def test_reads_that_fail_too_are_refused_and_those_of_watchers_wait(
    bench: Bench, quiet: None, fault: Any
) -> None:
    """As where this user may read a table no longer, or somebody has all of it to himself."""
    item = await bench.post()
    bench.faults.at_commit = [fault] * 99
    asked, watched = bench.say(Read((item.id,))), bench.say(Read((item.id,), patient=True))
    await bench.engine.step()
    assert refused(asked)
    assert watched == []
    bench.faults.at_commit.clear()
    await bench.pass_by(RETRY_MS)
    assert [type(outcome) for outcome in watched] == [Found]
    assert bench.writable()


async def test_dropped_sockets_and_stamps_wait_for_space(bench: Bench, quiet: None) -> None:
    holder = bench.engine.new_holder()
    done = await bench.post()
    await bench.do(Change(done.id, Cancel()))
    item = await bench.claimed(holder)
    bench.engine.stamp(done.id, 2)
    bench.faults.at_commit = ["full", "full", "full"]
    assert await bench.do(Drop(holder)) == []
    await bench.pass_by(RETRY_MS)
    assert not bench.writable()
    bench.faults.at_commit = []
    await bench.pass_by(RETRY_MS)
    assert bench.writable()
    assert (await bench.read(item.id)).ending == "lost"
    assert (await bench.read(done.id)).fetched_at > 0


async def test_claims_that_do_not_wait_are_refused_without_space(bench: Bench, quiet: None) -> None:
    await bench.post()
    bench.faults.at_commit = ["full"]
    assert refused(await bench.do(claim(2)))
    late = bench.say(claim(2))
    await bench.engine.step()
    bench.faults.at_commit = ["full"]
    await bench.pass_by(RETRY_MS)
    assert refused(late)


async def test_claims_that_wait_stay_without_space_and_time_out(bench: Bench, quiet: None) -> None:
    short, long = bench.say(claim(2, wait_ms=RETRY_MS)), bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    bench.clock.advance(1)
    bench.faults.at_commit = ["full"]
    assert refused(await bench.do(Post(NewItem("1"))))
    await bench.pass_by(RETRY_MS - 1)
    assert not bench.writable()
    assert short == [Empty()]
    await bench.pass_by(1)
    await bench.post('"there is space again"')
    assert [type(outcome) for outcome in long] == [Handed]


@pytest.mark.parametrize("fault", ["full", "odd"])
async def test_a_sweep_that_could_not_be_written_is_done_later(bench: Bench, quiet: None, fault: Any) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    later, mortal = await bench.post(delay_ms=LEASE), await bench.post(delay_ms=LEASE - 1, ttl_ms=LEASE)
    await bench.pass_by(LEASE - 1)
    bench.faults.at_commit = [fault]
    await bench.pass_by(1)
    assert not bench.writable()
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(RETRY_MS)
    assert (await bench.read(item.id)).ending == "lost"
    assert (await bench.read(later.id)).ready == 1
    assert (await bench.read(mortal.id)).status == "expired"


async def test_a_hand_out_that_could_not_be_written_is_done_later(bench: Bench, quiet: None) -> None:
    waiting = bench.say(claim(2, {"kind": "wanted"}, wait_ms=60_000))
    await bench.engine.step()
    item = await bench.post('{"kind":"wanted"}', delay_ms=500)
    bench.faults.at_commit = ["full", "full"]
    await bench.pass_by(500)
    assert waiting == []
    await bench.pass_by(2 * RETRY_MS)
    (handed,) = waiting
    assert isinstance(handed, Handed)
    assert (handed.item.id, handed.item.attempts) == (item.id, 1)


# ── When a turn fails oddly ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_guilty_command_is_found_and_the_others_pass(bench: Bench, quiet: None) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    commands = [Post(NewItem(GUILTY if n == 5 else str(n))) for n in range(9)]
    outcomes = await bench.do(*commands[:4], Change(item.id, Result("1", 1)), *commands[4:], Read((item.id,)))
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [Posted] * 4 + [Changed, Posted, Failed, Posted, Posted, Posted, Found]
    assert refused([outcomes[6]])
    assert len({outcome.item.id for outcome in outcomes if isinstance(outcome, Posted)}) == 8
    assert (await bench.read(item.id)).status == "finished"


async def test_waiting_claims_survive_a_guilty_command(bench: Bench, quiet: None) -> None:
    waiting = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    new = bench.say(claim(3))
    outcomes = await bench.do(Post(NewItem(GUILTY)), Post(NewItem('"good"')), Post(NewItem('"better"')))
    assert [type(outcome) for outcome in outcomes] == [Failed, Posted, Posted]
    await bench.engine.step()
    got = [outcome.item.body for outcome in (*waiting, *new) if isinstance(outcome, Handed)]
    assert got == ['"good"', '"better"'], "the older claim first"


async def test_a_dropped_socket_is_not_forgotten_where_its_turn_fails_oddly(bench: Bench, quiet: None) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    bench.faults.at_commit = ["odd"]
    await bench.do(Drop(holder))
    await bench.pass_by(2 * RETRY_MS)
    assert (await bench.read(item.id)).ending == "lost"


# ── When the store is lost ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", ["lost before", "lost after"])
async def test_nobody_is_answered_when_the_store_is_lost(bench: Bench, quiet: None, fault: Any) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    waiting = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    bench.faults.at_commit = [fault]
    assert await bench.do(Change(item.id, Result("1", 1)), Post(NewItem("1"))) == []
    assert waiting == []
    assert len(bench.lost) == 1
    assert not bench.writable()
    await bench.engine.run()  # It ends at once.
    await bench.restart()
    assert (await bench.read(item.id)).status == ("finished" if fault == "lost after" else "processing")


async def test_after_the_store_is_lost_no_half_of_a_failed_turn_runs(bench: Bench, quiet: None) -> None:
    await bench.post()
    commits = len(bench.faults.commits)
    bench.faults.at_commit = ["odd", "lost before"]
    assert await bench.do(*(Post(NewItem(str(n))) for n in range(4))) == []
    assert len(bench.faults.commits) == commits
    assert len(bench.lost) == 1


async def test_a_log_that_cannot_be_written_back_for_want_of_space_is_only_said(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.faults.maintain = StoreFull("no space, says the test")
    await bench.post()
    assert "the log was not written back" in caplog.text
    assert bench.writable()


@pytest.mark.parametrize("fault", [StoreBusy("busy, says the test"), StoreAway("canceled, says the test")])
async def test_a_store_that_is_not_to_be_had_between_turns_ends_nothing(
    bench: Bench, fault: StoreBusy | StoreAway
) -> None:
    bench.faults.maintain = fault
    await bench.post()
    bench.faults.maintain = None
    await bench.post()
    assert bench.writable()
    assert not bench.lost


async def test_a_store_that_is_lost_between_turns_is_lost(bench: Bench, quiet: None) -> None:
    bench.faults.maintain = StoreLost("lost, says the test")
    await bench.post()
    assert len(bench.lost) == 1
    assert not bench.writable()
