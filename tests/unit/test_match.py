"""The members that `match` names: the texts of items, what criteria pin them to, and that no match is missed."""

import math
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.criteria import Criteria
from leaseway_server.core.jsontext import Json, equal, parse, write
from leaseway_server.core.match import LONGEST_TEXT, MOST_TEXTS, Narrowing, narrow, texts_of

MATCH: Final = ("format", "size.width")

SCALARS: Final[list[Json]] = [
    *(None, True, False, 0, 1, -1, "", "1", "true", "null", "#", '"', "-1", "0.5", "1e+300"),
    *(0.0, -0.0, 1.0, 0.5, -0.5, 1e300, 5e-324, 1.7976931348623157e308, 2.0**63, 2.0**53),
    *(2**53, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 1, -(2**63), 10**18),
    *("a" * LONGEST_TEXT, "a" * (LONGEST_TEXT + 1), "a" * (LONGEST_TEXT + 2), "ä\u0000", "ä"),
]


def text(value: Json) -> str:
    (found,) = texts_of({"a": value}, ("a",))
    return found


@pytest.mark.parametrize("one", SCALARS, ids=repr)
def test_texts_are_equal_where_the_values_are(one: Json) -> None:
    for other in SCALARS:
        assert (text(one) == text(other)) == equal(one, other), (one, other)


numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8"), max_size=70)


@given(scalars, scalars)
def test_any_two_values_have_the_same_text_where_they_are_equal(one: Json, other: Json) -> None:
    assert (text(one) == text(other)) == equal(one, other)
    if isinstance(one, int) and not isinstance(one, bool):
        near = float(one)
        for neighbour in (near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)):
            assert (text(one) == text(neighbour)) == equal(one, neighbour)


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_a_text_is_short_and_of_something(value: Json) -> None:
    assert 0 < len(text(value)) <= 400


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        ({"format": "jpg", "size": {"width": 64}}, ('"jpg', "64")),
        ({"format": ["jpg"], "size": {"width": {}}}, ("", "")),
        ({"format": None, "size": {}}, ("null", "")),
        ({"size": 64}, ("", "")),
        ({"size": [{"width": 1}], "size.width": 2}, ("", "")),
        ({}, ("", "")),
        (["format"], ("", "")),
        ("format", ("", "")),
        (None, ("", "")),
    ],
)
def test_the_texts_of_an_item(item: Json, texts: tuple[str, ...]) -> None:
    assert texts_of(item, MATCH) == texts


def test_an_item_of_a_queue_without_members_has_no_texts() -> None:
    assert texts_of({"format": "jpg"}, ()) == ()


@pytest.mark.parametrize(
    ("criteria", "narrowing"),
    [
        ({"format": "jpg"}, (1, ('"jpg',))),
        ({"format": ["png", "jpg", "jpg", 1.0, 1, None, True]}, (1, ('"jpg', '"png', "1", "null", "true"))),
        ({"format": {"$in": ["jpg", 2]}}, (1, ('"jpg', "2"))),
        ({"format": {"$in": ["jpg"], "$ne": "png"}}, (1, ('"jpg',))),
        ({"format": {"$in": []}}, (1, ())),
        ({"format": []}, (1, ())),
        ({"format": None}, (1, ("null",))),
        ({"size": {"width": 64}}, (2, ("64",))),
        ({"format": ["jpg", "png"], "size": {"width": 64, "height": 3}}, (2, ("64",))),
        ({"format": "jpg", "size": {"width": 64}}, (1, ('"jpg',))),
        ({"format": [str(n) for n in range(MOST_TEXTS)]}, (1, tuple(sorted(f'"{n}' for n in range(MOST_TEXTS))))),
        ({"format": list(range(MOST_TEXTS + 1))}, None),
        ({"format": list(range(MOST_TEXTS + 1)), "size": {"width": [1, 2]}}, (2, ("1", "2"))),
        ({"format": ["jpg", {}]}, None),
        ({"format": ["jpg", []]}, None),
        ({"format": {}}, None),
        ({"format": {"name": "jpg"}}, None),
        ({"format": {"$ne": "jpg"}}, None),
        ({"format": {"$gte": "jpg", "$lte": "jpg"}}, None),
        ({"format": {"$exists": False}}, None),
        ({"format": {"$has": "jpg"}}, None),
        ({"size": {"$exists": True}}, None),
        ({"size": [{"width": 64}]}, None),
        ({"size": 64}, None),
        ({"size.width": 64}, None),
        ({"colour": "red"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_criteria_pin_a_member_to(criteria: Json, narrowing: Any) -> None:
    assert narrow(Criteria.parse(criteria), MATCH) == (Narrowing(*narrowing) if narrowing else None)


def test_without_members_nothing_is_narrowed() -> None:
    assert narrow(Criteria.parse({"format": "jpg"}), ()) is None


VALUES: Final[list[Json]] = [*SCALARS[:8], [], ["1"], {}, {"b": 1}]
ASKED: Final[list[Json]] = [*SCALARS[:8], [], [1, "1"], [None, True], [{}], {"$in": [1]}, {"$in": []}, {"$ne": 1}, {}]
members = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(VALUES))
items = members | st.dictionaries(st.just("c"), members)
criteria_of = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(ASKED), min_size=1)


@given(items, criteria_of | st.dictionaries(st.just("c"), criteria_of, min_size=1))
def test_nothing_that_matches_is_left_out(item: Any, criteria: Any) -> None:
    match = ("a", "b", "c.a", "c.b")
    parsed = Criteria.parse(criteria)
    narrowing = narrow(parsed, match)
    if narrowing and parsed.matches(item):
        assert texts_of(item, match)[narrowing.column - 1] in narrowing.texts


@given(scalars)
def test_a_value_keeps_its_text_on_its_way_through_a_store(value: Json) -> None:
    assert text(parse(write(value))) == text(value)


# ── Why an item does not match ──


@pytest.mark.parametrize(
    ("criteria", "item", "path", "asked"),
    [
        ({"format": "jpg"}, {"format": "png"}, "/format", "jpg"),
        ({"format": "jpg"}, {}, "/format", "jpg"),
        ({"format": "jpg", "width": {"$lte": 9}}, {"format": "jpg", "width": 10}, "/width", {"$lte": 9}),
        ({"size": {"width": [1, 2]}}, {"size": {"width": 3}}, "/size/width", [1, 2]),
        ({"size": {"width": 1}}, {"size": 3}, "/size", {"width": 1}),
        ({"size": {"width": 1}}, {"size": {}}, "/size/width", 1),
        ({"size": {"width": {"$exists": False}, "height": 2}}, {"size": {"height": 1}}, "/size/height", 2),
        ({"a/b~": 1}, {"a/b~": 2}, "/a~1b~0", 1),
        ({"a": {}}, {"a": 1}, "/a", {}),
        ({"a": {}}, [1], "", {"a": {}}),
        ({"a": [{"b": 1}]}, {"a": {"b": 2}}, "/a", [{"b": 1}]),
    ],
)
def test_the_first_criterion_that_fails_is_told(criteria: Json, item: Json, path: str, asked: Json) -> None:
    assert Criteria.parse(criteria).explain(item) == (path, asked)


def test_where_all_is_met_there_is_nothing_to_explain() -> None:
    assert Criteria.parse({"a": 1}).explain({"a": 1.0}) is None
    assert Criteria.parse(None).explain([]) is None
    assert Criteria.parse({}).asked == {}
