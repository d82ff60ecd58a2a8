"""The engine over time: deadlines, the loop, starts and stops, and who is told of what."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, zip_longest

import pytest

from leaseway_server.core.commands import (
    Change,
    Changed,
    Delete,
    Done,
    Drop,
    Empty,
    Found,
    Handed,
    Outcome,
    Post,
    PostAll,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
)
from leaseway_server.core.events import Cancel, Event, Fail, Progress, Release, Renew, Result, Retry
from leaseway_server.core.model import HTTP, NOBODY, NewItem
from leaseway_server.core.watch import View
from leaseway_server.runtime import hand_out as hand_out_module
from leaseway_server.runtime import turn as turn_module
from leaseway_server.runtime.deadlines import TICK_MS
from leaseway_server.runtime.engine import PASSES
from support.bench import GRACE, PATIENCE, Bench, claim, refused
from support.clock import START
from support.model import LEASE, POLICY


@dataclass(frozen=True)
class Watcher:
    """Hears of changes."""

    views: list[View]

    def __hash__(self) -> int:
        return id(self)

    def offer(self, view: View) -> None:
        self.views.append(view)

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def end(self, item_id: str) -> None:
        self.views.clear()


# ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_comes_due_is_handed_out_then(bench: Bench) -> None:
    outcomes = bench.say(claim(2, wait_ms=60_000))
    item = await bench.post(delay_ms=1_500)
    assert (item.ready, item.status) == (0, "pending")
    await bench.pass_by(1_499)
    assert outcomes == []
    await bench.pass_by(1)
    assert [type(outcome) for outcome in outcomes] == [Handed]


async def test_many_come_due_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "SLICE", 10)
    items = [await bench.post(delay_ms=100, ttl_ms=1_000) for _ in range(25)]
    bench.clock.advance(100)
    for expected in (10, 20, 25):
        (found,) = await bench.do(Read(tuple(item.id for item in items)))
        assert isinstance(found, Found)
        assert sum(item.ready for item in found.items.values()) == expected
    bench.clock.advance(900)
    for expected in (10, 20, 25):
        (found,) = await bench.do(Read(tuple(item.id for item in items)))
        assert isinstance(found, Found)
        assert sum(item.status == "expired" for item in found.items.values()) == expected


@pytest.mark.protocol("1.55", "7.6", "7.7")
async def test_leases_end_and_lives_end_by_the_clock(bench: Bench) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    mortal = await bench.post(ttl_ms=LEASE + 2_000)
    await bench.pass_by(LEASE - 1)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(1)
    assert (await bench.read(item.id)).ending == "lost"
    await bench.pass_by(2_000)
    assert (await bench.read(mortal.id)).status == "expired"


@pytest.mark.protocol("7.6")
async def test_where_the_process_stood_still_live_sockets_are_asked_first(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    bench.clock.advance(3_600_000)
    await bench.engine.step()
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(PATIENCE - 1)
    (renewed,) = await bench.do(Change(item.id, Renew(holder, "box", 1)))
    assert isinstance(renewed, Changed)
    assert renewed.accepted, "a live worker keeps its lease"
    await bench.pass_by(LEASE - 1)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(1)
    assert (await bench.read(item.id)).status == "pending"


async def test_the_loop_wakes_for_what_is_said_and_for_what_is_due(bench: Bench) -> None:
    running = asyncio.create_task(bench.engine.run())
    posted = await bench.engine.ask(Post(NewItem("1", delay_ms=500)))
    assert isinstance(posted, Posted)
    handed: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    bench.engine.submit(claim(bench.engine.new_holder(), wait_ms=60_000), handed.set_result)
    await bench.engine.ask(Read(()))
    bench.clock.advance(500)
    outcome = await handed
    assert isinstance(outcome, Handed)
    asked = asyncio.create_task(bench.engine.ask(Change(outcome.item.id, Cancel())))
    await asyncio.sleep(0)
    bench.engine.stop()
    changed = await asked
    assert isinstance(changed, Changed)
    assert changed.accepted, "what was said before the stop is done"
    await running


async def test_the_loop_goes_on_searching_without_being_woken(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 5)
    await bench.do(*(Post(NewItem(str(n))) for n in range(40)))
    running = asyncio.create_task(bench.engine.run())
    handed: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    bench.engine.submit(claim(2, {"kind": "none"}), handed.set_result)
    assert await handed == Empty()
    bench.engine.stop()
    await running


@pytest.mark.parametrize("bench", ["memory", "sqlite"], indirect=True)  # Where a statement is done at once.
async def test_who_is_about_to_speak_waits_for_one_slice_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes some rounds of the event loop before it is said to the engine."""
    monkeypatch.setattr(hand_out_module, "SLICE", 5)
    await bench.do(*(Post(NewItem(str(n))) for n in range(60)))
    bench.engine.submit(claim(2, {"kind": "none"}))
    running = asyncio.create_task(bench.engine.run())
    slices = len(bench.faults.commits)
    for rounds in range(1, 4 * PASSES):
        await asyncio.sleep(0)
        assert len(bench.faults.commits) - slices <= 1 + rounds // PASSES
    assert len(bench.faults.commits) - slices >= 3, "the search goes on meanwhile"
    outcomes = bench.say(Post(NewItem("1")))
    for _ in range(2):
        await asyncio.sleep(0)
    assert len(outcomes) == 1, "what is said is done at once"
    bench.engine.stop()
    await running


async def test_a_caller_that_is_cancelled_cancels_only_its_waiting(bench: Bench) -> None:
    caller = asyncio.create_task(bench.engine.ask(Post(NewItem('"kept"'))))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await bench.engine.step()
    (handed,) = await bench.do(claim(2))
    assert isinstance(handed, Handed)
    assert handed.item.body == '"kept"'


# ── What is told, and to whom ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("3.16")
async def test_watchers_hear_each_change_that_shows_in_its_order(bench: Bench) -> None:
    watcher, holder = Watcher([]), bench.engine.new_holder()
    item = await bench.post()
    bench.engine.hub.watch(item.id, watcher)
    await bench.do(claim(holder))
    await bench.do(Change(item.id, Renew(holder, "box", 1)))
    await bench.do(Change(item.id, Progress("1", holder, "box", 1)), Change(item.id, Progress("2", holder, "box", 1)))
    await bench.do(Change(item.id, Result("3", 1)))
    assert [view.rev for view in watcher.views] == [2, 4, 5]
    assert watcher.views[-1].unfetched
    assert b'"result":3' in watcher.views[-1].encoded
    bench.engine.hub.unwatch(item.id, watcher)
    assert len(bench.engine.hub) == 0


@pytest.mark.protocol("3.16")
async def test_the_end_that_was_fetched_is_stamped_with_the_next_turn_that_is_synced_anyway(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    bench.engine.stamp(item.id, 2)
    assert (await bench.read(item.id)).fetched_at == 0, "a read does not wait for a sync"
    await bench.post()
    stamped = await bench.read(item.id)
    assert (stamped.fetched_at, stamped.rev) == (START, 2)
    bench.clock.advance(5)
    bench.engine.stamp(item.id, 2)
    await bench.post()
    assert (await bench.read(item.id)).fetched_at == START, "the first delivery counts"


async def test_a_stamp_waits_a_second_for_a_turn_and_not_for_power(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    bench.engine.stamp(item.id, 2)
    await bench.engine.step()
    commits = len(bench.faults.commits)
    await bench.pass_by(TICK_MS)
    assert bench.faults.commits[commits:] == [False], "one turn, which loss of power may cost"
    assert (await bench.read(item.id)).fetched_at == START + TICK_MS


async def test_an_end_that_a_retry_took_back_is_not_stamped(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    bench.engine.stamp(item.id, 2)
    await bench.do(Change(item.id, Retry()))
    stamped = await bench.read(item.id)
    assert (stamped.status, stamped.fetched_at) == ("pending", 0)
    bench.engine.stamp(item.id, 2)
    await bench.do(Change(item.id, Cancel()))
    assert (await bench.read(item.id)).fetched_at == 0, "the new end was not told yet"


async def test_a_holder_that_loses_its_item_is_told(bench: Bench) -> None:
    holder, lost = bench.engine.new_holder(), []
    bench.engine.tell_losses(holder, lambda item_id, reason: lost.append((item_id, reason)))
    item = await bench.claimed(holder)
    await bench.do(Change(item.id, Cancel()))
    assert lost == [(item.id, "cancelled")]
    bench.engine.tell_losses(holder, None)
    other = await bench.claimed(holder)
    await bench.do(Change(other.id, Cancel()))
    assert len(lost) == 1


OWN_REPORTS = [
    Release(0, "box", 1),
    Fail('{"message":"not now"}', retryable=True, fence=1, retry_in=0),
    Fail('{"message":"no"}', retryable=False, fence=1),
]


@pytest.mark.protocol("4.68", "4.70", "4.72")
@pytest.mark.parametrize("then", [Retry(), Cancel(), Result("1", None)])
@pytest.mark.parametrize("report", OWN_REPORTS)
async def test_who_gives_its_item_back_has_not_lost_it(bench: Bench, report: Event, then: Event) -> None:
    """Whatever becomes of the item in the same turn: claimed by another, retried, withdrawn, finished by somebody."""
    holder, other, lost = bench.engine.new_holder(), bench.engine.new_holder(), []
    bench.engine.tell_losses(holder, lambda item_id, reason: lost.append((item_id, reason)))
    item = await bench.claimed(holder)
    waiting = bench.say(claim(other, wait_ms=60_000))
    await bench.engine.step()
    mine = replace(report, holder=holder) if isinstance(report, Release) else report
    ended, *_ = await bench.do(Change(item.id, mine), Change(item.id, then))
    assert isinstance(ended, Changed)
    assert ended.accepted
    assert bool(waiting) == ((await bench.read(item.id)).attempts == 2)
    assert lost == []


async def test_a_fault_of_one_who_is_told_keeps_it_from_nobody_else(bench: Bench, quiet: None) -> None:
    def fault(*_told: object) -> None:
        raise RuntimeError("a fault of the one who is told")

    holder = bench.engine.new_holder()
    bench.engine.tell_losses(holder, fault)
    item = await bench.claimed(holder)
    watcher = Watcher([])
    bench.engine.hub.watch(item.id, watcher)
    bench.engine.submit(Read((item.id,)), fault)
    outcomes = bench.say(Change(item.id, Cancel()))
    await bench.engine.step()
    assert [type(outcome) for outcome in outcomes] == [Changed]
    assert len(watcher.views) == 1
    bench.faults.at_commit = ["full"]
    bench.engine.submit(Post(NewItem("1")), fault)
    assert refused(await bench.do(Post(NewItem("2"))))


async def holding(bench: Bench, holder: int, number: int) -> list[str]:
    """So many items that a socket holds, by id."""
    if not number:
        return []
    await bench.do(PostAll(tuple(NewItem("1") for _ in range(number))))
    handed = await bench.do(claim(holder, count=number))
    return [each.item.id for each in handed if isinstance(each, Handed)]


async def endings(bench: Bench, ids: list[str]) -> Counter[str]:
    (found,) = await bench.do(Read(tuple(ids)))
    assert isinstance(found, Found)
    return Counter(item.ending for item in found.items.values())


@pytest.mark.protocol("4.23", "7.4")
async def test_sockets_that_hold_much_are_requeued_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many drop, and however much they hold: what others say is done in between, and nothing is left."""
    monkeypatch.setattr(turn_module, "DROPPED", 10)
    gone = [bench.engine.new_holder() for _ in range(4)]
    numbers = dict(zip(gone, (4, 25, 0, 3), strict=True))
    held = [item_id for holder in gone for item_id in await holding(bench, holder, numbers[holder])]
    done = [bench.say(Drop(holder)) for holder in gone]
    for lost in (10, 20, 30):
        assert await endings(bench, held) == Counter(lost=lost, open=len(held) - lost)
    assert [len(outcomes) for outcomes in done] == [1, 1, 1, 0]
    assert await endings(bench, held) == Counter(lost=len(held))
    assert done == [[Done()]] * 4
    assert not len(bench.engine._leases)


async def test_what_is_not_requeued_yet_can_be_resumed_and_stays_on_a_planned_stop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "DROPPED", 2)
    old, new = bench.engine.new_holder(), bench.engine.new_holder()
    held = await holding(bench, old, 9)
    await bench.do(Drop(old))
    resume = ResumeLeases(new, "box", "box-1", tuple((item_id, 1) for item_id in held[:5]))
    (resumed,) = await bench.do(resume)
    assert isinstance(resumed, Resumed)
    assert all(changed.accepted for changed in resumed.leases)
    bench.engine.close_claims()
    while bench.engine._backlog.waiting:
        await bench.engine.step()
    found = [await bench.read(item_id) for item_id in held]
    assert [item.holder for item in found[:5]] == [new] * 5
    assert all(item.holder == old or item.ending == "lost" for item in found[5:])
    assert sum(item.losses for item in found) <= 4


@pytest.mark.protocol("5.31", "5.34")
async def test_many_deletes_are_done_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused takes no place of what is not, and what others say is done in between."""
    monkeypatch.setattr(turn_module, "DELETED", 10)
    ended, opened = [await bench.post() for _ in range(25)], [await bench.post() for _ in range(20)]
    await bench.do(*(Change(item.id, Cancel()) for item in ended))
    said = [bench.say(Delete(item.id)) for pair in zip_longest(ended, opened) for item in pair if item]
    for left in (15, 5, 0):
        (found,) = await bench.do(Read(tuple(item.id for item in ended)))
        assert isinstance(found, Found)
        assert len(found.items) == left
    outcomes = [outcome for outcomes in said for outcome in outcomes]
    assert Counter(isinstance(each, Changed) and each.accepted for each in outcomes) == {True: 25, False: 20}
    assert all(len(each) == 1 for each in said)


# ── Starts and stops ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("6.9", "6.12")
async def test_on_a_planned_stop_nothing_is_handed_out_or_requeued(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    waiting = bench.say(claim(holder, wait_ms=60_000))
    await bench.engine.step()
    bench.engine.close_claims()
    await bench.post()
    assert waiting == []
    (finished,) = await bench.do(Change((await bench.post()).id, Result("1", None)))
    assert isinstance(finished, Changed)
    assert finished.accepted, "reports under way are let in"
    assert await bench.do(Drop(holder)) == [Done()]
    assert waiting == [Empty()]
    assert (await bench.read(item.id)).holder == holder
    await bench.restart()
    back = bench.engine.new_holder()
    assert back != holder
    (resumed,) = await bench.do(ResumeLeases(back, "box", "box-1", ((item.id, 1),)))
    assert isinstance(resumed, Resumed)
    assert resumed.leases[0].accepted
    assert (await bench.read(item.id)).attempts == 1


@pytest.mark.protocol("1.33", "6.14", "6.15", "7.6")
async def test_leases_of_before_the_start_have_the_grace_and_cost_nothing(bench: Bench) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    bench.clock.advance(LEASE + 1)
    assert bench.engine.looking.lease_end(item.id) == (item.lease_until, False)
    await bench.restart()
    assert bench.engine.looking.lease_end(item.id) == (bench.clock.now() + GRACE, True)
    await bench.pass_by(GRACE - 1)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(1)
    assert bench.engine.looking.lease_end(item.id) == (0, False)
    after = await bench.read(item.id)
    assert (after.status, after.ending, after.losses) == ("pending", "parted", 0)


@pytest.mark.protocol("6.16")
async def test_leases_without_a_socket_keep_their_end_over_a_start(bench: Bench) -> None:
    item = await bench.claimed(HTTP)
    await bench.restart()
    await bench.pass_by(LEASE - 1)
    (renewed,) = await bench.do(Change(item.id, Renew(HTTP, "box", 1)))
    assert isinstance(renewed, Changed)
    assert renewed.accepted
    await bench.pass_by(LEASE)
    assert (await bench.read(item.id)).ending == "lost"


async def test_what_was_due_or_outlived_while_the_server_was_away_is_seen_at_the_start(bench: Bench) -> None:
    later, mortal = await bench.post(delay_ms=1_000), await bench.post(ttl_ms=1_000)
    await bench.close()
    bench.clock.advance(2_000)
    await bench.start()
    await bench.engine.step()
    assert (await bench.read(later.id)).ready == 1
    assert (await bench.read(mortal.id)).status == "expired"


# ── Odds and ends of the protocol that only a turn shows ────────────────────────────────────────────────────────


async def test_an_item_that_failed_for_good_may_be_retried_and_worked_on(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    await bench.do(Change(item.id, Fail('{"message":"no"}', retryable=False, fence=1)))
    waiting = bench.say(claim(holder, wait_ms=60_000))
    await bench.do(Change(item.id, Retry()))
    (handed,) = waiting
    assert isinstance(handed, Handed)
    assert (handed.item.attempts, handed.item.failures) == (2, 0)


@pytest.mark.protocol("1.29", "1.30")
async def test_the_last_loss_leaves_the_item_with_nobody_until_its_lease_ends(bench: Bench) -> None:
    holders = (bench.engine.new_holder() for _ in count())
    item = await bench.claimed(next(holders))
    for _ in range(POLICY.max_losses - 1):
        await bench.do(Drop((await bench.read(item.id)).holder))
        await bench.do(claim(next(holders)))
    await bench.do(Drop((await bench.read(item.id)).holder))
    left = await bench.read(item.id)
    assert (left.status, left.holder) == ("processing", NOBODY)
    await bench.pass_by(LEASE)
    assert '"poison"' in (await bench.read(item.id)).error
