"""A monitor with a pace (PROTOCOL.md §3, `paceMs`), without its socket: pushed to so often, and no more."""

from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.commands import Followed, Found, Posted
from leaseway_server.core.jsontext import Json
from leaseway_server.core.model import Item
from support.clock import START
from support.model import NOW, ended, held, pending
from support.monitor import Monitor, told

ID, OTHER, THIRD = (f"{number:016x}" for number in (0xA1, 0xA2, 0xA3))
PACE: Final = 500


def paced(*watched: Item, **hello: Json) -> Monitor:
    """A monitor that is pushed to every half second, and was told the first views of these."""
    monitor = Monitor(rights=["fetch", "post", "admin"])
    monitor.says({"hello": {"batch": True, "paceMs": PACE} | hello})
    if watched:
        monitor.subscribes(*watched)
    monitor.sees()
    return monitor


def hears(monitor: Monitor) -> list[dict[str, Any]]:
    """The messages that it is sent now; they are one frame."""
    frames = monitor.sees()
    assert len(frames) <= 1
    return [message for frame in frames for message in frame.get("messages", [frame])]


def test_the_first_change_is_told_at_once_and_the_next_ones_together_when_their_time_has_come() -> None:
    monitor = paced(pending(), pending(id=OTHER))
    monitor.changes(held())
    assert told(hears(monitor)) == [(ID, 2)]
    assert monitor.monitor.push_at == 0, "nothing waits"
    monitor.clock.advance(1)
    monitor.changes(held(rev=3), held(id=OTHER))
    monitor.changes(held(rev=4))
    monitor.changes(ended("finished", rev=5))
    assert monitor.monitor.push_at == monitor.clock.now() + PACE - 1
    monitor.clock.advance(PACE - 2)
    assert hears(monitor) == []
    monitor.clock.advance(1)
    (other, last) = hears(monitor)
    assert (other["id"], last["rev"], last["status"]) == (OTHER, 5, "finished")
    assert monitor.monitor.push_at == 0


async def test_the_figures_wait_for_the_same_time_and_only_the_newest_are_told() -> None:
    monitor = paced(pending(), paceMs=3 * PACE)
    monitor.says({"stats": True})
    assert [figures["workers"] for figures in hears(monitor)] == [0], "an answer, and no push"
    heard = []
    for workers in range(1, 5):
        monitor.workers = workers
        monitor.changes(held(rev=workers + 1))
        monitor.clock.advance(PACE)
        monitor.stats.tell()
        heard.append([message.get("rev", message.get("workers")) for message in hears(monitor)])
    monitor.monitor.close()
    assert heard == [[2, 1], [], [], [5, 4]]


@pytest.mark.protocol("3.47")
def test_what_answers_a_message_does_not_wait_and_takes_the_newest_with_it() -> None:
    monitor = paced(pending(), pending(id=OTHER))
    monitor.changes(held())
    hears(monitor)
    monitor.changes(held(rev=3), held(id=OTHER, rev=3))
    monitor.says({"hello": {"batch": True, "paceMs": PACE}, "ref": 1})
    assert [message["type"] for message in hears(monitor)] == ["hello"]
    monitor.subscribes(held(rev=2))
    assert told(hears(monitor)) == [(ID, 3)], "the one that waits is newer than the one that was read"
    monitor.subscribes(held(rev=3))
    monitor.changes(held(rev=4))
    assert told(hears(monitor)) == [(ID, 4)], "and so is one that comes before the answer went out"
    monitor.subscribes(held(rev=3))
    assert hears(monitor) == [], "a newer one was told"
    monitor.clock.advance(PACE)
    assert told(hears(monitor)) == [(OTHER, 3)]


@pytest.mark.protocol("3.47")
def test_the_first_views_of_what_is_followed_do_not_wait_and_its_changes_do() -> None:
    monitor = paced(pending(id=THIRD))
    monitor.changes(held(id=THIRD))
    hears(monitor)
    exchange = monitor.asks({"subscribe": {"all": True}})
    monitor.changes(pending(id=OTHER))
    monitor.settle(exchange, Followed([pending()], NOW))
    assert told(hears(monitor)) == [(ID, 1)]
    monitor.clock.advance(PACE)
    assert told(hears(monitor)) == [(OTHER, 1)]


@pytest.mark.protocol("3.47")
def test_the_first_view_of_an_item_does_not_wait_though_it_comes_as_a_change() -> None:
    monitor = paced(pending(id=THIRD))
    monitor.changes(held(id=THIRD))
    hears(monitor)
    exchange = monitor.asks({"subscribe": [ID]})
    monitor.changes(held())
    assert told(hears(monitor)) == [(ID, 2)]
    monitor.settle(exchange, Found({ID: pending()}, NOW))
    post = monitor.asks({"post": {"item": 1, "subscribe": True}})
    monitor.settle(post, Posted(pending(id=OTHER), duplicate=False))
    monitor.changes(pending(id=OTHER))
    assert [message["type"] for message in hears(monitor)] == ["posted", "status"]
    monitor.changes(held(rev=3), held(id=OTHER))
    assert hears(monitor) == []


def test_an_answer_alone_is_no_push() -> None:
    monitor = paced(pending())
    monitor.subscribes(pending(id=OTHER))
    assert told(hears(monitor)) == [(OTHER, 1)]
    monitor.changes(held())
    assert told(hears(monitor)) == [(ID, 2)]


def test_what_is_not_watched_any_more_waits_no_more() -> None:
    monitor = paced(pending(), pending(id=OTHER))
    monitor.changes(held(id=OTHER))
    hears(monitor)
    monitor.changes(held())
    monitor.subscribes(held())
    monitor.says({"unsubscribe": [ID]})
    assert monitor.monitor.push_at == 0
    assert monitor.monitor.weight() == 0
    monitor.clock.advance(PACE)
    assert hears(monitor) == []


def test_another_pace_counts_for_what_waits_and_none_lets_it_out() -> None:
    monitor = paced(pending())
    monitor.changes(held())
    hears(monitor)
    monitor.changes(held(rev=3))
    monitor.says({"hello": {"batch": True, "paceMs": 2 * PACE}})
    monitor.clock.advance(PACE)
    assert [message["type"] for message in hears(monitor)] == ["hello"]
    monitor.says({"hello": {"batch": True}})
    assert [message["type"] for message in hears(monitor)] == ["hello", "status"]


@pytest.mark.protocol("3.45")
@pytest.mark.parametrize("pace", [0, -1, 60_001, 500.0, True, None, "500"])
def test_a_pace_that_is_none_is_refused_and_the_one_before_counts_on(pace: Json) -> None:
    monitor = paced(pending())
    monitor.changes(held())
    hears(monitor)
    monitor.changes(held(rev=3))
    assert monitor.refused({"hello": {"paceMs": pace}})[:2] == ("bad-message", "/paceMs")
    assert hears(monitor) == []
    monitor.clock.advance(PACE)
    assert told(hears(monitor)) == [(ID, 3)]


@pytest.mark.protocol("3.48")
def test_who_is_about_to_be_closed_is_told_what_waits() -> None:
    monitor = paced(pending())
    monitor.changes(held())
    hears(monitor)
    monitor.changes(ended("finished", rev=3))
    monitor.monitor.hurry()
    assert told(hears(monitor)) == [(ID, 3)]


@pytest.mark.protocol("3.46")
@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), min_size=1, max_size=60))
def test_however_it_changes_pushes_are_a_pace_apart_none_is_older_and_the_last_comes(
    steps: list[tuple[int, int]],
) -> None:
    ids, monitor = (ID, OTHER, THIRD), paced(*(pending(id=item_id) for item_id in (ID, OTHER, THIRD)))
    revs, newest, pushes = dict.fromkeys(ids, 1), dict.fromkeys(ids, 1), []

    def look() -> None:
        views = told(hears(monitor))
        if views:
            pushes.append(monitor.clock.now())
        for item_id, rev in views:
            assert rev > newest[item_id]
            newest[item_id] = rev

    for which, ms in steps:
        item_id = ids[which]
        revs[item_id] += 1
        monitor.changes(held(id=item_id, rev=revs[item_id]))
        look()
        monitor.clock.advance(ms)
        look()
    monitor.clock.advance(PACE)
    look()
    assert newest == revs
    assert all(later - earlier >= PACE for earlier, later in pairwise(pushes))


# ── Several sockets in turn ──


@pytest.mark.protocol("3.50")
def test_with_an_offset_the_first_change_too_waits_for_its_moment() -> None:
    monitor = paced(pending(), paceOffsetMs=200)
    monitor.clock.advance(1)
    monitor.changes(held())
    assert hears(monitor) == []
    assert monitor.monitor.push_at == START + 200
    monitor.changes(held(rev=3))
    monitor.clock.advance(198)
    assert hears(monitor) == []
    monitor.clock.advance(1)
    assert told(hears(monitor)) == [(ID, 3)]
    monitor.changes(held(rev=4))
    assert hears(monitor) == [], "there was a push at this moment"
    assert monitor.monitor.push_at == START + 200 + PACE


@pytest.mark.protocol("3.50")
def test_an_answer_waits_for_no_offset_and_a_planned_stop_for_none_either() -> None:
    monitor = paced(pending(), paceOffsetMs=200)
    monitor.changes(held())
    monitor.subscribes(pending(id=OTHER))
    assert told(hears(monitor)) == [(OTHER, 1)]
    monitor.monitor.hurry()
    assert told(hears(monitor)) == [(ID, 2)]


@pytest.mark.protocol("3.50")
@pytest.mark.parametrize("offset", [-1, PACE, 200.0, True, None, "200"])
def test_an_offset_that_is_none_is_refused_and_the_pace_before_counts_on(offset: Json) -> None:
    monitor = paced(pending())
    monitor.changes(held())
    hears(monitor)
    monitor.changes(held(rev=3))
    assert monitor.refused({"hello": {"paceMs": PACE, "paceOffsetMs": offset}})[:2] == ("bad-message", "/paceOffsetMs")
    assert monitor.refused({"hello": {"paceOffsetMs": 200}})[:2] == ("bad-message", "")
    assert hears(monitor) == []
    monitor.clock.advance(PACE)
    assert told(hears(monitor)) == [(ID, 3)]


@pytest.mark.protocol("3.50")
@given(steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 700)), min_size=1, max_size=60))
def test_however_they_change_no_two_sockets_are_pushed_to_at_one_moment(steps: list[tuple[int, int]]) -> None:
    both = [paced(pending(), paceMs=2 * PACE, paceOffsetMs=PACE * number) for number in range(2)]
    revs, newest, pushes = [1, 1], [1, 1], list[int]()

    def look(number: int) -> None:
        for _, rev in told(hears(both[number])):
            newest[number] = rev
            pushes.append(both[number].clock.now())

    def pass_by(ms: int) -> None:
        for number, monitor in enumerate(both):
            end = monitor.clock.now() + ms
            look(number)
            while 0 < (due := monitor.monitor.push_at) <= end:
                monitor.clock.advance(due - monitor.clock.now())
                look(number)
            monitor.clock.advance(end - monitor.clock.now())

    for which, ms in steps:
        revs[which] += 1
        both[which].changes(held(rev=revs[which]))
        pass_by(ms)
    pass_by(2 * PACE)
    assert newest == revs
    assert all(later - earlier >= PACE for earlier, later in pairwise(sorted(pushes)))


# ── Who looks on ──


@pytest.mark.protocol("3.49")
def test_who_only_looks_on_is_told_the_ends_and_fetches_none() -> None:
    monitor = paced(pending(), stamp=False)
    monitor.changes(ended("finished"))
    frames, producers = monitor.monitor.take_with_views(monitor.clock.now())
    assert told(monitor.read(frames)) == [(ID, 3)]
    assert producers == []
