"""Keys, turn by turn, on either store: for how long one is held, and what a retry makes of it."""

from dataclasses import replace

import pytest

from leaseway_server.core.commands import Change, Changed, Delete, Found, Read
from leaseway_server.core.errors import Conflict
from leaseway_server.core.events import Retry
from leaseway_server.core.keys import GRAIN
from leaseway_server.core.retention import Keep
from leaseway_server.runtime import turn as turn_module
from support.bench import Bench
from support.posting import WINDOW, cancel, configure, held, keyed, one, posted, refusal, retried


@pytest.fixture(autouse=True)
def short_window(bench: Bench) -> None:
    """The keys of a bench are held for a short time."""
    configure(bench)


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
