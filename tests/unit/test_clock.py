"""Where time and chance come from, and how tests move them."""

import asyncio
import time

import pytest

from leaseway_server.runtime.clock import STEP_MS, Clock
from support.clock import ManualClock


@pytest.mark.protocol("0.9")
def test_now_is_wall_time_in_milliseconds() -> None:
    before, now, after = time.time(), Clock().now(), time.time()
    assert before * 1000 - 1 <= now <= after * 1000 + 1
    assert isinstance(now, int)


def test_a_step_of_the_systems_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before, wall = clock.now(), time.time
    monkeypatch.setattr(time, "time", lambda: wall() - 86_400)
    assert 0 <= clock.now() - before < 60_000
    monkeypatch.setattr(time, "time", lambda: wall() + 86_400)
    assert 0 <= clock.now() - before < 60_000


def test_time_never_goes_back() -> None:
    clock = Clock()
    times = [clock.now() for _ in range(10_000)]
    assert times == sorted(times)


def test_chance_is_spread_over_zero_to_one() -> None:
    draws = [Clock().chance() for _ in range(1_000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert min(draws) < 0.1 < 0.9 < max(draws)


async def test_the_real_clock_waits_until_the_time_comes() -> None:
    clock = Clock()
    until = clock.now() + 20
    await clock.wait(asyncio.Event(), until)
    assert clock.now() >= until - 1
    await clock.wait(asyncio.Event(), until)  # It is over.


@pytest.mark.parametrize("make", [Clock, ManualClock])
@pytest.mark.parametrize("ahead", [0, 3_600_000])
async def test_a_clock_stops_waiting_when_the_event_is_set(make: type[Clock], ahead: int) -> None:
    clock, event = make(), asyncio.Event()
    waiting = asyncio.create_task(clock.wait(event, clock.now() + ahead if ahead else 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    await waiting
    await clock.wait(event, 0)


async def test_the_manual_clock_wakes_those_whose_time_has_come() -> None:
    clock = ManualClock()
    early, late = (asyncio.create_task(clock.wait(asyncio.Event(), clock.now() + ms)) for ms in (10, 20))
    await asyncio.sleep(0)
    clock.advance(9)
    await asyncio.sleep(0)
    assert not early.done()
    clock.advance(1)
    await early
    assert not late.done()
    clock.advance(1_000)
    await late
    await clock.wait(asyncio.Event(), clock.now())


def test_a_clock_follows_another_and_never_goes_back() -> None:
    clock = Clock()
    there = clock.now() - 60_000
    clock.agree(there, 0)
    assert 0 <= clock.now() - there < 5_000, "the first time it jumps"
    before = clock.now()
    clock.agree(before - STEP_MS // 4, 0)
    assert clock.now() == clock.now() == before, "then it stands still"
    clock.agree(before + STEP_MS // 4, 10)
    assert 0 <= clock.now() - before - STEP_MS // 4 < 5_000
    assert clock.stepped == 0


@pytest.mark.parametrize("step", [STEP_MS + 100, -STEP_MS - 100, 86_400_000, -86_400_000])
def test_where_the_other_clock_was_set_the_time_goes_along_and_what_is_steady_does_not(step: int) -> None:
    clock = Clock()
    clock.agree(clock.now(), 0)
    now, steady = clock.now(), clock.steady()
    clock.agree(now + step, 0)
    assert 0 <= clock.now() - now - step < 5_000
    assert 0 <= clock.steady() - steady < 5_000
    assert abs(clock.stepped - step) < 100
    clock.agree(clock.now(), 0)
    assert abs(clock.stepped - step) < 100, "a step is one"


def test_what_may_be_the_way_of_the_answer_moves_no_clock() -> None:
    clock = Clock()
    offset = clock._offset
    clock.agree(clock.now() + 200, 1_000)
    assert clock._offset == offset
