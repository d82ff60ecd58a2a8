"""Reading what a monitor follows, on either store: page by page, bounded, and without a gap to the changes."""

import pytest

from leaseway_server.core.commands import (
    BEYOND,
    Change,
    Changed,
    Delete,
    Failed,
    Followed,
    Found,
    Post,
    Posted,
    Read,
    ReadFollowed,
)
from leaseway_server.core.events import Cancel, Result
from leaseway_server.core.model import Item, NewItem
from leaseway_server.core.watch import ALL, View
from leaseway_server.runtime import followed as followed_module
from leaseway_server.runtime import submission as submission_module
from leaseway_server.runtime import turn as turn_module
from support.bench import Bench, claim
from support.model import LEASE


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pages of three rows."""
    monkeypatch.setattr(followed_module, "PAGE", 3)
    return 3


async def post(bench: Bench, *posters: str) -> list[Item]:
    """An item of each, in this order, in one turn."""
    posted = await bench.do(*(Post(NewItem("1", posted_by=poster)) for poster in posters))
    return [outcome.item for outcome in posted if isinstance(outcome, Posted)]


async def read(bench: Bench, poster: str, before: int = BEYOND) -> Followed:
    """One page."""
    (followed,) = await bench.do(ReadFollowed(poster, before))
    assert isinstance(followed, Followed)
    assert followed.now == bench.clock.now()
    return followed


async def pages(bench: Bench, poster: str) -> list[list[str]]:
    """All pages."""
    found, before = [], BEYOND
    while before:
        followed = await read(bench, poster, before)
        found.append([item.id for item in followed.items])
        assert followed.before < before
        before = followed.before
    return found


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


async def test_mine_comes_newest_first_page_by_page_and_nothing_of_others(bench: Bench, page: int) -> None:
    items = await post(bench, "ann", "bob", "ann", "", "ann", "ann", "ann")
    mine = ids([item for item in items if item.posted_by == "ann"])[::-1]
    assert await pages(bench, "ann") == [mine[:3], mine[3:]]
    assert await pages(bench, "bob") == [[items[1].id]]
    assert await pages(bench, "eve") == [[]]
    assert page == 3


async def test_a_page_that_is_just_full_is_followed_by_an_empty_one(bench: Bench, page: int) -> None:
    items = await post(bench, *["ann"] * page)
    assert await pages(bench, "ann") == [ids(items)[::-1], []]


async def test_mine_has_what_is_open_and_the_ends_that_were_not_fetched(bench: Bench) -> None:
    waits, runs, done, failed, fetched = await post(bench, *["ann"] * 5)
    for item in (done, fetched):
        await bench.do(Change(item.id, Result('{"n": 1}', None)))
    await bench.do(Change(failed.id, Cancel()))
    await bench.do(claim(bench.engine.new_holder()), claim(bench.engine.new_holder(), wait_ms=0))
    bench.engine.stamp(fetched.id, 2)
    await bench.pass_by(1_000)
    followed = await read(bench, "ann")
    assert ids(followed.items) == ids([failed, done, runs, waits])
    assert [item.status for item in followed.items] == ["cancelled", "finished", "processing", "processing"]
    assert followed.items[1].result == '{"n": 1}'
    assert followed.before == 0


async def test_all_has_what_is_open_of_everybody_however_much_has_ended(bench: Bench, page: int) -> None:
    items = await post(bench, "ann", "bob", *["ann"] * 5, "", "bob")
    for item in items[2:7]:
        await bench.do(Change(item.id, Cancel()))
    found = await pages(bench, ALL)
    assert [item_id for each in found for item_id in each] == ids([items[8], items[7], items[1], items[0]])
    assert len(found) == len(items) // page + 1, "a page looks at so many rows and no more"


async def test_items_are_shown_as_they_are_at_the_end_of_the_turn(bench: Bench) -> None:
    one, two, three = await post(bench, *["ann"] * 3)
    outcomes = await bench.do(
        ReadFollowed("ann"),
        Change(one.id, Cancel()),
        Change(two.id, Result("7", None)),
        ReadFollowed(ALL),
    )
    mine, everything = (outcome for outcome in outcomes if isinstance(outcome, Followed))
    assert [(item.id, item.status, item.result) for item in mine.items] == [
        (three.id, "pending", ""),
        (two.id, "finished", "7"),
        (one.id, "cancelled", ""),
    ]
    assert ids(everything.items) == [three.id], "what ended in this turn is told as a change"


async def test_no_turn_reads_more_than_so_much(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_module, "PAGE_CHARACTERS", 1_000)
    items = await post(bench, *["ann"] * 20)
    for item in items:
        await bench.do(Change(item.id, Result(f'"{"x" * 200}"', None)))
    first, second, third = await bench.do(ReadFollowed("ann"), ReadFollowed("ann"), ReadFollowed(ALL))
    assert isinstance(first, Followed)
    assert isinstance(second, Followed)
    assert isinstance(third, Followed)
    assert ids(first.items) == ids(items)[:-6:-1]
    assert first.before == items[15].seq
    assert (second.items, second.before) == ([], BEYOND), "the next turn goes on"
    assert (third.items, third.before) == ([], BEYOND)
    assert [len(each) for each in await pages(bench, "ann")] == [5, 5, 5, 5, 0]


@pytest.mark.protocol("3.15")
async def test_no_command_reads_more_than_so_much(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reads is in memory until its client took it: of large views there are few, and one more."""
    monkeypatch.setattr(followed_module, "PAGE_CHARACTERS", 1_000)
    monkeypatch.setattr(followed_module, "PAGE_AT_ONCE", 500)
    monkeypatch.setattr(turn_module, "READ_CHARACTERS", 1_000)
    monkeypatch.setattr(turn_module, "READ_AT_ONCE", 500)
    items = await post(bench, *["ann"] * 10)
    for item in items:
        await bench.do(Change(item.id, Result(f'"{"x" * 200}"', None)))
    pages = await bench.do(*[ReadFollowed("ann")] * 3)
    assert [len(each.items) for each in pages if isinstance(each, Followed)] == [3, 2, 0]
    named = tuple(ids(items))
    first, second, third = await bench.do(*[Read(("unknown", *named))] * 3)
    assert isinstance(first, Found)
    assert isinstance(second, Found)
    assert isinstance(third, Found)
    assert (tuple(first.items), first.left) == (named[:3], named[3:])
    assert (tuple(second.items), second.left) == (named[:2], named[2:])
    assert (third.items, third.left) == ({}, named)


async def test_a_turn_takes_few_such_commands(bench: Bench) -> None:
    outcomes = [bench.say(ReadFollowed("ann")) for _ in range(20)]
    await bench.engine.step()
    answered = sum(map(len, outcomes))
    assert 0 < answered <= submission_module.TURN_BYTES // (followed_module.PAGE * submission_module.ID_BYTES) + 1
    while bench.engine._backlog.waiting:
        await bench.engine.step()
    assert all(len(each) == 1 for each in outcomes)


async def test_reading_syncs_nothing_and_works_without_space(bench: Bench) -> None:
    await post(bench, "ann")
    await read(bench, "ann")
    assert bench.faults.commits[-1] is False
    bench.faults.at_commit = ["full"]
    outcomes = await bench.do(Post(NewItem("1")), ReadFollowed("ann"))
    assert isinstance(outcomes[0], Failed)
    assert isinstance(outcomes[1], Followed)
    assert len(outcomes[1].items) == 1


class Notes:
    """Notes what it is offered."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def offer(self, view: View) -> None:
        """A change."""
        self.seen.append((view.id, view.rev))

    def lose_track(self) -> None:
        """Nobody else writes here."""

    def end(self, item_id: str) -> None:
        """An item is gone."""
        self.seen.append((item_id, 0))


async def test_the_hub_tells_followers_of_every_change_each_once(bench: Bench) -> None:
    notes, everything = Notes(), Notes()
    bench.engine.hub.follow("ann", notes)
    bench.engine.hub.follow(ALL, everything)
    mine, others = await post(bench, "ann", "bob")
    bench.engine.hub.watch(mine.id, notes)
    await bench.do(Change(mine.id, Cancel()), Change(others.id, Cancel()))
    assert notes.seen == [(mine.id, 1), (mine.id, 2)]
    assert everything.seen == [(mine.id, 1), (others.id, 1), (mine.id, 2), (others.id, 2)]
    bench.engine.hub.unfollow("ann", notes)
    bench.engine.hub.unwatch(mine.id, notes)
    bench.engine.hub.unfollow(ALL, everything)
    bench.engine.hub.unfollow("eve", everything)
    assert len(bench.engine.hub) == 0


# ── Who may: a change with a guard ──


@pytest.mark.parametrize(
    ("reason", "accepted", "shown"), [("", True, True), ("not-allowed", False, True), ("unknown", False, False)]
)
async def test_a_guard_is_asked_of_the_item_as_it_stands(
    bench: Bench, reason: str, accepted: bool, shown: bool
) -> None:
    (item,) = await post(bench, "ann")
    asked: list[str] = []

    def guard(found: Item) -> str:
        asked.append(found.posted_by)
        return reason

    (changed,) = await bench.do(Change(item.id, Cancel(), guard))
    assert isinstance(changed, Changed)
    assert (changed.accepted, changed.item is not None, changed.reason) == (accepted, shown, reason)
    assert asked == ["ann"]
    assert (await bench.read(item.id)).status == ("cancelled" if accepted else "pending")


@pytest.mark.parametrize("reason", ["", "state", "unknown"])
async def test_a_guard_is_asked_before_an_item_is_deleted(bench: Bench, reason: str) -> None:
    """As it stands in this turn, which cancels it first."""
    (item,) = await post(bench, "ann")
    asked: list[str] = []

    def guard(found: Item) -> str:
        asked.append(found.status)
        return reason

    _, deleted = await bench.do(Change(item.id, Cancel()), Delete(item.id, guard))
    assert isinstance(deleted, Changed)
    assert (deleted.accepted, deleted.reason, asked) == (not reason, reason, ["cancelled"])
    (found,) = await bench.do(Read((item.id,)))
    assert isinstance(found, Found)
    assert (item.id in found.items) == bool(reason)


async def test_of_an_item_that_is_not_there_no_guard_is_asked(bench: Bench) -> None:
    def guard(_item: Item) -> str:
        raise AssertionError("there is nothing to ask about")

    for command in (Change("0" * 16, Cancel(), guard), Delete("0" * 16, guard)):
        (changed,) = await bench.do(command)
        assert changed == Changed(accepted=False, item=None, reason="unknown")


# ── Who waits, and who holds ──


async def test_what_a_socket_waits_for_and_holds(bench: Bench) -> None:
    holder, other = bench.engine.new_holder(), bench.engine.new_holder()
    item = await bench.claimed(holder)
    ask = claim(holder, {"a": 1}, count=3, wait_ms=60_000)
    await bench.do(ask, Post(NewItem('{"a": 1}')))
    assert bench.engine.looking.waiting(holder) == [(ask, 2)]
    assert bench.engine.looking.waiting(other) == []
    held = dict(bench.engine.looking.held(holder, 10))
    lease = held[item.id]
    now = bench.clock.now()
    assert (lease.attempts, lease.since, lease.until) == (1, now, now + LEASE)
    assert len(held) == 2
    assert len(bench.engine.looking.held(holder, 1)) == 1
    assert bench.engine.looking.held(other, 10) == []
