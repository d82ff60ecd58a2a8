"""Arrays of posts, and what an administrator does to one item, turn by turn, on either store."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Changed, Delete, Empty, Found, Handed, Post, PostAll, Read
from leaseway_server.core.errors import BadMessage, Conflict, LimitReached
from leaseway_server.core.events import Adjust, Cancel, Progress, Result
from leaseway_server.core.model import NewItem
from leaseway_server.core.watch import View
from leaseway_server.runtime.submission import TURN_BYTES
from support.bench import Bench, claim
from support.clock import START
from support.posting import array, keyed, posted, posted_all, refusal


async def all_waiting(bench: Bench) -> list[str]:
    """The bodies of all that can be claimed, in the order of claims; they are claimed by that."""
    outcomes = await bench.do(claim(99, count=1_000))
    return [outcome.item.body for outcome in outcomes if isinstance(outcome, Handed)]


async def changed(bench: Bench, change: Change | Delete) -> Changed:
    (outcome,) = await bench.do(change)
    assert isinstance(outcome, Changed), outcome
    return outcome


# ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_array_is_posted_in_its_order_and_answered_in_it(bench: Bench) -> None:
    (outcome,) = await bench.do(array(*(NewItem(str(number), priority=number % 2) for number in range(6))))
    answers = posted_all(outcome)
    assert [answer.item.body for answer in answers] == [str(number) for number in range(6)]
    assert not any(answer.duplicate for answer in answers)
    assert bench.faults.commits == [True]
    assert await all_waiting(bench) == ["1", "3", "5", "0", "2", "4"]


async def test_an_array_meets_claims_that_wait(bench: Bench) -> None:
    handed = bench.say(claim(2, count=2, wait_ms=1_000))
    await bench.engine.step()
    (outcome,) = await bench.do(array(*map(NewItem, "123")))
    assert [answer.item.status for answer in posted_all(outcome)] == ["processing", "processing", "pending"]
    assert [each.item.body for each in handed if isinstance(each, Handed)] == ["1", "2"]


@pytest.mark.protocol("5.64")
@pytest.mark.parametrize(
    ("wrong", "error", "path"),
    [
        (NewItem("9", delay_ms=5, ttl_ms=5), BadMessage, "/3/ttlMs"),
        (keyed('"another"').new, Conflict, "/3/key"),
        (keyed('"third"', key="third").new, Conflict, "/3/key"),
    ],
)
async def test_an_array_of_which_one_is_refused_is_refused_whole(
    bench: Bench, wrong: NewItem, error: type[Exception], path: str
) -> None:
    await bench.do(keyed())
    good = [NewItem("1"), keyed('"new"', key="new").new, keyed('"3"', key="third").new]
    outcome, after = await bench.do(array(*good, wrong, keyed().new), keyed('"other"', key="new"))
    assert isinstance(refusal(outcome), error)
    assert [problem.path for problem in refusal(outcome).problems] == [path]
    assert not posted(after).duplicate, "no key of it is held"
    assert await all_waiting(bench) == ['{"a":1}', '"other"']


@pytest.mark.protocol("5.67")
async def test_an_array_that_would_cross_the_limit_is_refused_whole(bench: Bench) -> None:
    bench.engine.reconfigure(replace(bench.engine.queue, max_pending=3))
    await bench.do(keyed())
    fits, full, known = await bench.do(
        array(NewItem("1"), keyed().new, NewItem("2")), array(keyed().new, NewItem("3")), array(keyed().new)
    )
    assert [answer.duplicate for answer in posted_all(fits)] == [False, True, False]
    assert isinstance(refusal(full), LimitReached)
    assert (refusal(full).status, refusal(full).problems[0].path) == (429, "")
    assert posted_all(known)[0].duplicate, "a known key is answered on a full queue"
    assert await all_waiting(bench) == ['{"a":1}', "1", "2"]


async def test_an_array_is_not_cut_between_two_turns(bench: Bench) -> None:
    large = f'"{"x" * (TURN_BYTES // 3)}"'
    outcomes = bench.say(Post(NewItem("1")))
    outcomes += bench.say(PostAll(tuple(NewItem(large) for _ in range(4))))
    later = bench.say(Post(NewItem("2")))
    await bench.engine.step()
    assert later == []
    await bench.engine.step()
    assert len(later) == 1
    many = bench.say(PostAll((NewItem("1"),) * 1_001))
    last = bench.say(Post(NewItem("2")))
    await bench.engine.step()
    assert (len(many), len(last)) == (1, 0), "a thousand posts are a turn"


# ── Another priority or due time ────────────────────────────────────────────────────────────────────────────────


async def test_an_item_that_is_put_ahead_is_claimed_first(bench: Bench) -> None:
    await bench.post('"first"')
    last = await bench.post('"last"')
    assert (await changed(bench, Change(last.id, Adjust(priority=1)))).accepted
    assert await all_waiting(bench) == ['"last"', '"first"']


async def test_a_claim_that_waits_gets_what_becomes_due_by_hand(bench: Bench) -> None:
    item = await bench.post("1", delay_ms=60_000)
    handed = bench.say(claim(2, wait_ms=9_000))
    await bench.engine.step()
    outcome = await changed(bench, Change(item.id, Adjust(due_at=0)))
    assert outcome.item is not None
    assert (outcome.item.due_at, outcome.item.ready) == (START, 1)
    assert [each.item.id for each in handed if isinstance(each, Handed)] == [item.id]


async def test_a_claim_whose_search_had_passed_it_gets_what_is_put_ahead(bench: Bench) -> None:
    """The lane has seen everything, and does not look there again by itself."""
    await bench.post('{"kind":"b"}')
    item = await bench.post('{"kind":"a"}', delay_ms=60_000)
    handed = bench.say(claim(2, {"kind": "a"}, wait_ms=9_000))
    await bench.engine.step()
    assert (await changed(bench, Change(item.id, Adjust(due_at=1, priority=100)))).accepted
    assert len(handed) == 1


async def test_what_is_put_off_is_not_claimed_until_it_is_due(bench: Bench) -> None:
    item = await bench.post()
    assert (await changed(bench, Change(item.id, Adjust(due_at=START + 700)))).accepted
    waiting = bench.say(claim(2, wait_ms=9_000))
    assert await bench.do(claim(2)) == [Empty()]
    assert await bench.read(item.id) == replace(item, due_at=START + 700, ready=0, rev=2, body="")
    await bench.pass_by(699)
    assert waiting == []
    await bench.pass_by(1)
    assert len(waiting) == 1


async def test_an_adjustment_that_is_refused_changes_nothing(bench: Bench) -> None:
    mortal = await bench.post(ttl_ms=1_000)
    (outcome,) = await bench.do(Change(mortal.id, Adjust(priority=3, due_at=START + 1_000)))
    assert (refusal(outcome).code, refusal(outcome).problems[0].path) == ("bad-message", "/dueAt")
    assert await bench.read(mortal.id) == replace(mortal, body="")
    held = (await bench.do(claim(2)))[0]
    assert isinstance(held, Handed)
    assert not (await changed(bench, Change(mortal.id, Adjust(priority=3)))).accepted


# ── Deletes ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Watcher:
    """Hears of changes, and of the end of all news."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def offer(self, view: View) -> None:
        """A change."""
        self.heard.append(f"rev {view.rev}")

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def end(self, item_id: str) -> None:
        """It is gone."""
        self.heard.append(item_id)


async def test_what_is_deleted_is_gone_with_all_that_was_of_it(bench: Bench) -> None:
    item, other = await bench.post(key="k"), await bench.post()
    await bench.do(claim(2))
    await bench.do(Change(item.id, Progress("1", 2, "box", 1)), Change(item.id, Result("2", 1)))
    watcher = Watcher()
    bench.engine.hub.watch(item.id, watcher)
    outcome = await changed(bench, Delete(item.id))
    assert outcome.accepted
    assert watcher.heard == [item.id]
    assert len(bench.engine.hub) == 0
    found = (await bench.do(Read((item.id, other.id), bodies=True)))[0]
    assert isinstance(found, Found)
    assert list(found.items) == [other.id]
    for change in (Change(item.id, Result("3", 1)), Change(item.id, Cancel()), Delete(item.id)):
        again = await changed(bench, change)
        assert (again.accepted, again.item, again.reason) == (False, None, "unknown")


async def test_what_is_open_is_not_deleted(bench: Bench) -> None:
    item = await bench.post()
    assert (await changed(bench, Delete(item.id))).reason == "state"
    await bench.do(claim(2))
    assert (await changed(bench, Delete(item.id))).reason == "state"
    assert (await bench.read(item.id)).status == "processing"


async def test_an_item_may_end_and_go_in_one_turn(bench: Bench) -> None:
    """Its lease, its place among those that wait and its watchers are let go with it."""
    held, waiting, mortal = await bench.post(), await bench.post(delay_ms=60_000, key="k"), await bench.post(ttl_ms=5)
    await bench.do(claim(2))
    watcher = Watcher()
    bench.engine.hub.watch(waiting.id, watcher)
    bench.clock.advance(5)
    ids = [item.id for item in (held, waiting, mortal)]
    commands = [command for item_id in ids for command in (Change(item_id, Cancel()), Delete(item_id))]
    assert all(isinstance(each, Changed) and each.accepted for each in await bench.do(*commands))
    assert watcher.heard == ["rev 2", waiting.id]
    assert (len(bench.engine._leases), bench.engine.tally.counts["pending"]) == (0, 0)
    found = (await bench.do(Read(tuple(ids))))[0]
    assert isinstance(found, Found)
    assert found.items == {}
    assert not posted((await bench.do(keyed()))[0]).duplicate
