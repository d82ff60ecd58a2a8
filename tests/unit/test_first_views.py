"""What waits to be read for a monitor is bounded by its subscriptions, whatever it says how often (PROTOCOL.md §3)."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core import first_views
from leaseway_server.core.commands import Failed, Found, Read
from leaseway_server.core.conversation import Exchange
from leaseway_server.core.errors import Unavailable
from leaseway_server.core.jsontext import Json
from support.model import NOW, pending
from support.monitor import Monitor, told

IDS = [f"{number:016x}" for number in range(12)]
GONE = IDS[8:]
"""These do not exist."""


@dataclass
class Scene:
    """A monitor of which one part at a time is read, as a socket has it done."""

    monitor: Monitor = field(default_factory=Monitor)
    reading: Exchange | None = None

    def says(self, message: Json) -> None:
        """It says something that is not refused."""
        for exchange in self.monitor.says(message):
            self._take(exchange)

    def reads_on(self) -> None:
        """What was read was sent: the next part."""
        for exchange in self.monitor.monitor.read_on():
            self._take(exchange)

    def reads(self) -> tuple[str, ...]:
        """The part that is being read."""
        if self.reading is None:
            return ()
        assert isinstance(self.reading.command, Read)
        return self.reading.command.ids

    def answered(self, left: int = 0) -> tuple[str, ...]:
        """The part is read but for its last `left`; gives what was read."""
        ids, exchange, self.reading = self.reads(), self.reading, None
        if exchange is None:
            return ()
        read, rest = ids[: len(ids) - left], ids[len(ids) - left :]
        found = {item_id: pending(id=item_id) for item_id in read if item_id not in GONE}
        self.monitor.settle(exchange, Found(found, NOW, tuple(rest)))
        return read

    def drain(self) -> list[str]:
        """Reads all that waits; gives the ids, in their order."""
        read: list[str] = []
        self.reads_on()
        while self.reading is not None:
            read += self.answered()
            self.reads_on()
        return read

    def _take(self, exchange: Exchange) -> None:
        assert self.reading is None, "one part at a time"
        self.reading = exchange


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_views, "READ_AT_ONCE", 3)


@pytest.mark.protocol("3.15")
def test_ids_that_wait_are_not_added_again() -> None:
    scene = Scene()
    for _ in range(100):
        scene.says({"subscribe": list(IDS)})
    scene.answered()
    assert scene.drain() == IDS[3:] + IDS[:3], "what was being read is read again, and nothing thrice"
    assert [item_id for item_id, _ in told(scene.monitor.sees())] == IDS[:8]


@pytest.mark.protocol("3.15")
def test_ids_that_are_taken_back_are_not_read() -> None:
    scene = Scene()
    for _ in range(100):
        scene.says({"subscribe": list(IDS)})
        scene.says({"unsubscribe": list(IDS)})
    scene.answered()
    assert scene.drain() == []
    assert scene.monitor.sees() == []
    assert len(scene.monitor.hub) == 0


def test_ids_of_items_that_are_gone_are_not_read() -> None:
    scene = Scene()
    scene.says({"subscribe": list(IDS)})
    scene.monitor.hub.end(IDS[:8])
    scene.answered()
    assert scene.drain() == IDS[8:]
    assert len(scene.monitor.monitor.watching) == len(scene.monitor.hub) == 0


def test_what_was_too_much_for_a_turn_comes_next() -> None:
    scene = Scene()
    scene.says({"subscribe": list(IDS[:5])})
    assert scene.answered(left=2) == (IDS[0],)
    assert scene.drain() == IDS[1:5]


subsets = st.lists(st.sampled_from(IDS), unique=True)
steps: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(["subscribe", "unsubscribe", "end"]), subsets),
    st.tuples(st.sampled_from(["answered", "left"]), st.just([])),
    st.tuples(st.just("sent"), st.just([])),
)


@given(st.lists(steps, max_size=40))
def test_whatever_is_said_each_subscription_is_read_and_no_more_waits_than_there_are(
    said: list[tuple[str, list[str]]],
) -> None:
    scene = Scene()
    watched: set[str] = set()
    wanted: set[str] = set()
    handed_back: set[str] = set()
    for step, ids in said:
        match step:
            case "subscribe":
                scene.says({"subscribe": list(ids)})
                watched |= set(ids)
                wanted |= set(ids)
            case "unsubscribe":
                scene.says({"unsubscribe": list(ids)})
            case "end":
                scene.monitor.hub.end(ids)
            case "answered" | "left":
                before = scene.reads()
                answered = scene.answered(left=int(step == "left"))
                handed_back |= set(before) - set(answered)
                wanted -= set(answered)
            case _:
                scene.reads_on()
        watched &= set(scene.monitor.monitor.watching)
        wanted &= watched
    last = scene.answered()
    read = scene.drain()
    assert len(read) == len(set(read)), "each waits once"
    assert wanted <= {*last, *read}
    assert set(read) <= watched | handed_back, "nothing waits that is not watched, but what a turn handed back"
    assert set(scene.monitor.monitor.watching) == watched - set(GONE)


def test_after_a_part_that_could_not_be_read_the_next_is() -> None:
    views = first_views.FirstViews()
    views.name(IDS[:1])
    first = views.next()
    assert first == Read((IDS[0],), patient=True)
    views.name(IDS[1:2])
    assert views.next() is None, "one at a time"
    views.answered(first, Failed(Unavailable("not now")))
    assert views.next() == Read((IDS[1],), patient=True), "what failed is not tried again: its error says so"
