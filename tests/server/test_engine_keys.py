"""Keys, turn by turn, on either store: what is a duplicate, what a conflict, and whose keys count."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Delete, Empty, Handed, PostAll
from leaseway_server.core.errors import Conflict
from leaseway_server.core.events import Result, Retry
from leaseway_server.core.model import NewItem
from support.bench import Bench, claim
from support.posting import WINDOW, array, cancel, configure, held, keyed, one, posted, posted_all, refusal, retried

EQUAL = '{"b":[1.0,2],"a":null}'
SAME = '{"a":null,"b":[1,2.0]}'


@pytest.fixture(autouse=True)
def short_window(bench: Bench) -> None:
    """The keys of a bench are held for a short time."""
    configure(bench)


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


async def test_the_id_of_who_holds_a_key_is_told_to_who_posted_it_and_to_nobody_else(bench: Bench) -> None:
    """Who knows an id may know more than who guessed a key; and an array that is refused has no ids."""
    first = await one(bench, keyed())
    nobody = NewItem("1", key="n")
    (_,) = await bench.do(array(nobody))
    outcomes = await bench.do(
        array(keyed("2").new),
        array(replace(keyed("2").new, posted_by="bob")),
        array(replace(nobody, body="2")),
        array(keyed("1", key="new").new, keyed("2", key="new").new),
    )
    told = [refusal(outcome).problems[0].message for outcome in outcomes]
    another = "this key is held by another item"
    assert told == [f"{another} of yours, {first.item.id}", another, another, another]


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
