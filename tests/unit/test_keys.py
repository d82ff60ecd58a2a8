"""Keys: whose they are, how long they are held, and which posts are the same."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leaseway_server.core.jsontext import Json, equal, write
from leaseway_server.core.keys import GRAIN, holds, key_of, longest_equal, same, swept_at
from leaseway_server.core.model import NewItem
from support.model import NOW, ended, held, pending

WINDOW = 60_000


def test_a_key_is_the_queues_or_where_only_ones_own_is_seen_the_posters() -> None:
    new = NewItem("1", posted_by="ann", key="k")
    item = pending(key="k")
    assert key_of(new, own_only=False) == key_of(item, own_only=False) == ("", "k")
    assert key_of(new, own_only=True) == key_of(item, own_only=True) == ("ann", "k")


@pytest.mark.parametrize("item", [pending(key="k", held=1), held(key="k", held=1)])
def test_an_open_item_holds_its_key_however_long_ago_it_was_posted(item: Any) -> None:
    assert holds(item, WINDOW, NOW + 10 * WINDOW)


@pytest.mark.parametrize(("end", "until"), [(NOW + 5, NOW + WINDOW), (NOW + WINDOW + 5, NOW + WINDOW + 5)])
def test_an_ended_item_holds_it_to_the_later_of_window_and_end(end: int, until: int) -> None:
    item = ended("finished", finished_at=end, key="k", held=1)
    assert holds(item, WINDOW, until - 1) == (until > end)
    assert not holds(item, WINDOW, until)


def test_the_window_is_the_present_one() -> None:
    item = ended("finished", finished_at=NOW + 5, key="k", held=1)
    assert [holds(item, window, NOW + WINDOW) for window in (WINDOW, WINDOW + 1, WINDOW)] == [False, True, False]


def test_who_let_it_go_does_not_hold_it() -> None:
    assert not holds(ended("finished", key="k"), WINDOW, NOW)


@pytest.mark.parametrize(("window", "at"), [(60_000, 60_000), (60_001, 61_000), (60_999, 61_000)])
def test_keys_are_swept_at_full_seconds(window: int, at: int) -> None:
    assert NOW % GRAIN == 0
    assert swept_at(NOW, window) == NOW + at


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def otherwise(value: Json) -> Json:
    """The value with its numbers as the other kind, where that is exact, and its members in another order."""
    if isinstance(value, dict):
        return {name: otherwise(value[name]) for name in reversed(value)}
    if isinstance(value, list):
        return [otherwise(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if int(float(value)) == value else value
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
        return int(value)
    return value


@given(values)
@example(10**19)
@example([10**19] * 9)
@example([-0.0, 1.0, 2.0**63])
def test_equal_values_are_the_same_and_none_is_much_longer(value: Json) -> None:
    one, other = write(value), write(otherwise(value))
    assert same(one, other)
    assert same(other, one)
    assert len(one.encode()) <= longest_equal(other)
    assert len(other.encode()) <= longest_equal(one)


@given(values, values)
def test_the_same_are_what_criteria_call_equal(one: Json, other: Json) -> None:
    assert same(write(one), write(other)) == equal(one, other)


@pytest.mark.parametrize(("one", "other"), [("1", "true"), ("0", "false"), ("null", "0"), ('"1"', "1"), ("[1]", "1")])
def test_values_of_different_kinds_are_not_the_same(one: str, other: str) -> None:
    assert not same(one, other)
