"""What an engine tells of itself, on either store: who waits longest, what there is of what, and how its turns went."""

from leaseway_server.core.commands import Change, Failed, Oldest, Post, Posted, Read, WaitsSince, Withdraw
from leaseway_server.core.events import Cancel, Progress
from leaseway_server.core.model import STATUSES, Changes, NewItem
from leaseway_server.runtime.observer import Gauges, Nobody
from support.bench import Bench, claim
from support.clock import START


class Notes:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def began(self) -> None:
        self.told.append("began")

    def committing(self) -> None:
        self.told.append("committing")

    def committed(self, commands: int, durable: bool) -> None:
        self.told.append((commands, durable))

    def changed(self, changes: Changes) -> None:
        self.told.append([(before and before.status, after.status) for before, after in changes])

    def take(self) -> list[object]:
        told, self.told = self.told, []
        return told


def observed(bench: Bench) -> Notes:
    notes = bench.engine._observer = Notes()
    return notes


# ── Who waits longest ──


async def longest(bench: Bench) -> WaitsSince:
    (found,) = await bench.do(Oldest())
    assert isinstance(found, WaitsSince)
    return found


async def test_who_waits_longest_is_found_whatever_its_priority(bench: Bench) -> None:
    assert await longest(bench) == WaitsSince(0, START)
    bench.clock.advance(10)
    await bench.post(delay_ms=5)
    first = await bench.post(priority=-100)
    bench.clock.advance(10)
    for priority in (3, 100, -3, 3):
        await bench.post(priority=priority)
    assert await longest(bench) == WaitsSince(START + 10, START + 20), "what comes due later is not ready"
    await bench.engine.step()
    await bench.do(Change(first.id, Cancel()))
    assert await longest(bench) == WaitsSince(START + 15, START + 20)
    for _ in range(5):
        await bench.do(claim(bench.engine.new_holder()))
    assert await longest(bench) == WaitsSince(0, START + 20)


async def test_what_is_posted_in_the_same_turn_counts_and_many_may_ask(bench: Bench) -> None:
    posted, one, other = await bench.do(Post(NewItem("1")), Oldest(), Oldest())
    assert isinstance(posted, Posted)
    assert one == other == WaitsSince(START, START)


async def test_it_is_told_also_where_nothing_can_be_written(bench: Bench, quiet: None) -> None:
    await bench.post()
    bench.faults.at_commit = ["full"]
    found, failed = await bench.do(Oldest(), Post(NewItem("1")))
    assert found == WaitsSince(START, START)
    assert isinstance(failed, Failed)


# ── How much there is ──


async def test_gauges_say_what_there_is(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    none = dict.fromkeys(STATUSES, 0)
    assert bench.engine.gauges == Gauges(none, 0, 0)
    await bench.claimed(holder)
    bench.say(claim(holder, {"there is": "none"}, wait_ms=1_000))
    await bench.post()
    assert bench.engine.gauges == Gauges(none | {"pending": 1, "processing": 1}, 1, 1)
    await bench.do(Withdraw(holder))
    await bench.restart()
    assert bench.engine.gauges == Gauges(none | {"pending": 1, "processing": 1}, 0, 1)


# ── How turns go ──


async def test_a_turn_is_told_step_by_step(bench: Bench) -> None:
    notes = observed(bench)
    first, _ = await bench.do(Post(NewItem("1")), Post(NewItem("2")))
    assert isinstance(first, Posted)
    assert notes.take() == ["began", "committing", (2, True), [(None, "pending"), (None, "pending")]]
    await bench.do(claim(bench.engine.new_holder()))
    assert notes.take() == ["began", "committing", (1, True), [("pending", "processing")]]
    await bench.do(Read((first.item.id,)), Oldest())
    assert notes.take() == ["began", "committing", (2, False), []]
    await bench.do(Change(first.item.id, Progress("1", 0, "", None)))
    assert notes.take()[2] == (1, False), "what loss of power may cost is not synced"


async def test_a_turn_that_fails_is_not_told_as_committed(bench: Bench, quiet: None) -> None:
    notes = observed(bench)
    bench.faults.at_commit = ["full"]
    await bench.do(Post(NewItem("1")))
    assert notes.take() == ["began", "committing"]
    bench.faults.at_commit = ["odd", None]
    await bench.pass_by(1_000)
    await bench.do(Post(NewItem("1")))
    assert "committing" in notes.take()


async def test_an_observer_that_fails_harms_nobody(bench: Bench, quiet: None) -> None:
    class Broken(Nobody):
        def changed(self, changes: Changes) -> None:
            raise RuntimeError("no more paper")

    bench.engine._observer = Broken()
    await bench.post()
    assert (await longest(bench)).at == START
