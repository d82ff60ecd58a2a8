"""What the engine does while others are in its way or its database is away: nothing is lost, nothing is done twice."""

from typing import Any, Final

import pytest

from leaseway_server.core.commands import (
    Change,
    Changed,
    Done,
    Drop,
    Empty,
    Followed,
    Found,
    Handed,
    Post,
    Posted,
    Read,
    ReadFollowed,
    Resumed,
    ResumeLeases,
    Withdraw,
)
from leaseway_server.core.errors import StoreLost
from leaseway_server.core.events import Cancel, Renew, Result
from leaseway_server.core.model import NewItem
from leaseway_server.runtime.epochs import BITS
from leaseway_server.runtime.outage import MOST_MS
from leaseway_server.runtime.shortage import BUSY_TRIES, RETRY_MS
from support.bench import GRACE, PATIENCE, Bench, claim, refused
from support.faulty_store import Fault

CUTS: list[Fault] = ["cut", "cut before", "cut after"]


async def settle(bench: Bench) -> None:
    """Steps on while the engine would not wait."""
    for _ in range(99):
        if not bench.engine._backlog.waiting and bench.engine._next_deadline() > bench.clock.now():
            return
        await bench.engine.step()
    raise AssertionError("it never comes to rest")


# ── When other servers are in the way ───────────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_others_are_in_the_way_of_is_run_again_and_nobody_notices(bench: Bench) -> None:
    waiting = bench.say(claim(bench.engine.new_holder(), wait_ms=60_000))
    await bench.engine.step()
    bench.faults.at_commit = ["busy"] * BUSY_TRIES
    (posted,) = await bench.do(Post(NewItem("1")))
    assert isinstance(posted, Posted)
    (handed,) = waiting
    assert isinstance(handed, Handed)
    assert handed.item.attempts == 1
    assert bench.writable()


async def test_a_turn_that_others_are_always_in_the_way_of_is_refused(bench: Bench, quiet: None) -> None:
    bench.faults.at_commit = ["busy"] * (BUSY_TRIES + 1)
    (failed,) = await bench.do(Post(NewItem("1")))
    assert refused([failed])
    assert "other servers are in the way" in str(failed)
    await bench.pass_by(RETRY_MS)
    assert bench.writable()


# ── When the connection is cut, and made anew at once ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", CUTS)
async def test_a_connection_that_is_cut_and_made_anew_is_not_noticed(bench: Bench, quiet: None, fault: Fault) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    waiting = bench.say(claim(holder, wait_ms=60_000))
    await bench.engine.step()
    bench.faults.at_commit = [fault]
    posted, changed = bench.say(Post(NewItem("1"))), bench.say(Change(item.id, Result("1", 1)))
    await bench.engine.step()
    assert (posted, changed) == ([], []), "nobody is answered before it is known what became of it"
    await settle(bench)
    assert [type(outcome) for outcome in (*posted, *changed, *waiting)] == [Posted, Changed, Handed]
    assert isinstance(changed[0], Changed)
    assert changed[0].accepted
    assert (await bench.read(item.id)).rev == 3, "it was done once"
    assert isinstance(waiting[0], Handed)
    assert waiting[0].item.attempts == 1
    assert bench.writable()


async def test_a_turn_that_cuts_each_connection_is_refused_and_keeps_up_nobody(bench: Bench, quiet: None) -> None:
    bench.faults.at_commit = ["cut", "cut"]
    said = bench.say(Post(NewItem("1")))
    await settle(bench)
    assert refused(said)
    await bench.pass_by(MOST_MS)
    assert isinstance((await bench.do(Post(NewItem("2"))))[0], Posted)


async def test_a_turn_that_cuts_each_connection_keeps_those_waiting_who_watch(bench: Bench, quiet: None) -> None:
    item = await bench.post(posted_by="ann")
    bench.faults.at_commit = ["cut", "cut"]
    watched, followed = bench.say(Read((item.id,), patient=True)), bench.say(ReadFollowed("ann"))
    await settle(bench)
    assert (watched, followed) == ([], [])
    await bench.pass_by(MOST_MS)
    assert [type(outcome) for outcome in (*watched, *followed)] == [Found, Followed]


@pytest.mark.parametrize("fault", ["cut before", "cut after"])
async def test_a_turn_that_is_in_doubt_when_it_is_run_again_is_answered_once(
    bench: Bench, quiet: None, fault: Fault
) -> None:
    bench.faults.at_commit = ["cut", fault]
    posted = bench.say(Post(NewItem("1")))
    await settle(bench)
    assert posted == [], "it may be done"
    await bench.pass_by(MOST_MS)
    assert [type(outcome) for outcome in posted] == [Posted]
    assert bench.engine.tally.counts["pending"] == 1


# ── While it is away ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.protocol("7.18", "7.19")
@pytest.mark.parametrize("fault", CUTS)
async def test_while_it_is_away_what_needs_it_is_refused_and_said_clearly(
    bench: Bench, quiet: None, fault: Fault
) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    bench.faults.at_commit = [fault]
    first = bench.say(Change(item.id, Result("1", 1)))
    await bench.engine.step()
    bench.faults.away = True
    await bench.engine.step()
    assert refused(first) if fault == "cut" else first == [], "in doubt nobody is told anything"
    outcomes = await bench.do(
        Post(NewItem("1")),
        Read((item.id,)),
        claim(holder, wait_ms=60_000),
        claim(holder),
        ResumeLeases(bench.engine.new_holder(), "box", "box-1", ((item.id, 1),)),
    )
    assert len(outcomes) == 5
    assert refused(outcomes)
    assert "cannot reach its database" in str(outcomes[0])
    assert not bench.writable()
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    await settle(bench)
    assert bench.writable()
    assert (await bench.read(item.id)).status == ("processing" if fault == "cut" else "finished")
    if fault != "cut":
        (changed,) = first
        assert isinstance(changed, Changed)
        assert changed.accepted


async def test_claims_that_wait_stay_and_time_out_while_it_is_away(bench: Bench, quiet: None) -> None:
    short, long = bench.say(claim(2, wait_ms=RETRY_MS)), bench.say(claim(3, wait_ms=60_000))
    await bench.engine.step()
    bench.faults.away = True
    assert await bench.do(Post(NewItem("1"))) == []
    await bench.pass_by(2 * RETRY_MS)
    assert short == [Empty()]
    assert long == []
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    await bench.post('"it is back"')
    assert [type(outcome) for outcome in long] == [Handed]


async def test_claims_in_a_turn_that_is_in_doubt_are_answered_once(bench: Bench, quiet: None) -> None:
    waiting = bench.say(claim(2, wait_ms=RETRY_MS))
    await bench.engine.step()
    bench.faults.at_commit = ["cut after"]
    posted = bench.say(Post(NewItem("1")))
    await bench.engine.step()
    bench.faults.away = True
    await bench.pass_by(4 * RETRY_MS)
    assert (posted, waiting) == ([], [])
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    assert [type(outcome) for outcome in (*posted, *waiting)] == [Posted, Handed]


async def test_lost_sockets_and_withdrawn_claims_are_done_once_it_is_back(bench: Bench, quiet: None) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    waiting = bench.say(claim(holder, wait_ms=60_000))
    other = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    bench.faults.away = True
    dropped, withdrawn = bench.say(Drop(holder)), bench.say(Withdraw(2))
    await settle(bench)
    assert (dropped, withdrawn, other) == ([], [Done()], [Empty()])
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    await settle(bench)
    assert dropped == [Done()]
    assert (await bench.read(item.id)).ending == "lost"
    await bench.post()
    assert waiting == [], "its socket is gone"


async def test_claims_that_are_withdrawn_while_it_is_in_doubt_get_nothing(bench: Bench, quiet: None) -> None:
    waiting = bench.say(claim(2, wait_ms=60_000))
    await bench.engine.step()
    bench.faults.at_commit = ["cut after"]
    bench.say(Post(NewItem("1")))
    await bench.engine.step()
    bench.faults.away = True
    withdrawn = bench.say(Withdraw(2))
    await bench.pass_by(4 * RETRY_MS)
    assert (waiting, withdrawn) == ([], [])
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    await bench.post()
    assert [type(outcome) for outcome in waiting] == [Handed], "the turn that was in doubt had handed it out"
    assert withdrawn == [Done()]


async def test_brief_claims_whose_search_goes_on_are_refused_when_it_goes_away(bench: Bench, quiet: None) -> None:
    for _ in range(40):
        await bench.post('{"kind":"other"}')
    brief = bench.say(claim(2, {"kind": "wanted"}))
    bench.faults.at_commit = ["cut"]
    await bench.engine.step()
    bench.faults.away = True
    await settle(bench)
    assert refused(brief)


async def test_stamps_and_sweeps_are_done_once_it_is_back(bench: Bench, quiet: None) -> None:
    done = await bench.post()
    await bench.do(Change(done.id, Cancel()))
    later = await bench.post(delay_ms=RETRY_MS)
    bench.engine.stamp(done.id, 2)
    bench.faults.away = True
    await bench.pass_by(4 * RETRY_MS)
    bench.faults.away = False
    await bench.pass_by(2 * MOST_MS)
    assert (await bench.read(done.id)).fetched_at > 0
    assert (await bench.read(later.id)).ready == 1


@pytest.mark.protocol("7.22")
async def test_what_is_watched_is_shown_once_it_is_back(bench: Bench, quiet: None) -> None:
    item = await bench.post(posted_by="ann")
    bench.faults.away = True
    watched, followed = bench.say(Read((item.id,), patient=True)), bench.say(ReadFollowed("ann"))
    await bench.pass_by(4 * RETRY_MS)
    assert (watched, followed) == ([], [])
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    assert [type(outcome) for outcome in (*watched, *followed)] == [Found, Followed]


@pytest.mark.protocol("7.23")
@pytest.mark.parametrize("resumed", [True, False])
async def test_who_is_sent_away_while_it_is_away_has_the_grace_and_loses_nothing(
    bench: Bench, quiet: None, resumed: bool
) -> None:
    item = await bench.claimed(holder := bench.engine.new_holder())
    bench.faults.away = True
    await bench.do(Post(NewItem("1")))
    await bench.pass_by(GRACE + MOST_MS)
    assert bench.engine.deserted
    bench.say(Drop(holder))
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    if resumed:
        (taken,) = await bench.do(ResumeLeases(bench.engine.new_holder(), "box", "box-1", ((item.id, 1),)))
        assert isinstance(taken, Resumed)
    await bench.pass_by(GRACE - 2 * MOST_MS)
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(2 * MOST_MS)
    item = await bench.read(item.id)
    assert (item.status, item.ending, item.losses) == (
        ("processing", "open", 0) if resumed else ("pending", "parted", 0)
    )


@pytest.mark.protocol("7.6", "7.23")
async def test_what_lapsed_while_it_was_away_may_be_renewed_once_it_is_back(bench: Bench, quiet: None) -> None:
    item, lost = await bench.claimed(holder := bench.engine.new_holder()), await bench.claimed(holder)
    bench.faults.away = True
    bench.engine.check_store()
    await bench.pass_by(item.lease_until - bench.clock.now() + RETRY_MS)
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    (renewed,) = await bench.do(Change(item.id, Renew(holder, "box", 1)))
    assert isinstance(renewed, Changed)
    assert renewed.accepted
    await bench.pass_by(PATIENCE)
    assert (await bench.read(item.id)).status == "processing"
    assert (await bench.read(lost.id)).ending == "lost"


@pytest.mark.protocol("6.6")
async def test_for_longer_than_the_grace_it_is_deserted(bench: Bench, quiet: None) -> None:
    bench.faults.away = True
    await bench.do(Post(NewItem("1")))
    await bench.pass_by(GRACE)
    deserted = [bench.engine.deserted]
    await bench.pass_by(1)
    deserted.append(bench.engine.deserted)
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    assert [*deserted, bench.engine.deserted] == [False, True, False]


async def test_an_engine_that_is_idle_notices_by_its_check(bench: Bench, quiet: None) -> None:
    bench.faults.away = True
    bench.engine.check_store()
    await bench.engine.step()
    assert not bench.writable()
    bench.faults.away = False
    await bench.pass_by(MOST_MS)
    assert bench.writable()


async def test_a_store_that_is_lost_when_it_comes_back_is_lost(
    bench: Bench, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.faults.at_commit = ["cut"]
    said = bench.say(Post(NewItem("1")))
    await bench.engine.step()

    async def leases() -> Any:
        raise StoreLost("lost, says the test")

    monkeypatch.setattr(bench._store, "leases", leases)
    await bench.engine.step()
    assert len(bench.lost) == 1
    assert said == []


# ── What others did meanwhile ───────────────────────────────────────────────────────────────────────────────────────


NEXT: Final = -1
"""In place of a holder: a socket of a server that started after this one."""


def bench_holder(bench: Bench) -> int:
    """A socket of the server that started next."""
    return (bench.engine.epochs.own + 1) << BITS | 1


class Elsewhere:
    """Another server that changes rows behind the engine's back, in a turn of the same store."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def change(self, item_id: str, **values: Any) -> None:
        """The row is so from now on."""
        async with self._bench._store.store.turn(durable=True) as turn:
            before = (await turn.load([item_id]))[item_id]
            after = before.copy()
            after.rev += 1
            if values.get("holder") == NEXT:
                values["holder"] = bench_holder(self._bench)
            for name, value in values.items():
                setattr(after, name, value)
            await turn.save([(before, after)])
            await turn.commit()


async def come_back(bench: Bench) -> None:
    """The database was away for a moment."""
    bench.faults.at_commit = ["cut"]
    bench.say(Read(()))
    await bench.engine.step()
    await settle(bench)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"status": "cancelled", "holder": 0, "lease_until": 0}, "cancelled"),
        ({"status": "pending", "ending": "lost", "holder": 0, "lease_until": 0}, "lapsed"),
        ({"holder": NEXT}, "resumed"),
        ({"holder": NEXT, "attempts": 2}, "lapsed"),
        ({"status": "finished", "ending": "finished", "holder": 0, "lease_until": 0}, None),
    ],
)
async def test_sockets_are_told_what_they_lost_while_it_was_away(
    bench: Bench, quiet: None, values: dict[str, Any], reason: str | None
) -> None:
    lost: list[tuple[str, str]] = []
    holder = bench.engine.new_holder()
    bench.engine.tell_losses(holder, lambda item_id, why: lost.append((item_id, why)))
    item, kept = await bench.claimed(holder), await bench.claimed(holder)
    await Elsewhere(bench).change(item.id, **values)
    await come_back(bench)
    assert lost == ([(item.id, reason)] if reason else [])
    assert bench.engine._leases.of_holder(holder, 9) == [kept.id]


async def test_what_is_lost_while_it_goes_away_again_is_told_as_lapsed(bench: Bench, quiet: None) -> None:
    lost: list[tuple[str, str]] = []
    holder = bench.engine.new_holder()
    bench.engine.tell_losses(holder, lambda item_id, why: lost.append((item_id, why)))
    item = await bench.claimed(holder)
    await Elsewhere(bench).change(item.id, status="cancelled", holder=0)
    bench.faults.at_commit = ["cut", "cut", "cut"]
    bench.say(Read(()))
    await settle(bench)
    assert lost == [(item.id, "lapsed")]


async def test_a_lease_that_was_renewed_elsewhere_is_not_swept_and_not_asked_for_again(bench: Bench) -> None:
    item = await bench.claimed(1)
    until = item.lease_until
    await Elsewhere(bench).change(item.id, lease_until=until + 5_000)
    await bench.pass_by(until - bench.clock.now())
    commits = len(bench.faults.commits)
    for _ in range(5):
        await bench.engine.step()
    assert len(bench.faults.commits) == commits
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(5_000)
    assert (await bench.read(item.id)).ending == "lost"


async def test_whoever_is_found_to_hold_it_has_the_grace(bench: Bench) -> None:
    """The sweep was due by what was remembered; the row is held by a socket of a server that has just gone."""
    item = await bench.claimed(1)
    until = item.lease_until
    await Elsewhere(bench).change(item.id, holder=NEXT, lease_until=until + 1)
    bench.engine.epochs.look((), bench.engine.epochs.own + 1, until - 1, GRACE)
    await bench.pass_by(until + RETRY_MS - bench.clock.now())
    assert (await bench.read(item.id)).status == "processing"
    await bench.pass_by(GRACE)
    assert (await bench.read(item.id)).ending == "parted"


async def test_a_lease_that_ended_elsewhere_is_forgotten(bench: Bench) -> None:
    item = await bench.claimed(1)
    await Elsewhere(bench).change(item.id, status="cancelled", holder=0, lease_until=0)
    await bench.pass_by(item.lease_until - bench.clock.now())
    assert len(bench.engine._leases) == 0


async def test_a_socket_that_is_gone_drops_nothing_that_was_resumed_elsewhere(bench: Bench) -> None:
    holder = bench.engine.new_holder()
    items = [await bench.claimed(holder) for _ in range(3)]
    for item in items:
        await Elsewhere(bench).change(item.id, holder=NEXT)
    assert await bench.do(Drop(holder)) == [Done()]
    for item in items:
        assert (await bench.read(item.id)).status == "processing"
    assert len(bench.engine._leases) == 0, "they are the other server's to look after"
