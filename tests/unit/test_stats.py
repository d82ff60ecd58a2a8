"""Who is told a queue's figures, and when: at once, and at most twice a second; and how they are kept."""

import asyncio
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.runtime.stats import PERIOD_MS, Stats
from support.clock import ManualClock


class Viewer:
    """Notes what it is offered, and when."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.told: list[tuple[int, int]] = []
        self.heard = asyncio.Event()

    def offer_stats(self, message: bytes) -> None:
        """The figures are others now."""
        self.told.append((self.clock.now(), orjson.loads(message)["n"]))
        self.heard.set()


class Figures:
    """Figures that a test changes; `encoded` counts how often they were asked for."""

    def __init__(self) -> None:
        self.number = 0
        self.asked = 0

    def __call__(self) -> dict[str, object]:
        self.asked += 1
        return {"n": self.number}


async def test_one_timer_tells_all_viewers_while_there_are_any() -> None:
    clock, figures = ManualClock(), Figures()
    stats = Stats(clock, figures)
    viewers = [Viewer(clock) for _ in range(3)]
    for viewer in viewers:
        assert stats.show(viewer) == b'{"type":"stats","n":0}'
    await asyncio.sleep(0)
    figures.number, figures.asked = 1, 0
    clock.advance(PERIOD_MS)
    await asyncio.gather(*(viewer.heard.wait() for viewer in viewers))
    assert figures.asked == 1, "encoded once for all"
    assert [viewer.told for viewer in viewers] == [[(clock.now(), 1)]] * 3
    stats.hide(viewers[0])
    stats.hide(viewers[0])
    assert len(stats) == 2
    for viewer in viewers:
        stats.hide(viewer)
    assert len(stats) == 0
    assert stats._telling is None


async def test_what_did_not_change_is_not_told() -> None:
    clock, figures = ManualClock(), Figures()
    stats, viewer = Stats(clock, figures), Viewer(clock)
    stats.show(viewer)
    clock.advance(PERIOD_MS)
    stats.tell()
    assert viewer.told == []
    stats.hide(viewer)


@pytest.mark.protocol("3.34")
@given(st.lists(st.tuples(st.integers(0, 700), st.booleans(), st.booleans()), max_size=30))
def test_a_viewer_is_told_at_most_twice_a_second_and_the_last_state_in_the_end(
    story: list[tuple[int, bool, bool]],
) -> None:
    async def play() -> None:
        clock, figures = ManualClock(), Figures()
        stats, early, late = Stats(clock, figures), Viewer(clock), Viewer(clock)
        stats.show(early)
        for wait, changes, joins in story:
            clock.advance(wait)
            figures.number += changes
            if joins and not late.told:
                late.told.append((clock.now(), orjson.loads(stats.show(late))["n"]))
            stats.tell()
        clock.advance(PERIOD_MS)
        stats.tell()
        for viewer in (early, late):
            times = [at for at, _ in viewer.told]
            assert all(second - first >= PERIOD_MS for first, second in pairwise(times))
            assert not viewer.told or viewer.told[-1][1] == figures.number
            stats.hide(viewer)

    asyncio.run(play())
