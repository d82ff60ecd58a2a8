"""Keys, turn by turn, on either store: what is a duplicate, what a conflict, and when a key is free."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Changed, Delete, Empty, Found, Handed, PostAll, Read
from leaseway_server.core.errors import Conflict
from leaseway_server.core.events import Cancel, Result, Retry
from leaseway_server.core.keys import GRAIN
from leaseway_server.core.model import NewItem
from leaseway_server.core.retention import Keep
from leaseway_server.runtime import turn as turn_module
from support.bench import Bench, claim
from support.model import POLICY
from support.posting import array, keyed, one, posted, posted_all, refusal

WINDOW = 20 * GRAIN
"""The dedupe window on these benches; posts come at full seconds."""
EQUAL = '{"b":[1.0,2],"a":null}'
SAME = '{"a":null,"b":[1,2.0]}'


@pytest.fixture(autouse=True)
def short_window(bench: Bench) -> None:
    """The keys of a bench are held for a short time."""
    configure(bench)


def configure(bench: Bench, *, window: int = WINDOW, own_only: bool = False) -> None:
    policy = replace(POLICY, dedupe_window=window)
    bench.engine.reconfigure(replace(bench.engine.queue, policy=policy, own_only=own_only))


async def cancel(bench: Bench, item_id: str) -> None:
    (changed,) = await bench.do(Change(item_id, Cancel()))
    assert isinstance(changed, Changed)
    assert changed.accepted


async def held(bench: Bench, item_id: str) -> int:
    return (await bench.read(item_id)).held


# ── Duplicates and conflicts ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("5.75", "5.76")
async def test_an_equal_item_is_a_duplicate_and_another_a_conflict(bench: Bench) -> None:
    first = await one(bench, keyed(EQUAL, priority=1))
    assert (first.duplicate, first.item.key, first.item.held) == (False, "k", 1)
    again = await one(bench, keyed(SAME, delay_ms=9_000))
    assert (again.duplicate, again.item.id, again.item.rank) == (True, first.item.id, -1), "the item is what counts"
    for other in ('{"b":[true,2],"a":null}', '{"b":[1,2]}', '"x"', f'"{"x" * 1_000}"'):
        (outcome,) = await bench.do(keyed(other))
        assert isinstance(refusal(outcome), Conflict)
        assert refusal(outcome).problems[0].path == "/key"
    assert not (await one(bench, keyed(EQUAL, key="K"))).duplicate
    assert not (await one(bench, keyed(EQUAL, key=""))).duplicate


async def test_twenty_equal_posts_in_one_turn_make_one_item(bench: Bench) -> None:
    outcomes = await bench.do(*[keyed()] * 20, keyed('{"a":2}'))
    first, *others = map(posted, outcomes[:20])
    assert not first.duplicate
    assert all(other.duplicate for other in others)
    assert {other.item.id for other in others} == {first.item.id}
    assert isinstance(refusal(outcomes[20]), Conflict)
    assert [type(outcome) for outcome in await bench.do(claim(2, count=2))] == [Handed, Empty]


async def test_twenty_equal_posts_in_one_array_make_one_item(bench: Bench) -> None:
    (outcome,) = await bench.do(array(*[keyed().new] * 20))
    answers = posted_all(outcome)
    assert [answer.duplicate for answer in answers] == [False] + [True] * 19
    assert len({answer.item.id for answer in answers}) == 1


async def test_a_duplicate_tells_how_the_item_stands_when_the_turn_ends(bench: Bench) -> None:
    """Also where a claim of the same turn takes it, or a report ends it."""
    first, second, *_ = await bench.do(keyed(), keyed(), claim(2))
    assert [posted(each).item.status for each in (first, second)] == ["processing"] * 2
    item_id = posted(first).item.id
    again, _ = await bench.do(keyed(), Change(item_id, Result("1", 1)))
    assert (posted(again).duplicate, posted(again).item.status) == (True, "finished")
    assert (await one(bench, keyed())).item.status == "finished"


@pytest.mark.protocol("5.69")
async def test_a_known_key_is_answered_on_a_full_queue(bench: Bench) -> None:
    bench.engine.reconfigure(replace(bench.engine.queue, max_pending=1))
    first = await one(bench, keyed())
    known, new, other = await bench.do(keyed(), keyed(key="new"), keyed('"other"'))
    assert posted(known).item.id == first.item.id
    assert refusal(new).code == "limit"
    assert refusal(other).code == "conflict"


@pytest.mark.parametrize("body", ["[1,1.0,true]", f'"{"ü" * 400}"', f"[{'10000000000000000000,' * 50}1]"])
async def test_the_body_is_compared_after_a_restart_too(bench: Bench, body: str) -> None:
    first = await one(bench, keyed(body))
    await bench.restart()
    assert (await one(bench, keyed(body))).item.id == first.item.id
    if "1000" in body:
        shorter = f"[{'1e19,' * 50}1.0]"
        assert (await one(bench, keyed(shorter))).item.id == first.item.id


async def test_a_post_without_key_costs_nothing_of_keys(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("no key was named")

    store = bench.engine._store
    async with store.turn(durable=False) as turn:
        kind = type(turn._turn)  # type: ignore[attr-defined]
    for verb in ("key_holders", "shared_key_holders", "body_sizes", "past_keys", "read_bodies"):
        monkeypatch.setattr(kind, verb, never)
    item = await bench.post()
    await cancel(bench, item.id)
    await bench.do(Change(item.id, Retry()))
    await cancel(bench, item.id)
    await bench.do(Delete(item.id))


# ── How long a key is held ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("5.73")
async def test_an_open_items_key_is_held_past_the_window(bench: Bench) -> None:
    first = await one(bench, keyed(delay_ms=10 * WINDOW))
    await bench.pass_by(3 * WINDOW)
    assert (await one(bench, keyed())).item.id == first.item.id
    await cancel(bench, first.item.id)
    assert not (await one(bench, keyed())).duplicate, "the end was the later of the two"


@pytest.mark.protocol("5.73")
async def test_an_ended_items_key_is_held_for_the_window(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    bench.clock.advance(WINDOW - 1)
    again = await one(bench, keyed())
    assert (again.duplicate, again.item.status) == (True, "cancelled")
    (conflict,) = await bench.do(keyed('"other"'))
    assert isinstance(refusal(conflict), Conflict)
    bench.clock.advance(1)
    after = await one(bench, keyed('"other"'))
    assert not after.duplicate
    assert await held(bench, first.item.id) == 0
    assert await held(bench, after.item.id) == 1
    assert (await bench.read(first.item.id)).key == "k", "the view still tells under which key it was posted"


async def test_a_key_that_passed_is_let_go_by_itself(bench: Bench) -> None:
    first = await one(bench, keyed())
    rev = (await bench.read(first.item.id)).rev
    await cancel(bench, first.item.id)
    bench.clock.advance(WINDOW - 1)
    await bench.engine.step()
    assert await held(bench, first.item.id) == 1
    bench.clock.advance(1)
    assert bench.engine._next_deadline() <= bench.clock.now()
    await bench.engine.step()
    item = await bench.read(first.item.id)
    assert (item.held, item.rev) == (0, rev + 1), "nobody is told of it"
    assert bench.engine._deadlines.minima.key == 0


async def test_a_sweep_goes_on_where_it_stopped_and_over_a_restart(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "SLICE", 2)
    items = [(await one(bench, keyed(key=f"k{number}"))).item.id for number in range(5)]
    for item_id in items:
        await cancel(bench, item_id)
    await bench.restart()
    configure(bench)
    bench.clock.advance(WINDOW)
    for left in (3, 1, 0):
        await bench.engine.step()
        assert sum([await held(bench, item_id) for item_id in items]) <= left
    assert bench.engine._deadlines.minima.key == 0


async def test_a_window_of_zero_holds_it_to_the_end(bench: Bench) -> None:
    configure(bench, window=0)
    first = await one(bench, keyed())
    assert (await one(bench, keyed())).duplicate
    await cancel(bench, first.item.id)
    assert not (await one(bench, keyed())).duplicate


async def test_a_delete_frees_the_key_at_once(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    deleted, after = await bench.do(Delete(first.item.id), keyed('"other"'))
    assert isinstance(deleted, Changed)
    assert not posted(after).duplicate
    assert (await one(bench, keyed('"other"'))).item.id == posted(after).item.id


async def test_a_post_that_comes_before_the_delete_is_still_a_duplicate(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    again, _ = await bench.do(keyed(), Delete(first.item.id))
    assert (posted(again).duplicate, posted(again).item.id) == (True, first.item.id)
    assert not (await one(bench, keyed())).duplicate


# ── Whose keys ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("2.23")
async def test_where_only_ones_own_is_seen_each_has_its_own_keys(bench: Bench) -> None:
    configure(bench, own_only=True)
    ann = await one(bench, keyed())
    bob, again, other = await bench.do(
        array(replace(keyed().new, posted_by="bob")), keyed(), array(replace(keyed('"x"').new, posted_by="bob"))
    )
    (bobs,) = posted_all(bob)
    assert (bobs.duplicate, posted(again).item.id) == (False, ann.item.id)
    assert refusal(other).problems[0].path == "/0/key"
    await cancel(bench, ann.item.id)
    await bench.do(Delete(ann.item.id))
    assert not (await one(bench, keyed())).duplicate
    assert posted_all((await bench.do(array(replace(keyed().new, posted_by="bob"))))[0])[0].duplicate


def by(poster: str, body: str = "{}", key: str = "k") -> PostAll:
    return array(replace(keyed(body, key=key).new, posted_by=poster))


async def told(bench: Bench, post: PostAll) -> tuple[bool, str]:
    """Whether it was a duplicate, and of which item."""
    (answer,) = posted_all((await bench.do(post))[0])
    return answer.duplicate, answer.item.id


async def conflicts(bench: Bench, post: PostAll) -> bool:
    return isinstance(refusal((await bench.do(post))[0]), Conflict)


@pytest.mark.protocol("2.23", "5.75")
async def test_a_held_key_outlives_changes_of_visibility(bench: Bench) -> None:
    _, first = await told(bench, by("ann"))
    for own_only in (True, False, True):
        configure(bench, own_only=own_only)
        assert await told(bench, by("ann")) == (True, first)
        assert await conflicts(bench, by("ann", '"x"'))
    await cancel(bench, first)
    for own_only in (False, True):
        configure(bench, own_only=own_only)
        assert await told(bench, by("ann")) == (True, first)
    await bench.pass_by(WINDOW)
    assert await held(bench, first) == 0
    assert not (await told(bench, by("ann")))[0]


@pytest.mark.protocol("2.22", "2.23")
async def test_what_another_holds_counts_for_nobody_once_each_sees_its_own(bench: Bench) -> None:
    _, anns = await told(bench, by("ann"))
    assert await told(bench, by("bob")) == (True, anns)
    configure(bench, own_only=True)
    duplicate, bobs = await told(bench, by("bob", '"x"'))
    assert not duplicate
    configure(bench)
    assert await told(bench, by("ann")) == (True, anns), "one's own comes before another's"
    assert await told(bench, by("bob", '"x"')) == (True, bobs)
    assert await conflicts(bench, by("cid", '"y"'))


async def test_where_several_hold_one_key_it_is_free_when_the_last_has_let_it_go(bench: Bench) -> None:
    configure(bench, own_only=True)
    _, anns = await told(bench, by("ann"))
    await cancel(bench, anns)
    bench.clock.advance(WINDOW // 2)
    _, bobs = await told(bench, by("bob", '"x"'))
    configure(bench)
    bench.clock.advance(WINDOW // 2)
    assert await told(bench, by("cid", '"x"')) == (True, bobs)
    assert await conflicts(bench, by("ann", '"y"'))
    (outcome,) = await bench.do(Change(anns, Retry()))
    assert isinstance(refusal(outcome), Conflict)
    await cancel(bench, bobs)
    bench.clock.advance(WINDOW // 2)
    assert not (await told(bench, by("ann", '"y"')))[0]


async def test_an_item_that_holds_its_key_beside_others_is_retried(bench: Bench) -> None:
    configure(bench, own_only=True)
    _, anns = await told(bench, by("ann"))
    await told(bench, by("bob"))
    await cancel(bench, anns)
    configure(bench)
    assert (await retried(bench, anns)).accepted
    assert await told(bench, by("ann")) == (True, anns)


async def test_posters_share_a_key_within_one_turn_too(bench: Bench) -> None:
    ann, bob, cid = await bench.do(by("ann"), by("bob"), by("cid", '"x"'))
    assert posted_all(bob)[0].item.id == posted_all(ann)[0].item.id
    assert isinstance(refusal(cid), Conflict)


# ── Another window ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("5.73")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_longer_window_counts_for_what_is_held_already(bench: Bench, restarts: bool) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    configure(bench, window=3 * WINDOW)
    if restarts:
        await bench.restart()
        configure(bench, window=3 * WINDOW)
    await bench.pass_by(3 * WINDOW - GRAIN)
    assert await held(bench, first.item.id) == 1
    assert (await one(bench, keyed())).item.id == first.item.id
    await bench.pass_by(GRAIN)
    assert await held(bench, first.item.id) == 0


@pytest.mark.protocol("5.73", "5.74")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_shorter_window_counts_for_what_is_held_already(
    bench: Bench, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slice by slice; and what it kept from being pruned goes then."""
    monkeypatch.setattr(turn_module, "SLICE", 2)
    bench.engine.reconfigure(replace(bench.engine.queue, keep=Keep(cancelled=0)))
    items = [(await one(bench, keyed(key=f"k{number}"))).item.id for number in range(5)]
    for item_id in items:
        await cancel(bench, item_id)
    await bench.pass_by(2 * GRAIN)
    if restarts:
        await bench.restart()
    configure(bench, window=GRAIN)
    assert not (await one(bench, keyed(key="k0"))).duplicate
    bench.engine.reconfigure(replace(bench.engine.queue, keep=Keep(cancelled=0)))
    for _ in range(9):
        await bench.engine.step()
    (found,) = await bench.do(Read(tuple(items)))
    assert isinstance(found, Found)
    assert found.items == {}
    assert bench.engine._deadlines.minima.key == 0


async def test_no_window_gives_back_a_key_that_was_let_go(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    await bench.pass_by(WINDOW)
    configure(bench, window=3 * WINDOW)
    assert not (await one(bench, keyed())).duplicate


# ── Retries ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def retried(bench: Bench, item_id: str) -> Changed:
    (changed,) = await bench.do(Change(item_id, Retry()))
    assert isinstance(changed, Changed)
    return changed


async def test_a_retry_holds_the_key_anew(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    await bench.pass_by(WINDOW)
    assert await held(bench, first.item.id) == 0
    assert (await retried(bench, first.item.id)).accepted
    assert await held(bench, first.item.id) == 1
    await bench.pass_by(3 * WINDOW)
    assert (await one(bench, keyed())).item.id == first.item.id


async def test_a_retry_before_the_key_passed_keeps_it(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    assert (await retried(bench, first.item.id)).accepted
    await bench.pass_by(3 * WINDOW)
    assert (await one(bench, keyed())).item.id == first.item.id
    await cancel(bench, first.item.id)
    assert not (await one(bench, keyed())).duplicate


async def test_a_retry_in_the_very_turn_of_the_sweep_keeps_it(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    bench.clock.advance(WINDOW)
    assert (await retried(bench, first.item.id)).accepted
    assert await held(bench, first.item.id) == 1
    assert (await one(bench, keyed())).item.id == first.item.id


@pytest.mark.protocol("1.42")
async def test_a_retry_is_refused_where_another_item_has_the_key(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    await bench.pass_by(WINDOW)
    other = await one(bench, keyed())
    rev = (await bench.read(first.item.id)).rev
    (outcome,) = await bench.do(Change(first.item.id, Retry()))
    assert isinstance(refusal(outcome), Conflict)
    assert (await bench.read(first.item.id)).rev == rev
    await cancel(bench, other.item.id)
    bench.clock.advance(WINDOW - 1)
    (outcome,) = await bench.do(Change(first.item.id, Retry()))
    assert isinstance(refusal(outcome), Conflict)
    bench.clock.advance(1)
    assert (await retried(bench, first.item.id)).accepted, "that one has let it go"


async def test_of_a_post_and_a_retry_for_one_key_the_first_has_it(bench: Bench) -> None:
    first = await one(bench, keyed())
    await cancel(bench, first.item.id)
    await bench.pass_by(WINDOW)
    new, retry, again = await bench.do(keyed('"b"'), Change(first.item.id, Retry()), keyed('"b"'))
    assert isinstance(refusal(retry), Conflict)
    assert posted(again).item.id == posted(new).item.id
    await cancel(bench, posted(new).item.id)
    await bench.pass_by(WINDOW)
    retry, new = await bench.do(Change(first.item.id, Retry()), keyed('"b"'))
    assert isinstance(retry, Changed)
    assert isinstance(refusal(new), Conflict)


async def test_what_is_not_there_or_open_is_not_retried(bench: Bench) -> None:
    first = await one(bench, keyed())
    assert not (await retried(bench, first.item.id)).accepted
    assert (await retried(bench, "0" * 16)).item is None


# ── Crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_post_whose_turn_failed_left_no_key_behind(bench: Bench) -> None:
    bench.faults.at_commit = ["full"]
    assert refusal((await bench.do(keyed()))[0]).code == "unavailable"
    await bench.pass_by(1_000)
    assert not (await one(bench, keyed('"other"'))).duplicate


async def test_a_post_whose_answer_was_lost_is_answered_the_second_time(bench: Bench) -> None:
    bench.faults.at_commit = ["lost after"]
    assert bench.say(keyed()) == []
    await bench.engine.step()
    await bench.restart()
    again = await one(bench, keyed())
    assert again.duplicate
    assert [type(outcome) for outcome in await bench.do(claim(2, count=2))] == [Handed, Empty]


async def test_a_guilty_post_takes_no_array_and_no_key_of_others_with_it(bench: Bench) -> None:
    guilty = array(NewItem("1"), keyed('"guilty"', key="g").new, keyed(key="g2").new)
    outcomes = await bench.do(keyed(), guilty, keyed())
    assert [posted(outcomes[0]).duplicate, posted(outcomes[2]).duplicate] == [False, True]
    assert refusal(outcomes[1]).code == "unavailable"
    assert not (await one(bench, keyed(key="g"))).duplicate
    assert not (await one(bench, keyed(key="g2"))).duplicate
    assert len([each for each in await bench.do(claim(2, count=9)) if isinstance(each, Handed)]) == 3
