"""The engine, turn by turn: what a turn does, in which order, and how far it looks."""

from dataclasses import replace

import pytest

from leaseway_server.core import dispatch as dispatch_module
from leaseway_server.core.commands import (
    Change,
    Changed,
    Done,
    Drop,
    Empty,
    Failed,
    Found,
    Handed,
    Post,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.events import Cancel, Progress, Release, Renew, Result
from leaseway_server.core.jsontext import Json, write
from leaseway_server.core.model import NewItem
from leaseway_server.runtime import hand_out as hand_out_module
from leaseway_server.runtime import submission as submission_module
from support.bench import Bench, claim
from support.clock import START
from support.model import LEASE

# ── What a turn does ────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_answered_before_the_commit(bench: Bench) -> None:
    outcomes = bench.say(Post(NewItem("1")))
    assert outcomes == []
    assert bench.faults.commits == []
    await bench.engine.step()
    assert bench.faults.commits == [True]
    assert [type(outcome) for outcome in outcomes] == [Posted]


async def test_an_idle_engine_makes_no_turns(bench: Bench) -> None:
    await bench.pass_by(10_000)
    await bench.claimed(bench.engine.new_holder())
    commits = len(bench.faults.commits)
    await bench.pass_by(LEASE - 1)
    assert len(bench.faults.commits) == commits


async def test_what_gathered_is_one_turn(bench: Bench) -> None:
    posted = await bench.do(*(Post(NewItem(str(n))) for n in range(50)))
    assert len(bench.faults.commits) == 1
    ids = [outcome.item.id for outcome in posted if isinstance(outcome, Posted)]
    assert len(set(ids)) == 50
    (found,) = await bench.do(Read(tuple(ids), bodies=True))
    assert isinstance(found, Found)
    assert [found.items[item_id].body for item_id in ids] == [str(n) for n in range(50)]


@pytest.mark.protocol("1.16")
async def test_a_post_with_a_worker_waiting_is_a_lease_in_the_same_commit(bench: Bench) -> None:
    handed = bench.say(claim(bench.engine.new_holder(), wait_ms=1_000))
    await bench.engine.step()
    assert handed == []
    posted = await bench.do(Post(NewItem('{"a":1}', meta='{"t":1}')))
    assert [outcome.item.status for outcome in (*posted, *handed)] == ["processing"] * 2  # type: ignore[union-attr]
    (item,) = [outcome.item for outcome in handed if isinstance(outcome, Handed)]
    assert (item.body, item.meta, item.attempts, item.lease_until) == ('{"a":1}', '{"t":1}', 1, START + LEASE)
    assert await bench.read(item.id) == replace(item, body="")


async def test_a_claim_that_does_not_wait_is_empty_at_once(bench: Bench) -> None:
    assert await bench.do(claim(2)) == [Empty()]
    await bench.post()
    outcomes = await bench.do(claim(2, count=3))
    assert [type(outcome) for outcome in outcomes] == [Handed, Empty]


async def test_a_waiting_claim_is_empty_at_its_time_and_keeps_what_came(bench: Bench) -> None:
    outcomes = bench.say(claim(2, count=2, wait_ms=1_000))
    await bench.engine.step()
    await bench.post()
    bench.clock.advance(999)
    await bench.engine.step()
    assert [type(outcome) for outcome in outcomes] == [Handed]
    bench.clock.advance(1)
    await bench.engine.step()
    assert [type(outcome) for outcome in outcomes] == [Handed, Empty]


@pytest.mark.protocol("1.62")
async def test_claims_take_by_priority_then_due_time_then_age(bench: Bench) -> None:
    first = await bench.post('"first"')
    await bench.post('"second"')
    await bench.post('"urgent"', priority=1)
    await bench.post('"idle"', priority=-1)
    await bench.post('"later"', delay_ms=500)
    (handed,) = await bench.do(claim(2))
    assert isinstance(handed, Handed)
    assert handed.item.body == '"urgent"'
    await bench.pass_by(500)
    order = [outcome.item.body for outcome in await bench.do(claim(2, count=4)) if isinstance(outcome, Handed)]
    assert order == ['"first"', '"second"', '"later"', '"idle"']
    await bench.do(Drop(2))
    (again,) = await bench.do(claim(3))
    assert isinstance(again, Handed)
    assert again.item.body == '"urgent"'
    (next_one,) = await bench.do(claim(3))
    assert isinstance(next_one, Handed)
    assert next_one.item.id == first.id, "a requeued item keeps its place"


async def test_items_of_this_turn_and_of_the_store_are_taken_in_one_order(bench: Bench) -> None:
    await bench.post('"middle"', priority=0)
    outcomes = await bench.do(
        Post(NewItem('"high"', priority=1)), Post(NewItem('"low"', priority=-1)), claim(2, count=3)
    )
    assert [outcome.item.body for outcome in outcomes if isinstance(outcome, Handed)] == ['"high"', '"middle"', '"low"']


@pytest.mark.protocol("4.26")
async def test_what_one_says_takes_effect_in_the_order_said(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    outcomes = await bench.do(
        Change(item.id, Progress("1", holder, "box", 1)),
        Change(item.id, Result('"first"', 1)),
        Change(item.id, Progress("2", holder, "box", 1)),
        Change(item.id, Result('"second"', 1)),
        Read((item.id,)),
    )
    answers = [(each.accepted, each.reason, each.duplicate) for each in outcomes if isinstance(each, Changed)]
    assert answers == [(True, "", False), (True, "", False), (False, "terminal", False), (False, "terminal", True)]
    assert isinstance(outcomes[-1], Found)
    now = outcomes[-1].items[item.id]
    assert (now.status, now.progress, now.result) == ("finished", "1", '"first"')


async def test_unknown_ids_are_answered_as_such(bench: Bench) -> None:
    for item_id in ("0" * 16, "no id", ""):
        outcomes = await bench.do(
            Change(item_id, Cancel()), ResumeLeases(2, "box", "box-1", ((item_id, 1),)), Read((item_id,))
        )
        unknown = Changed(accepted=False, item=None, reason="unknown")
        assert outcomes == [unknown, Resumed((unknown,)), Found({}, START)]


async def test_a_withdrawn_claim_is_empty_and_others_stay(bench: Bench) -> None:
    asks = [claim(2, wait_ms=9), claim(2, wait_ms=9), claim(3, wait_ms=9)]
    mine, mine_too, other = map(bench.say, asks)
    await bench.engine.step()
    assert await bench.do(Withdraw(2, asks[0])) == [Done()]
    assert (mine, mine_too, other) == ([Empty()], [], [])
    await bench.do(Withdraw(2, asks[0]), Withdraw(2))
    assert (mine, mine_too, other) == ([Empty()], [Empty()], [])


async def test_a_dropped_socket_is_requeued_at_once_and_goes_to_who_waits(bench: Bench) -> None:
    gone, here = bench.engine.new_holder(), bench.engine.new_holder()
    item = await bench.claimed(gone)
    waiting = bench.say(claim(here, wait_ms=1_000))
    await bench.engine.step()
    own = bench.say(claim(gone, wait_ms=1_000))
    assert await bench.do(Drop(gone)) == [Done()]
    assert own == []
    (handed,) = waiting
    assert isinstance(handed, Handed)
    assert (handed.item.id, handed.item.attempts, handed.item.losses) == (item.id, 2, 1)


async def test_a_socket_that_resumed_and_dropped_in_one_turn_holds_nothing(bench: Bench) -> None:
    old, new = bench.engine.new_holder(), bench.engine.new_holder()
    item = await bench.claimed(old)
    resumed, done = await bench.do(ResumeLeases(new, "box", "box-1", ((item.id, 1),)), Drop(new))
    assert isinstance(resumed, Resumed)
    assert resumed.leases[0].accepted
    assert done == Done()
    assert (await bench.read(item.id)).status == "pending"


async def test_a_lease_that_moved_is_not_requeued_with_the_old_socket(bench: Bench) -> None:
    old, new = bench.engine.new_holder(), bench.engine.new_holder()
    item = await bench.claimed(old)
    await bench.do(ResumeLeases(new, "box", "box-1", ((item.id, 1),)))
    await bench.do(Drop(old))
    assert (await bench.read(item.id)).holder == new


@pytest.mark.protocol("5.68")
async def test_posts_past_what_may_wait_are_refused_and_requeues_are_not(bench: Bench) -> None:
    bench.engine.queue = replace(bench.engine.queue, max_pending=2)
    outcomes = await bench.do(*(Post(NewItem(str(n))) for n in range(4)))
    assert [type(outcome) for outcome in outcomes] == [Posted, Posted, Failed, Failed]
    assert all(outcome.error.code == "limit" for outcome in outcomes if isinstance(outcome, Failed))
    (handed,) = await bench.do(claim(2))
    assert isinstance(handed, Handed)
    await bench.post("there is room for one")
    await bench.do(Change(handed.item.id, Release(2, "box", 1)))
    assert (await bench.read(handed.item.id)).status == "pending"
    (refusal,) = await bench.do(Post(NewItem("5")))
    assert isinstance(refusal, Failed)


async def test_a_read_gives_results_of_what_has_ended_and_bodies_where_asked(bench: Bench) -> None:
    open_, done = await bench.post('"open"'), await bench.post('"done"')
    (found,) = (await bench.do(Change(done.id, Result('"result"', None)), Read((open_.id, done.id), bodies=True)),)
    assert isinstance(found[1], Found)
    items = found[1].items
    assert [(items[each.id].body, items[each.id].result) for each in (open_, done)] == [
        ('"open"', ""),
        ('"done"', '"result"'),
    ]
    assert (await bench.read(done.id)).result == '"result"'
    assert (await bench.read(done.id)).body == ""


@pytest.mark.protocol("7.3")
async def test_turns_of_progress_and_renewals_alone_may_be_lost_with_the_power(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    item = await bench.claimed(holder)
    bench.faults.commits.clear()
    await bench.do(Change(item.id, Progress("1", holder, "box", 1)), Change(item.id, Renew(holder, "box", 1)))
    await bench.do(Read((item.id,)))
    assert bench.faults.commits == [False, False]
    await bench.do(Change(item.id, Renew(holder, "box", 1)), Change(item.id, Release(holder, "box", 1)))
    assert bench.faults.commits == [False, False, True]


async def test_a_turn_is_bounded_in_number_and_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission_module, "TURN_COMMANDS", 3)
    said = [bench.say(Post(NewItem("1"))) for _ in range(7)]
    for expected in (3, 6, 7):
        await bench.engine.step()
        assert sum(map(len, said)) == expected
    monkeypatch.setattr(submission_module, "TURN_BYTES", 10)
    said = [bench.say(Post(NewItem("12345678"))) for _ in range(3)]
    for expected in (2, 3):
        await bench.engine.step()
        assert sum(map(len, said)) == expected
    item = await bench.post()
    said = [bench.say(Change(item.id, Result("12345678901", None))) for _ in range(2)]
    for expected in (1, 2):
        await bench.engine.step()
        assert sum(map(len, said)) == expected


# ── Looking for matches ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("4.55")
async def test_a_match_deep_in_the_backlog_is_found_over_several_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 10)
    await bench.do(*(Post(NewItem('{"kind":"other"}')) for _ in range(35)), Post(NewItem('{"kind":"wanted"}')))
    outcomes = bench.say(claim(2, {"kind": "wanted"}))
    commits = len(bench.faults.commits)
    while not outcomes:
        await bench.engine.step()
    assert [type(outcome) for outcome in outcomes] == [Handed]
    assert len(bench.faults.commits) - commits == 4
    assert await bench.do(claim(2, {"kind": "wanted"})) == [Empty()], "the lane has seen all of it"


@pytest.mark.protocol("4.55")
async def test_a_claim_for_anything_waits_for_no_search(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 10)
    await bench.do(*(Post(NewItem('{"kind":"other"}')) for _ in range(35)))
    searching = [bench.say(claim(2, {"kind": f"none-{number}"}, wait_ms=60_000)) for number in range(20)]
    for _ in searching:  # Each has its first look, as the oldest claims.
        await bench.engine.step()
    for _ in range(3):
        (handed,) = await bench.do(claim(3))
        assert isinstance(handed, Handed), "in the very turn that takes it up"
    assert not any(searching)


@pytest.mark.protocol("4.55")
async def test_a_search_holds_up_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 10)
    await bench.do(*(Post(NewItem('{"kind":"other"}')) for _ in range(35)))
    late = bench.say(claim(2, {"kind": "wanted"}))
    quick = bench.say(claim(3, {"kind": "other"}))
    while not quick:  # The two searches take turns.
        await bench.engine.step()
    assert [type(outcome) for outcome in quick] == [Handed]
    assert late == []
    wanted = await bench.post('{"kind":"wanted"}')
    while not late:
        await bench.engine.step()
    (found,) = late
    assert isinstance(found, Handed)
    assert found.item.id == wanted.id


MANY_VALUES = {"kind": [f"none {n}" for n in range(4 * hand_out_module.CRITERIA_VALUES)]}


@pytest.mark.parametrize(
    ("size", "criteria", "turns"),
    [
        pytest.param(10, {"kind": "none"}, 5, id="small items"),
        pytest.param(9 * hand_out_module.PARSED_CHARACTERS, {"kind": "none"}, 8, id="large items, eight at a time"),
        pytest.param(10, MANY_VALUES, 25, id="large criteria, two items at a time"),
    ],
)
async def test_a_slice_holds_less_of_what_takes_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, size: int, criteria: Json, turns: int
) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 10)
    await bench.do(*(Post(NewItem(write({"kind": "x" * size}))) for _ in range(49)))
    outcomes = bench.say(claim(2, criteria))
    commits = len(bench.faults.commits)
    while not outcomes:
        await bench.engine.step()
    assert outcomes == [Empty()]
    assert len(bench.faults.commits) - commits == turns


async def test_what_a_claim_that_has_enough_leaves_goes_to_another_in_the_same_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_module, "CLAIM_CHARACTERS", len('{"n":0}') + 1)
    for number in range(4):
        await bench.post(write({"n": number}))
    outcomes = await bench.do(claim(2, count=4), claim(3, {"n": {"$gte": 0}}))
    handed = [outcome.item for outcome in outcomes if isinstance(outcome, Handed)]
    assert [(item.holder, item.body) for item in handed] == [(2, '{"n":0}'), (2, '{"n":1}'), (3, '{"n":2}')]


async def test_an_item_that_no_waiting_claim_takes_is_there_for_the_next(bench: Bench) -> None:
    assert await bench.do(claim(2, {"kind": "wanted"})) == [Empty()]
    item = await bench.post('{"kind":"wanted"}')
    (handed,) = await bench.do(claim(2, {"kind": "wanted"}))
    assert isinstance(handed, Handed)
    assert handed.item.id == item.id


async def test_what_is_past_its_life_is_stepped_over(bench: Bench) -> None:
    await bench.post('"mortal"', ttl_ms=1_000)
    alive = await bench.post('"alive"')
    bench.clock.advance(1_000)
    (handed,) = await bench.do(claim(2))
    assert isinstance(handed, Handed)
    assert handed.item.id == alive.id
