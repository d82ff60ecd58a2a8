"""The engine, turn by turn: what it answers and when, and what it does when the store fails it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from leaseway_server.core.commands import (
    Ask,
    Change,
    Changed,
    Command,
    Done,
    Drop,
    Empty,
    Failed,
    Found,
    Handed,
    Outcome,
    Post,
    Posted,
    Read,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import StoreFull, StoreLost, Unavailable
from leaseway_server.core.jsontext import Json
from leaseway_server.core.lifecycle import Cancel, Fail, Policy, Progress, Release, Renew, Result, Retry
from leaseway_server.core.model import HTTP, NOBODY, Item, NewItem
from leaseway_server.core.queue import Queue
from leaseway_server.core.watch import View
from leaseway_server.runtime import engine as engine_module
from leaseway_server.runtime import turn as turn_module
from leaseway_server.runtime.engine import RETRY_MS, Engine
from leaseway_server.store.base import Store
from leaseway_server.store.sqlite.store import SqliteStore
from support.clock import START, ManualClock
from support.faulty_store import GUILTY, Faults, FaultyStore
from support.memory_store import Disk, MemoryStore
from support.model import LEASE, POLICY

GRACE = 5_000
PATIENCE = 3_000


class Bench:
    """An engine that a test turns by hand, and what it was told."""

    def __init__(self, open_store: Callable[[ManualClock], Store], policy: Policy) -> None:
        self.clock = ManualClock()
        self.faults = Faults()
        self.lost: list[StoreLost] = []
        self._open_store = open_store
        self._policy = policy

    async def start(self) -> None:
        """Opens the store and begins, perhaps again."""
        self._store = FaultyStore(self._open_store(self.clock), self.faults)
        self.engine = Engine(
            Queue("queue", self._policy),
            self._store,
            self.clock,
            resume_grace=GRACE,
            ping_timeout=PATIENCE,
            on_lost=self.lost.append,
        )
        await self.engine.start()

    async def close(self) -> None:
        """Lets go of the store."""
        await self._store.close()

    async def restart(self) -> None:
        """The server ends, however, and begins anew."""
        await self.close()
        await self.start()

    def say(self, command: Command) -> list[Outcome]:
        """Has it done with the next turn; gives where its outcomes will stand."""
        outcomes: list[Outcome] = []
        self.engine.submit(command, outcomes.append)
        return outcomes

    async def do(self, *commands: Command) -> list[Outcome]:
        """All of it in one turn; gives all outcomes, in the order of the commands."""
        said = [self.say(command) for command in commands]
        await self.engine.step()
        return [outcome for outcomes in said for outcome in outcomes]

    async def post(self, body: str = "{}", **options: Any) -> Item:
        """Posts an item, in a turn of its own."""
        (posted,) = await self.do(Post(NewItem(body, **options)))
        assert isinstance(posted, Posted), posted
        return posted.item

    async def claimed(self, holder: int, worker: str = "box-1") -> Item:
        """An item that was posted and claimed."""
        await self.post()
        (handed,) = await self.do(claim(holder, worker=worker))
        assert isinstance(handed, Handed), handed
        return handed.item

    async def read(self, item_id: str) -> Item:
        """The item as it stands."""
        (found,) = await self.do(Read((item_id,)))
        assert isinstance(found, Found)
        return found.items[item_id]

    async def pass_by(self, ms: int) -> None:
        """Time goes by, and the engine keeps up with it."""
        for passed in range(0, ms, RETRY_MS):
            self.clock.advance(min(RETRY_MS, ms - passed))
            await self.engine.step()


def claim(holder: int, criteria: Json = None, *, count: int = 1, wait_ms: int = 0, worker: str = "box-1") -> Ask:
    return Ask(holder, "box", worker, Criteria.parse(criteria), count=count, wait_ms=wait_ms)


def refused(outcomes: list[Outcome]) -> bool:
    """Whether all that was said was refused as unavailable, and each once."""
    return bool(outcomes) and all(isinstance(each, Failed) and isinstance(each.error, Unavailable) for each in outcomes)


@asynccontextmanager
async def a_bench(open_store: Callable[[ManualClock], Store], policy: Policy = POLICY) -> AsyncIterator[Bench]:
    bench = Bench(open_store, policy)
    await bench.start()
    try:
        yield bench
    finally:
        await bench.close()


def in_memory() -> Callable[[ManualClock], Store]:
    disk = Disk()
    return lambda clock: MemoryStore(disk, clock.now)


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """An engine on either store."""
    sqlite: Callable[[ManualClock], Store] = lambda clock: SqliteStore.open(tmp_path / "queue.db", clock.now)  # noqa: E731
    async with a_bench(sqlite if request.param == "sqlite" else in_memory()) as bench:
        yield bench


@pytest.fixture
def quiet() -> Iterator[None]:
    """Faults that a test asks for need no tracebacks."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass(frozen=True)
class Watcher:
    """Hears of changes."""

    views: list[View]

    def __hash__(self) -> int:
        return id(self)

    def offer(self, view: View) -> None:
        self.views.append(view)


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
    monkeypatch.setattr(engine_module, "TURN_COMMANDS", 3)
    said = [bench.say(Post(NewItem("1"))) for _ in range(7)]
    for expected in (3, 6, 7):
        await bench.engine.step()
        assert sum(map(len, said)) == expected
    monkeypatch.setattr(engine_module, "TURN_BYTES", 10)
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


async def test_a_match_deep_in_the_backlog_is_found_over_several_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "SLICE", 10)
    await bench.do(*(Post(NewItem('{"kind":"other"}')) for _ in range(35)), Post(NewItem('{"kind":"wanted"}')))
    outcomes = bench.say(claim(2, {"kind": "wanted"}))
    commits = len(bench.faults.commits)
    while not outcomes:
        await bench.engine.step()
    assert [type(outcome) for outcome in outcomes] == [Handed]
    assert len(bench.faults.commits) - commits == 4
    assert await bench.do(claim(2, {"kind": "wanted"})) == [Empty()], "the lane has seen all of it"


async def test_a_search_holds_up_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "SLICE", 10)
    await bench.do(*(Post(NewItem('{"kind":"other"}')) for _ in range(35)))
    late = bench.say(claim(2, {"kind": "wanted"}))
    (handed,) = await bench.do(claim(3, {"kind": "other"}))
    assert isinstance(handed, Handed)
    assert late == []
    wanted = await bench.post('{"kind":"wanted"}')
    while not late:
        await bench.engine.step()
    (found,) = late
    assert isinstance(found, Handed)
    assert found.item.id == wanted.id


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


async def test_leases_end_and_lives_end_by_the_clock(bench: Bench) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    mortal = await bench.post(ttl_ms=LEASE + 2_000)
    await bench.pass_by(LEASE - 1)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(1)
    assert (await bench.read(item.id)).ending == "lost"
    await bench.pass_by(2_000)
    assert (await bench.read(mortal.id)).status == "expired"


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
    monkeypatch.setattr(turn_module, "SLICE", 5)
    await bench.do(*(Post(NewItem(str(n))) for n in range(40)))
    running = asyncio.create_task(bench.engine.run())
    handed: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    bench.engine.submit(claim(2, {"kind": "none"}), handed.set_result)
    assert await handed == Empty()
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


async def test_the_end_that_was_fetched_is_stamped_with_the_next_turn(bench: Bench) -> None:
    item = await bench.post()
    await bench.do(Change(item.id, Cancel()))
    bench.engine.stamp(item.id)
    await bench.engine.step()
    stamped = await bench.read(item.id)
    assert (stamped.fetched_at, stamped.rev) == (START, 2)
    bench.clock.advance(5)
    bench.engine.stamp(item.id)
    await bench.engine.step()
    assert (await bench.read(item.id)).fetched_at == START, "the first delivery counts"


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


# ── Starts and stops ────────────────────────────────────────────────────────────────────────────────────────────


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


async def test_leases_of_before_the_start_have_the_grace_and_cost_nothing(bench: Bench) -> None:
    item = await bench.claimed(bench.engine.new_holder())
    bench.clock.advance(LEASE + 1)
    await bench.restart()
    await bench.pass_by(GRACE - 1)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(1)
    after = await bench.read(item.id)
    assert (after.status, after.ending, after.losses) == ("pending", "parted", 0)


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


# ── When there is no space ──────────────────────────────────────────────────────────────────────────────────────


def state(bench: Bench) -> tuple[object, ...]:
    """What the engine holds in memory."""
    engine = bench.engine
    leases = {item_id: (lease.holder, lease.ends) for item_id, lease in engine._leases._leases.items()}
    waiting = [(ask, each.number, each.left) for ask, each in engine._dispatch._by_ask.items()]
    return leases, sorted(waiting, key=lambda each: each[1]), engine._minima.due, engine._minima.expiry


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
    assert not bench.engine.writable
    assert waiting == []
    assert state(bench) == before
    assert await bench.read(item.id) == row
    await bench.pass_by(RETRY_MS)
    assert bench.engine.writable
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


async def test_dropped_sockets_and_stamps_wait_for_space(bench: Bench, quiet: None) -> None:
    holder = bench.engine.new_holder()
    done = await bench.post()
    await bench.do(Change(done.id, Cancel()))
    item = await bench.claimed(holder)
    bench.engine.stamp(done.id)
    bench.faults.at_commit = ["full", "full", "full"]
    assert await bench.do(Drop(holder)) == []
    await bench.pass_by(RETRY_MS)
    assert not bench.engine.writable
    bench.faults.at_commit = []
    await bench.pass_by(RETRY_MS)
    assert bench.engine.writable
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
    assert not bench.engine.writable
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
    assert not bench.engine.writable
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
    assert not bench.engine.writable
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
    assert bench.engine.writable


async def test_a_store_that_is_lost_between_turns_is_lost(bench: Bench, quiet: None) -> None:
    bench.faults.maintain = StoreLost("lost, says the test")
    await bench.post()
    assert len(bench.lost) == 1
    assert not bench.engine.writable


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
