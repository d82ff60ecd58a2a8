"""Many lanes, large items: what one turn does is bounded, and no claim misses its item for that."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaseway_server.core.commands import Change, Empty, Handed, Outcome, Post, Posted, Read
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.dispatch import END
from leaseway_server.core.events import Adjust, Cancel, Renew
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import NewItem
from leaseway_server.runtime import hand_out as hand_out_module
from leaseway_server.runtime import offering as offering_module
from support.bench import Bench, claim, open_bench

WAIT = 600_000
LARGE = '{"a":[' + "1," * 400_000 + "1]}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on either store."""
    async with open_bench(request.param, tmp_path, lambda: request.getfixturevalue("postgres")) as bench:
        yield bench


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Criteria]:
    """The criteria that were held against an item, each time."""
    found: list[Criteria] = []
    matches = Criteria.matches

    def counted(criteria: Criteria, item: Json) -> bool:
        found.append(criteria)
        return matches(criteria, item)

    monkeypatch.setattr(Criteria, "matches", counted)
    return found


def wanting(lanes: int) -> list[Any]:
    return [claim(2, {"a": {"$has": -1 - number}}, wait_ms=WAIT) for number in range(lanes)]


def bodies(outcomes: list[Outcome]) -> list[str]:
    return [each.item.body for each in outcomes if isinstance(each, Handed)]


async def settle(bench: Bench) -> int:
    """Turns until nobody searches any more; gives how many that took."""
    turns = 0
    while bench.engine._dispatch.searching:
        await bench.engine.step()
        turns += 1
    return turns


async def test_a_large_item_is_held_against_few_lanes_a_turn(bench: Bench, compared: list[Criteria]) -> None:
    waiting = [bench.say(each) for each in wanting(400)]
    await bench.engine.step()
    await settle(bench)
    compared.clear()
    item = await bench.post(LARGE)
    assert 0 < len(compared) <= 4, "a few are offered it, and one searches"
    compared.clear()
    await bench.engine.step()
    assert 0 < len(compared) <= 4, "the next turn goes on"
    (done,) = await bench.do(Change(item.id, Cancel()))
    assert done.accepted, done  # type: ignore[union-attr]
    assert not any(waiting)


async def test_every_claim_that_matches_gets_its_item_in_the_end(bench: Bench, compared: list[Criteria]) -> None:
    waiting = [bench.say(each) for each in wanting(30)]
    await bench.engine.step()
    await settle(bench)
    small = [json.dumps({"a": [-1 - number]}) for number in range(30)]
    await bench.do(*(Post(NewItem(body)) for body in (LARGE, *small)))
    assert await settle(bench) > 1
    assert [bodies(outcomes) for outcomes in waiting] == [[body] for body in small]


async def test_many_lanes_and_a_large_item_that_come_in_one_turn_share_its_slice(
    bench: Bench, compared: list[Criteria]
) -> None:
    said = [bench.say(each) for each in wanting(40)]
    await bench.do(Post(NewItem(LARGE)))
    assert 0 < len(compared) <= 4
    assert await settle(bench) >= 10
    assert not any(said)


async def test_small_items_are_offered_to_all_lanes_at_once(bench: Bench, compared: list[Criteria]) -> None:
    waiting = [bench.say(each) for each in wanting(400)]
    await bench.engine.step()
    await settle(bench)
    compared.clear()
    await bench.post('{"a":[-400]}')
    assert len(compared) == 400
    assert bodies(waiting[-1]) == ['{"a":[-400]}']
    assert not bench.engine._dispatch.searching


async def test_many_small_items_that_nobody_wants_are_left_to_the_searches(
    bench: Bench, compared: list[Criteria], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering_module, "OFFERS", 50)
    monkeypatch.setattr(hand_out_module, "SLICE", 20)
    waiting = [bench.say(each) for each in wanting(20)]
    await bench.engine.step()
    await settle(bench)
    compared.clear()
    await bench.do(*(Post(NewItem('{"a":[1]}')) for _ in range(30)), Post(NewItem('{"a":[-20]}')))
    assert len(compared) <= 50 + 20 + hand_out_module.FEW
    await settle(bench)
    assert bodies(waiting[-1]) == ['{"a":[-20]}']


async def test_large_items_that_come_due_are_read_a_few_at_a_time(
    bench: Bench, compared: list[Criteria], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their bodies are in the store, and what is not offered is not read there."""
    monkeypatch.setattr(offering_module, "OFFERS", 10)
    waiting = bench.say(claim(2, {"a": -1}, wait_ms=WAIT))
    later = bench.clock.now() + 1_000
    body = json.dumps({"a": 1, "b": "x" * 20_000})
    await bench.do(*(Post(NewItem(body, due_at=later)) for _ in range(40)), Post(NewItem('{"a":-1}', due_at=later)))
    await settle(bench)
    compared.clear()
    bench.clock.advance(1_000)
    await bench.engine.step()
    assert 0 < len(compared) < 40
    await settle(bench)
    assert bodies(waiting) == ['{"a":-1}']


async def test_a_search_passes_by_none_of_the_turns_own_items_for_what_the_store_has_behind_them(bench: Bench) -> None:
    await bench.post('{"a":1,"from":"the store"}', priority=1)
    said = bench.say(claim(2, {"a": 1}, count=2))
    others = [Post(NewItem('{"a":0}', priority=9)) for _ in range(2 * hand_out_module.FEW)]
    await bench.do(*others, Post(NewItem('{"a":1}', priority=9)))
    await settle(bench)
    assert bodies(said) == ['{"a":1}', '{"a":1,"from":"the store"}']


async def test_a_claim_that_does_not_wait_is_answered_when_it_has_seen_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering_module, "OFFERS", 1)
    monkeypatch.setattr(hand_out_module, "SLICE", 5)
    said = bench.say(claim(2, {"a": 1}))
    missed = bench.say(claim(3, {"a": 9}))
    await bench.do(*(Post(NewItem('{"a":0}')) for _ in range(30)), Post(NewItem('{"a":1}')))
    assert (said, missed) == ([], [])
    await settle(bench)
    assert bodies(said) == ['{"a":1}']
    assert missed == [Empty()]


@pytest.mark.protocol("4.55")
async def test_what_is_looked_at_is_nothing_new_to_a_lane(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or whoever looks at the head of a long queue again and again would keep all searches from its end."""
    monkeypatch.setattr(offering_module, "OFFERS", 1)
    posts = [Post(NewItem('{"a":0}', key=f"k{number}")) for number in range(9)]
    items = [each.item for each in await bench.do(*posts) if isinstance(each, Posted)]
    waiting = [bench.say(each) for each in wanting(3)]
    (idle,) = await bench.do(claim(9, {"idle": 1}))
    await settle(bench)
    assert idle == Empty()
    ids = [item.id for item in items]
    await bench.do(Read(tuple(ids), bodies=True))
    await bench.do(*(Change(item_id, Renew(2, "box", 1)) for item_id in ids))
    await bench.do(*(Change(item.id, Adjust(-item.rank, item.due_at)) for item in items))
    await bench.do(*posts)
    lanes = bench.engine._dispatch._lanes.values()
    assert [lane.cursor for lane in lanes] == [END] * 4
    assert not any(waiting)
    await bench.do(*(Change(item_id, Adjust(priority=1)) for item_id in ids))
    assert min(lane.cursor for lane in lanes) < END, "what has changed is"


@pytest.mark.protocol("4.55")
async def test_a_match_deep_in_the_backlog_is_found_though_much_becomes_ready_at_its_head(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in bursts, as from sockets that drop, is offered over several turns, and ends no search."""
    monkeypatch.setattr(offering_module, "OFFERS", 10)
    monkeypatch.setattr(hand_out_module, "SLICE", 9)
    backlog = [Post(NewItem('{"a":0}')) for _ in range(300)]
    await bench.do(*backlog, Post(NewItem('{"a":[-1],"deep":1}')))
    deep, first, second = (bench.say(each) for each in wanting(3))
    burst = [Post(NewItem('{"a":0}', priority=9)) for _ in range(8)]
    for turn in range(300):
        if turn % 5 == 0:
            await bench.do(*burst, Post(NewItem('{"a":[-2]}' if turn == 50 else "0", priority=8)))
        else:
            await bench.engine.step()
        if deep:
            break
    assert bodies(deep) == ['{"a":[-1],"deep":1}']
    assert bodies(first) == ['{"a":[-2]}'], "and who waits for what came late in a burst got it"
    assert second == []


@pytest.mark.protocol("4.55", "7.4")
async def test_a_claim_for_anything_waits_for_no_first_look_of_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_out_module, "SLICE", 5)
    await bench.do(*(Post(NewItem('{"a":0}')) for _ in range(60)))
    others = [bench.say(each) for each in wanting(100)]
    for number in range(3):
        (handed,) = await bench.do(claim(7, wait_ms=WAIT * (number % 2)))
        assert isinstance(handed, Handed)
        others += [bench.say(each) for each in wanting(50)]
    assert bench.engine._dispatch.searching
    assert not any(others)


# ── Against what an unbounded turn gives ────────────────────────────────────────────────────────────────────────

KINDS = st.integers(0, 4)
TURNS = st.lists(
    st.lists(
        st.tuples(st.just("post"), KINDS, st.sampled_from([1, 50, 99]))
        | st.tuples(st.just("claim"), KINDS, st.integers(1, 3))
        | st.tuples(st.just("read"), KINDS, st.integers(1, 99)),
        min_size=1,
        max_size=8,
    ),
    max_size=8,
)


async def outcome_of(turns: list[list[tuple[str, int, int]]], offers: int, piece: int) -> list[list[str]]:
    """Which items each claim got in the end; each kind is asked for in criteria of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offering_module, "OFFERS", offers)
        patch.setattr(offering_module, "LANES", 2)
        patch.setattr(hand_out_module, "SLICE", piece)
        async with open_bench("memory", Path()) as bench:
            claims, numbers, posted = [], iter(range(10_000)), []
            for turn in turns:
                for verb, kind, number in turn:
                    if verb == "post":
                        body = json.dumps({"kinds": ["none", kind], "number": next(numbers)})
                        posted.append(bench.say(Post(NewItem(body, priority=number))))
                    elif verb == "read":
                        known = [each.item.id for (each,) in filter(None, posted) if isinstance(each, Posted)]
                        bench.say(Read(tuple(known[-number:])))
                    else:
                        wanted = claim(2, {"kinds": {"$has": kind}}, count=number, wait_ms=WAIT)
                        claims.append(bench.say(wanted))
                await bench.engine.step()
            await settle(bench)
            return [sorted(bodies(outcomes)) for outcomes in claims]


@settings(deadline=None)
@given(TURNS, st.integers(1, 12), st.integers(1, 12))
def test_each_claim_gets_as_much_as_from_a_turn_without_bounds(
    turns: list[list[tuple[str, int, int]]], offers: int, piece: int
) -> None:
    bounded = asyncio.run(outcome_of(turns, offers, piece))
    unbounded = asyncio.run(outcome_of(turns, 10**9, 10**9))
    assert [len(each) for each in bounded] == [len(each) for each in unbounded]
