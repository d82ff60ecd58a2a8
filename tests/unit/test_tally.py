"""Counts and rates: what one turn's changes make of them."""

from dataclasses import replace

import pytest

from leaseway_server.core.model import STATUSES, Item
from leaseway_server.runtime.tally import MINUTE_MS, MINUTES, Minute, Tally, count_changes
from support.model import NOW, ended, held, pending, waiting_again

MINUTE = NOW - NOW % MINUTE_MS
AGAIN = held(attempts=2)

CHANGES: list[tuple[str, Item | None, Item, dict[str, int], dict[str, int]]] = [
    ("a post", None, pending(), {"pending": 1}, {"posted": 1}),
    ("a post that is taken", None, held(), {"processing": 1}, {"posted": 1, "claimed": 1}),
    ("a claim", pending(), held(), {"pending": -1, "processing": 1}, {"claimed": 1}),
    ("a renewal", held(), held(lease_until=NOW + 1), {}, {}),
    ("a due time", pending(ready=0), pending(), {}, {}),
    ("a result", held(), ended("finished"), {"processing": -1, "finished": 1}, {"finished": 1}),
    ("a late result", waiting_again("lost"), ended("finished"), {"pending": -1, "finished": 1}, {"finished": 1}),
    ("a fail for good", held(), ended("failed"), {"processing": -1, "failed": 1}, {"failed": 1}),
    ("the last fail", held(), ended("dead"), {"processing": -1, "dead": 1}, {"dead": 1}),
    ("a cancel", pending(), ended("cancelled", attempts=0), {"pending": -1, "cancelled": 1}, {}),
    ("the end of a life", held(), ended("expired"), {"processing": -1, "expired": 1}, {}),
    ("a requeue", held(), waiting_again("lost"), {"processing": -1, "pending": 1}, {"requeued": 1}),
    ("a requeue that is taken", held(), AGAIN, {}, {"requeued": 1, "claimed": 1}),
    ("a resume", waiting_again("lost"), held(), {"pending": -1, "processing": 1}, {}),
    ("a retry", ended("dead"), waiting_again("closed"), {"dead": -1, "pending": 1}, {}),
    ("a retry that is taken", ended("dead"), AGAIN, {"dead": -1, "processing": 1}, {"claimed": 1}),
    ("a key that is free", ended("finished", held=1), ended("finished"), {}, {}),
]


@pytest.mark.parametrize(
    ("before", "after", "more", "rates"), [row[1:] for row in CHANGES], ids=[r[0] for r in CHANGES]
)
def test_a_change_counts_as_what_it_is(
    before: Item | None, after: Item, more: dict[str, int], rates: dict[str, int]
) -> None:
    assert count_changes([(before, after)], ()) == more
    minute = Minute(0)
    minute.add([(before, after)])
    assert minute == replace(Minute(0), **rates)


def test_what_cancels_out_is_no_change() -> None:
    assert count_changes([(pending(), held()), (held(), waiting_again("lost"))], ()) == {}
    assert count_changes([(None, pending())], [pending()]) == {}
    assert count_changes([], [ended("dead"), ended("dead"), ended("finished")]) == {"dead": -2, "finished": -1}


def test_a_tally_has_all_statuses_and_keeps_what_it_is_told() -> None:
    tally = Tally({"pending": 2, "dead": 1})
    assert tally.counts == dict.fromkeys(STATUSES, 0) | {"pending": 2, "dead": 1}
    assert tally.ended == 1
    tally.take({"pending": -1, "finished": 1}, [], NOW)
    assert (tally.counts["pending"], tally.counts["finished"], tally.ended) == (1, 1, 2)


def test_rates_are_the_last_hours_minutes_oldest_first() -> None:
    tally = Tally({})
    assert tally.rates(NOW) == [Minute(MINUTE - ago * MINUTE_MS) for ago in reversed(range(MINUTES))]
    tally.take({}, [(None, pending())], MINUTE)
    tally.take({}, [(None, pending())], MINUTE + MINUTE_MS - 1)
    tally.take({}, [(None, pending())], MINUTE + MINUTE_MS)
    assert tally.rates(MINUTE + MINUTE_MS)[-2:] == [Minute(MINUTE, posted=2), Minute(MINUTE + MINUTE_MS, posted=1)]


def test_minutes_are_forgotten_after_an_hour_be_it_busy_or_not() -> None:
    tally = Tally({})
    tally.take({}, [(None, pending())], MINUTE)
    hour = MINUTES * MINUTE_MS
    assert tally.rates(MINUTE + hour - 1)[0] == Minute(MINUTE, posted=1)
    assert sum(minute.posted for minute in tally.rates(MINUTE + hour)) == 0
    tally.take({}, [(pending(), held())], MINUTE + hour)
    assert tally.rates(MINUTE + hour)[-1] == Minute(MINUTE + hour, claimed=1)
    assert len(tally.rates(MINUTE + 5 * hour)) == MINUTES
