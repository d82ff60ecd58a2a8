"""The engine and what it does to the queue as a whole: counts, rates, the pause, attempts, retention."""

import asyncio
import logging
from dataclasses import replace

import pytest

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.commands import (
    Change,
    Changed,
    Delete,
    Drop,
    Empty,
    Found,
    Handed,
    Outcome,
    Pause,
    Paused,
    Post,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.events import Cancel, Fail, Release, Result, Retry
from leaseway_server.core.model import HTTP, Item, NewItem, Status
from leaseway_server.core.retention import Keep
from leaseway_server.core.watch import View
from leaseway_server.runtime import retention as retention_module
from leaseway_server.runtime.retention import LOOK_MS
from leaseway_server.runtime.tally import MINUTE_MS
from support.bench import Bench, claim, refused
from support.clock import START
from support.model import LEASE

KEEP = Keep(fetched=20_000, finished=40_000, failed=60_000, dead=80_000, cancelled=100_000, expired=120_000)


def paused(bench: Bench) -> bool:
    """Whether the engine is."""
    return bench.engine.paused


def counts(bench: Bench) -> dict[Status, int]:
    """How many items there are of each status that has any, as the engine has it."""
    return {status: number for status, number in bench.engine.tally.counts.items() if number}


async def there(bench: Bench, *items: Item) -> list[bool]:
    """Which of the items are still there."""
    (found,) = await bench.do(Read(tuple(item.id for item in items)))
    assert isinstance(found, Found)
    return [item.id in found.items for item in items]


async def attempts(bench: Bench, item: Item) -> list[Attempt]:
    """The item's attempts."""
    (found,) = await bench.do(Read((item.id,), attempts=True))
    assert isinstance(found, Found)
    return found.attempts[item.id]


# ── Counts and rates ────────────────────────────────────────────────────────────────────────────────────────────


async def test_counts_follow_the_commits_and_outlive_a_restart(bench: Bench) -> None:
    items = [await bench.post() for _ in range(4)]
    await bench.do(claim(2, count=2))
    await bench.do(Change(items[0].id, Result("1", None)), Change(items[3].id, Cancel()))
    expected = {"pending": 1, "processing": 1, "finished": 1, "cancelled": 1}
    assert counts(bench) == expected
    await bench.restart()
    assert counts(bench) == expected


async def test_a_turn_that_was_undone_counts_nothing(bench: Bench) -> None:
    logging.disable(logging.CRITICAL)
    bench.faults.at_commit = ["full"]
    assert refused(await bench.do(Post(NewItem("1")), claim(2)))
    logging.disable(logging.NOTSET)
    assert counts(bench) == {}
    assert sum(minute.posted for minute in bench.engine.tally.rates(bench.clock.now())) == 0
    await bench.restart()
    assert counts(bench) == {}


@pytest.mark.protocol("5.44", "5.109")
async def test_rates_are_by_the_minute_and_begin_anew_with_a_start(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(claim(2))
    await bench.do(Change(item.id, Release(2, "box", 1)))
    bench.clock.advance(MINUTE_MS)
    await bench.do(claim(2))
    await bench.do(Change(item.id, Result("1", 2)))
    before, now = bench.engine.tally.rates(bench.clock.now())[-2:]
    assert (before.posted, before.claimed, before.requeued, before.finished) == (1, 1, 1, 0)
    assert (now.posted, now.claimed, now.requeued, now.finished) == (0, 1, 0, 1)
    await bench.restart()
    assert sum(minute.posted + minute.claimed for minute in bench.engine.tally.rates(bench.clock.now())) == 0


# ── The pause ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("5.46", "5.47")
async def test_while_paused_no_claim_gets_anything_and_all_else_goes_on(bench: Bench) -> None:
    first, second = await bench.post('"first"'), await bench.post('"second"')
    await bench.do(claim(2))
    waits = bench.say(claim(3, {"no": "such"}, wait_ms=1_000))
    assert await bench.do(Pause(True)) == [Paused(changed=True)]
    assert paused(bench)
    assert await bench.do(Pause(True)) == [Paused(changed=False)]
    assert await bench.do(claim(3), claim(HTTP)) == [Empty(), Empty()], "what does not wait is told at once"
    posted = await bench.do(claim(3, wait_ms=60_000), Post(NewItem("3")))
    assert [type(outcome) for outcome in posted] == [Posted]
    (finished,) = await bench.do(Change(first.id, Result("1", 1)))
    assert isinstance(finished, Changed)
    assert finished.accepted
    assert waits == []
    await bench.pass_by(1_000)
    assert waits == [Empty()], "it timed out"
    assert (await bench.read(second.id)).status == "pending"


@pytest.mark.protocol("5.47")
async def test_a_pause_takes_no_lease_away_and_stops_no_sweep(bench: Bench) -> None:
    held = await bench.claimed(bench.engine.new_holder())
    mortal, late = await bench.post(ttl_ms=1_000), await bench.post(delay_ms=1_000)
    await bench.do(Pause(True))
    await bench.pass_by(1_000)
    assert (await bench.read(mortal.id)).status == "expired"
    assert (await bench.read(late.id)).ready == 1
    assert (await bench.read(held.id)).status == "processing"
    await bench.do(Drop(held.holder))
    new = bench.engine.new_holder()
    (resumed,) = await bench.do(ResumeLeases(new, "box", "box-1", ((held.id, 1),)))
    assert isinstance(resumed, Resumed)
    assert resumed.leases[0].accepted
    await bench.pass_by(LEASE)
    assert (await bench.read(held.id)).ending == "lost"


async def test_as_the_pause_ends_who_waits_gets_what_is_there(bench: Bench) -> None:
    """What was there before, what was posted in it, and what came back in it; whenever the claim came."""
    gone = bench.engine.new_holder()
    lost = await bench.claimed(gone)
    before = bench.say(claim(3, {"kind": "b"}, wait_ms=60_000))
    await bench.engine.step()
    await bench.do(Pause(True))
    within = bench.say(claim(4, wait_ms=60_000, count=2))
    await bench.engine.step()
    posted = await bench.post('{"kind": "b"}')
    await bench.do(Drop(gone))
    assert (before, within) == ([], [])
    commits = len(bench.faults.commits)
    (unpaused, *_) = await bench.do(Pause(False))
    assert unpaused == Paused(changed=True)
    assert len(bench.faults.commits) == commits + 1, "in the same commit"
    assert [each.item.id for each in before if isinstance(each, Handed)] == [posted.id]
    assert [each.item.id for each in within if isinstance(each, Handed)] == [lost.id]


async def test_the_last_word_of_a_turn_counts(bench: Bench) -> None:
    await bench.post()
    outcomes = await bench.do(Pause(True), claim(2), Pause(False))
    assert [type(outcome) for outcome in outcomes] == [Paused, Handed, Paused]
    await bench.post()
    assert await bench.do(claim(2), Pause(True)) == [Empty(), Paused(changed=True)]


@pytest.mark.protocol("5.48")
async def test_a_pause_is_committed_before_it_is_answered_and_survives_a_restart(bench: Bench) -> None:
    logging.disable(logging.CRITICAL)
    bench.faults.at_commit = ["full"]
    assert refused(await bench.do(Pause(True)))
    logging.disable(logging.NOTSET)
    assert not paused(bench)
    bench.clock.advance(10_000)
    await bench.do(Pause(True))
    assert bench.faults.commits[-1], "it is synced"
    await bench.post()
    await bench.restart()
    assert paused(bench)
    assert await bench.do(claim(2)) == [Empty()]
    (handed,) = (await bench.do(claim(2, wait_ms=1_000), Pause(False)))[:1]
    assert isinstance(handed, Handed)


async def test_an_end_of_the_pause_that_could_not_be_written_ends_nothing(bench: Bench) -> None:
    await bench.do(Pause(True))
    await bench.post()
    waits = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    logging.disable(logging.CRITICAL)
    bench.faults.at_commit = ["full"]
    assert refused(await bench.do(Pause(False)))
    logging.disable(logging.NOTSET)
    await bench.pass_by(2_000)
    assert (waits, paused(bench)) == ([], True)
    await bench.do(Pause(False))
    assert [type(outcome) for outcome in waits] == [Handed]


async def test_a_paused_engine_makes_no_turns_for_those_that_wait(bench: Bench) -> None:
    await bench.do(Pause(True))
    await bench.post()
    bench.say(claim(2, {"no": "such"}, wait_ms=600_000))
    await bench.engine.step()
    commits = len(bench.faults.commits)
    await bench.pass_by(5_000)
    assert len(bench.faults.commits) == commits
    assert not bench.engine._searching


async def test_who_withdraws_in_a_pause_is_answered(bench: Bench) -> None:
    await bench.do(Pause(True))
    waits = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    await bench.do(Withdraw(2))
    assert waits == [Empty()]


# ── Attempts ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("5.14")
async def test_attempts_are_remembered_in_their_order(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    bench.clock.advance(5)
    await bench.do(Drop(holder))
    await bench.do(claim(3, worker="box-2"))
    await bench.do(Change(item.id, Fail('{"message":"no"}', retryable=False, fence=2)))
    assert await attempts(bench, item) == [
        Attempt(1, "box-1", START, START + 5, "lost", ""),
        Attempt(2, "box-2", START + 5, START + 5, "failed", '{"message":"no"}'),
    ]
    await bench.do(Change(item.id, Retry()))
    await bench.do(claim(3))
    assert len(await attempts(bench, item)) == 2, "a retry forgets none, and the one that runs is not among them"
    await bench.restart()
    assert len(await attempts(bench, item)) == 2


async def test_an_attempt_that_ended_in_this_very_turn_is_read_with_it(bench: Bench) -> None:
    """Also where the next one has begun in it: the item does not tell any more how that one ended."""
    item = await bench.claimed(2)
    bench.say(claim(3, wait_ms=1_000))
    await bench.engine.step()
    released, found = await bench.do(Change(item.id, Release(2, "box", 1)), Read((item.id,), attempts=True))
    assert isinstance(released, Changed)
    assert isinstance(found, Found)
    assert (found.items[item.id].attempts, found.items[item.id].ending) == (2, "open")
    assert found.attempts[item.id] == [Attempt(1, "box-1", START, START, "released", "")]


@pytest.mark.protocol("5.15")
async def test_an_attempt_that_was_not_over_after_all_is_no_more_among_them(bench: Bench) -> None:
    old, new = bench.engine.new_holder(), bench.engine.new_holder()
    item = await bench.claimed(old)
    await bench.do(Drop(old))
    assert [each.ending for each in await attempts(bench, item)] == ["lost"]
    await bench.do(ResumeLeases(new, "box", "box-1", ((item.id, 1),)))
    assert await attempts(bench, item) == []
    await bench.do(Drop(new))
    assert [each.ending for each in await attempts(bench, item)] == ["lost"]
    await bench.do(Change(item.id, Result("1", 1)))
    assert await attempts(bench, item) == []


# ── Retention ───────────────────────────────────────────────────────────────────────────────────────────────────


async def keeping(bench: Bench, keep: Keep = KEEP) -> None:
    """From now on ended items are kept for so long."""
    bench.engine.reconfigure(replace(bench.engine.queue, keep=keep))


async def one_of_each(bench: Bench) -> list[Item]:
    """Items that ended at this moment, in the order of `Keep`."""
    fetched, finished, failed, dead, cancelled = [await bench.post() for _ in range(5)]
    expired = await bench.post(ttl_ms=1)
    await bench.do(claim(2, count=3))
    await bench.do(
        Change(fetched.id, Result("1", None)),
        Change(finished.id, Result("1", None)),
        Change(failed.id, Fail('{"message":"no"}', retryable=False, fence=1)),
        Change(cancelled.id, Cancel()),
    )
    bench.engine.stamp(fetched.id, 3)
    await bench.do(claim(2))
    for number in range(1, 4):
        await bench.do(Change(dead.id, Fail('{"message":"no"}', retryable=True, fence=number, retry_in=0)), claim(2))
    await bench.pass_by(1)
    return [fetched, finished, failed, dead, cancelled, expired]


@pytest.mark.protocol("3.20", "7.8")
async def test_each_end_is_kept_for_its_time_and_goes_within_ten_seconds_of_it(bench: Bench) -> None:
    await keeping(bench)
    items = await one_of_each(bench)
    assert [(await bench.read(item.id)).status for item in items] == [
        "finished",
        "finished",
        "failed",
        "dead",
        "cancelled",
        "expired",
    ]
    for gone in range(6):
        await bench.pass_by(19_000)
        assert await there(bench, *items) == [False] * gone + [True] * (6 - gone)
        await bench.pass_by(1_000)
        assert (await there(bench, *items))[gone + 1 :] == [True] * (5 - gone)
    await bench.pass_by(10_000)
    assert await there(bench, *items) == [False] * 6
    assert counts(bench) == {}


class Ends:
    """Notes which of what it watches is gone."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    def offer(self, view: View) -> None:
        """A change is no end of a subscription."""

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def end(self, item_id: str) -> None:
        """An item is gone."""
        self.gone.append(item_id)


@pytest.mark.protocol("3.15")
@pytest.mark.parametrize("way", ["pruned", "deleted"])
async def test_whatever_goes_in_whatever_way_ends_its_subscriptions(bench: Bench, way: str) -> None:
    await keeping(bench)
    ends, items, stays = Ends(), await one_of_each(bench), await bench.post()
    for item in [*items, stays]:
        bench.engine.hub.watch(item.id, ends)
    if way == "pruned":
        await bench.pass_by(KEEP.expired + LOOK_MS)
    else:
        await bench.do(*(Delete(item.id) for item in items))
    assert sorted(ends.gone) == sorted(item.id for item in items)
    assert len(bench.engine.hub) == 1


async def test_what_goes_is_unknown_and_its_attempts_with_it(bench: Bench) -> None:
    await keeping(bench)
    item = await bench.claimed(2)
    await bench.do(Change(item.id, Fail('{"message":"no"}', retryable=False, fence=1)))
    assert len(await attempts(bench, item)) == 1
    await bench.pass_by(KEEP.failed + LOOK_MS)
    (found, changed) = await bench.do(Read((item.id,), attempts=True), Change(item.id, Cancel()))
    assert isinstance(found, Found)
    assert (found.items, found.attempts) == ({}, {})
    assert changed == Changed(accepted=False, item=None, reason="unknown")


async def test_many_go_in_slices_and_cost_no_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "SLICE", 10)
    await keeping(bench)
    posted = await bench.do(*(Post(NewItem("1")) for _ in range(25)))
    items = [outcome.item for outcome in posted if isinstance(outcome, Posted)]
    await bench.do(*(Change(item.id, Cancel()) for item in items))
    bench.clock.advance(KEEP.cancelled)
    bench.faults.commits.clear()
    for left in (15, 5, 0):
        await bench.engine.step()
        assert bench.engine.tally.counts["cancelled"] == left
    assert bench.faults.commits == [False] * 3, "loss of power may cost it"
    await bench.engine.step()
    assert len(bench.faults.commits) == 3, "there is nothing left to look for"


async def test_what_a_turn_has_to_do_with_stays_for_it(bench: Bench) -> None:
    await keeping(bench)
    item, other = await bench.post(), await bench.post()
    await bench.do(Change(item.id, Cancel()), Change(other.id, Cancel()))
    bench.clock.advance(KEEP.cancelled)
    (retried,) = await bench.do(Change(item.id, Retry()))
    assert isinstance(retried, Changed)
    assert retried.accepted
    assert await there(bench, item, other) == [True, False]
    assert counts(bench) == {"pending": 1}


@pytest.mark.protocol("5.74")
async def test_a_held_key_keeps_its_item(bench: Bench) -> None:
    await keeping(bench)
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    ended = await bench.read(item.id)
    for held, stays in ((1, True), (0, False)):
        async with bench._store.turn(durable=True) as turn:
            await turn.save([(replace(ended, held=1 - held), replace(ended, held=held))])
            await turn.commit()
        await bench.pass_by(KEEP.cancelled + LOOK_MS)
        assert await there(bench, item) == [stays]


async def test_a_change_of_keep_takes_effect_within_ten_seconds(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    await bench.pass_by(20_000)
    await keeping(bench, Keep(cancelled=15_000))
    assert await there(bench, item) == [True]
    await bench.pass_by(10_000)
    assert await there(bench, item) == [False]


async def test_where_ended_items_are_not_kept_at_all_they_still_are_told(bench: Bench) -> None:
    await keeping(bench, Keep(cancelled=0))
    item = await bench.post()
    (changed,) = await bench.do(Change(item.id, Cancel()))
    assert isinstance(changed, Changed)
    assert changed.accepted
    await bench.pass_by(10_000)
    assert await there(bench, item) == [False]


async def test_what_ended_while_the_server_was_away_goes_after_the_start(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    await bench.close()
    bench.clock.advance(200_000_000)
    await bench.start()
    await bench.pass_by(10_000)
    assert counts(bench) == {}


async def test_retention_waits_where_there_is_no_space(bench: Bench) -> None:
    await keeping(bench)
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    logging.disable(logging.CRITICAL)
    bench.clock.advance(KEEP.cancelled)
    bench.faults.at_commit = ["full", None]
    await bench.engine.step()
    logging.disable(logging.NOTSET)
    assert counts(bench) == {"cancelled": 1}
    await bench.pass_by(5_000)
    assert counts(bench) == {}


async def test_while_many_go_others_are_heard(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's loop lets go of the event loop between two slices."""
    monkeypatch.setattr(retention_module, "SLICE", 1)
    await keeping(bench)
    posted = await bench.do(*(Post(NewItem("1")) for _ in range(50)))
    await bench.do(*(Change(outcome.item.id, Cancel()) for outcome in posted if isinstance(outcome, Posted)))
    bench.clock.advance(KEEP.cancelled)
    running = asyncio.create_task(bench.engine.run())
    await asyncio.sleep(0)
    answered: list[Outcome] = []
    bench.engine.submit(Read(()), answered.append)
    while not answered:  # noqa: ASYNC110  It is answered by a turn between two slices.
        await asyncio.sleep(0)
    assert bench.engine.tally.counts["cancelled"] > 0
    bench.engine.stop()
    await running
