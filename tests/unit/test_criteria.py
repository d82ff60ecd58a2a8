"""Criteria, sentence by sentence of PROTOCOL.md §4."""

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.criteria import Criteria, CriteriaRefused, Json
from leaseway_server.core.jsontext import equal

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 0.5, -0.0]) | st.sampled_from("abé")
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
ITEM: Json = {
    "format": "jpg",
    "width": 640,
    "ratio": 1.5,
    "grey": True,
    "note": None,
    "tags": ["a", 1, None, {"x": 1}],
    "owner": {"team": "maps", "lead": {"name": "Ada"}},
    "empty": {},
}


def matches(criteria: Json, item: Json = ITEM) -> bool:
    return Criteria.parse(criteria).matches(item)


@pytest.mark.protocol("4.52")
@pytest.mark.parametrize("item", [ITEM, {}, [], [1], "text", 1, 0.5, True, None])
@pytest.mark.parametrize("criteria", [None, {}])
def test_no_criteria_match_any_item_an_item_that_is_no_object_too(criteria: Json, item: Json) -> None:
    assert matches(criteria, item)
    assert Criteria.parse(criteria).matches_everything
    assert Criteria.parse(criteria) == Criteria.parse(None)


@pytest.mark.protocol("4.42")
@pytest.mark.parametrize(
    "criteria",
    [
        {"format": "jpg"},
        {"format": "jpg", "width": 640},
        {"owner": {"team": "maps"}},
        {"owner": {"lead": {"name": "Ada"}}},
        {"owner": {"lead": {}}},
        {"empty": {}},
    ],
)
def test_an_object_asks_for_the_same_members_at_any_depth(criteria: Json) -> None:
    assert matches(criteria)
    assert not Criteria.parse(criteria).matches_everything


@pytest.mark.protocol("4.42")
@pytest.mark.parametrize(
    "criteria",
    [
        {"format": "png"},
        {"format": "jpg", "width": 641},
        {"owner": {"team": "maps", "size": 3}},
        {"owner": {"lead": {"name": "Bob"}}},
        {"owner": "maps"},
        {"format": {"a": 1}},
        {"tags": {"a": 1}},
    ],
)
def test_an_object_does_not_match_other_members(criteria: Json) -> None:
    assert not matches(criteria)


@pytest.mark.parametrize("item", [[], ["format"], "format", 1, None])
def test_an_object_of_members_matches_only_objects(item: Json) -> None:
    assert not matches({"format": "jpg"}, item)
    assert not matches({"format": {"$exists": False}}, item)


@pytest.mark.protocol("4.43", "4.44")
@given(SCALARS, VALUES)
def test_a_scalar_asks_for_an_equal_value_of_the_same_type(scalar: Json, value: Json) -> None:
    assert matches({"a": scalar}, {"a": value}) == equal(scalar, value)


@pytest.mark.protocol("4.43")
@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        (1, 1.0, True),
        (1.0, 1, True),
        (1, "1", False),
        (1, True, False),
        (True, 1, False),
        (False, 0, False),
        (None, None, True),
        (None, 0, False),
        (None, False, False),
        (None, "", False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_one_is_one_point_zero_and_neither_a_text_nor_true(asked: Json, value: Json, expected: bool) -> None:
    assert matches({"a": asked}, {"a": value}) == expected


@pytest.mark.protocol("4.45")
@given(st.lists(VALUES, max_size=4), VALUES)
def test_an_array_asks_for_one_of_its_values(values: list[Json], value: Json) -> None:
    expected = any(equal(value, one) for one in values)
    assert matches({"a": values}, {"a": value}) == expected
    assert matches({"a": {"$in": values}}, {"a": value}) == expected


def test_the_values_of_an_array_are_compared_whole() -> None:
    assert matches({"a": [{"x": 1}, [2, 3]]}, {"a": {"x": 1.0}})
    assert matches({"a": [{"x": 1}, [2, 3]]}, {"a": [2, 3]})
    assert not matches({"a": [{"x": 1}]}, {"a": {"x": 1, "y": 2}})
    assert not matches({"a": [1, 2]}, {"a": [1, 2]})
    assert not matches({"a": []}, {"a": []})


ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
}


@pytest.mark.protocol("4.46")
@given(
    st.sampled_from(sorted(ORDERS)),
    st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False),
)
def test_numbers_compare_exactly(operator: str, operand: float, value: float) -> None:
    assert matches({"a": {operator: operand}}, {"a": value}) == ORDERS[operator](value, operand)


def test_an_integer_that_no_float_can_hold_is_compared_exactly() -> None:
    assert matches({"a": {"$gt": float(2**53)}}, {"a": 2**53 + 1})
    assert not matches({"a": {"$lte": float(2**53)}}, {"a": 2**53 + 1})


@pytest.mark.protocol("4.48")
@given(st.sampled_from(sorted(ORDERS)), st.text(max_size=3), st.text(max_size=3))
def test_strings_compare_by_code_point(operator: str, operand: str, value: str) -> None:
    points = [ord(character) for character in value], [ord(character) for character in operand]
    assert matches({"a": {operator: operand}}, {"a": value}) == ORDERS[operator](*points)


@pytest.mark.protocol("4.48")
def test_code_points_are_not_utf_16_units() -> None:
    assert matches({"a": {"$lt": "\U0001f600"}}, {"a": "\uffee"})


@pytest.mark.protocol("4.47")
@pytest.mark.parametrize("operator", sorted(ORDERS))
@pytest.mark.parametrize("value", [True, False, None, [], [1], {}, "5"])
def test_ordering_never_crosses_types(operator: str, value: Json) -> None:
    assert not matches({"a": {operator: 1}}, {"a": value})
    assert not matches({"a": {operator: 0.5}}, {"a": value})


@pytest.mark.parametrize("operator", sorted(ORDERS))
@pytest.mark.parametrize("value", [1, 0.5, True, None, ["b"], {"b": 1}])
def test_ordering_of_texts_never_crosses_types(operator: str, value: Json) -> None:
    assert not matches({"a": {operator: "b"}}, {"a": value})


@pytest.mark.protocol("4.47")
@given(VALUES, VALUES)
def test_ne_is_true_of_any_existing_member_that_is_not_equal(operand: Json, value: Json) -> None:
    assert matches({"a": {"$ne": operand}}, {"a": value}) != equal(operand, value)
    assert not matches({"a": {"$ne": operand}}, {})


@pytest.mark.protocol("4.46")
@given(VALUES, VALUES)
def test_has_asks_that_the_items_array_contains_the_value(operand: Json, value: Json) -> None:
    expected = isinstance(value, list) and any(equal(operand, member) for member in value)
    assert matches({"a": {"$has": operand}}, {"a": value}) == expected


def test_has_examples() -> None:
    assert matches({"tags": {"$has": "a"}})
    assert matches({"tags": {"$has": 1.0}})
    assert matches({"tags": {"$has": None}})
    assert matches({"tags": {"$has": {"x": 1}}})
    assert not matches({"tags": {"$has": True}})
    assert not matches({"format": {"$has": "j"}})


@pytest.mark.protocol("4.50")
@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, "x"])
def test_a_member_that_is_null_exists(value: Json) -> None:
    assert matches({"a": {"$exists": True}}, {"a": value})
    assert not matches({"a": {"$exists": False}}, {"a": value})


@pytest.mark.protocol("4.50")
@pytest.mark.parametrize(
    "criterion",
    [
        None,
        1,
        "x",
        [],
        [None],
        {},
        {"$exists": True},
        {"$exists": False, "$ne": 1},
        {"$ne": 1},
        {"$lt": 1},
        {"$in": [None]},
        {"$has": 1},
        {"b": {"$exists": False}},
    ],
)
def test_a_missing_member_does_not_match(criterion: Json) -> None:
    assert not matches({"a": criterion}, {"x": 1})


@pytest.mark.protocol("4.50")
def test_a_missing_member_matches_only_exists_false() -> None:
    assert matches({"a": {"$exists": False}}, {"x": 1})
    assert matches({"owner": {"a": {"$exists": False}}})
    assert not matches({"none": {"a": {"$exists": False}}})


@pytest.mark.protocol("4.49")
def test_an_empty_object_as_a_members_criterion_asks_for_any_object() -> None:
    assert matches({"a": {}}, {"a": {}})
    assert matches({"a": {}}, {"a": {"x": 1}})
    others: list[Json] = [None, [], "", 0, False]
    assert not any(matches({"a": {}}, {"a": other}) for other in others)


@pytest.mark.protocol("4.46")
def test_all_comparisons_must_hold() -> None:
    assert matches({"width": {"$gte": 640, "$lt": 641, "$ne": 640.5}})
    assert not matches({"width": {"$gte": 640, "$lt": 640}})


def test_operators_at_the_top_compare_the_item_itself() -> None:
    assert matches({"$gte": 5}, 5)
    assert matches({"$has": "a"}, ["a"])
    assert not matches({"$lt": 5}, {})


@pytest.mark.protocol("4.53")
def test_the_protocols_example() -> None:
    criteria: Json = {"format": ["jpg", "png"], "vramGb": {"$lte": 24}}
    assert matches(criteria, {"format": "png", "vramGb": 24, "more": 1})
    assert not matches(criteria, {"format": "gif", "vramGb": 24})
    assert not matches(criteria, {"format": "png"})


@pytest.mark.protocol("4.51")
@pytest.mark.parametrize(
    ("criteria", "path", "message"),
    [
        ({"a": {"$lt": 1, "b": 2}}, "/a", "cannot stand beside members"),
        ({"a": {"b": 2, "$lt": 1}}, "/a", "cannot stand beside members"),
        ({"a": {"x/y~z": {"$near": 1}}}, "/a/x~1y~0z/$near", r"\$near is no operator; there are \$lt"),
        ({"$where": 1}, "/$where", "is no operator"),
        ({"$": 1}, "/$", "is no operator"),
        ({"a": {"$lt": None}}, "/a/$lt", "takes a number or a string"),
        ({"a": {"$lte": True}}, "/a/$lte", "takes a number or a string"),
        ({"a": {"$gt": [1]}}, "/a/$gt", "takes a number or a string"),
        ({"a": {"$gte": {}}}, "/a/$gte", "takes a number or a string"),
        ({"a": {"$in": "x"}}, "/a/$in", "takes an array"),
        ({"a": {"$exists": 1}}, "/a/$exists", "takes true or false"),
        ({"a": {"$exists": None}}, "/a/$exists", "takes true or false"),
        ({"a": ["x", {"$lt": 3}]}, "/a/1", "no operators in it"),
        ([], "", "must be an object"),
        ("jpg", "", "must be an object"),
        (1, "", "must be an object"),
        (False, "", "must be an object"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_path(criteria: Json, path: str, message: str) -> None:
    with pytest.raises(CriteriaRefused, match=message) as refused:
        Criteria.parse(criteria)
    assert refused.value.path == path
    assert len(str(refused.value)) <= 200


def test_an_unknown_operator_with_a_long_name_is_told_in_short() -> None:
    with pytest.raises(CriteriaRefused) as refused:
        Criteria.parse({"$" + "x" * 100_000: 1})
    assert len(str(refused.value)) <= 200
    assert len(refused.value.path) <= 1_000


@pytest.mark.protocol("4.83")
def test_a_thousand_members_are_taken_and_one_more_is_not() -> None:
    Criteria.parse({f"m{index}": index for index in range(1_000)})
    Criteria.parse({"a": list(range(999))})
    with pytest.raises(CriteriaRefused, match="1,000 members and values in all"):
        Criteria.parse({f"m{index}": index for index in range(1_001)})
    with pytest.raises(CriteriaRefused, match="1,000 members and values in all"):
        Criteria.parse({"a": list(range(1_000))})


@pytest.mark.protocol("4.83")
def test_sixteen_thousand_characters_are_taken_and_one_more_is_not() -> None:
    texts: list[Json] = [{"a": "x" * 16_383}, {"x" * 16_383: "a"}, {"a": ["x" * 8_000, {"b": "x" * 8_382}]}]
    for criteria in texts:
        assert Criteria.parse(criteria).characters == 16_384
        with pytest.raises(CriteriaRefused, match="16,384 characters"):
            Criteria.parse({"also": criteria})


def chain(levels: int) -> Json:
    criteria: Json = {}
    for _ in range(levels - 1):
        criteria = {"a": criteria}
    return criteria


@pytest.mark.protocol("4.83")
def test_sixteen_levels_are_taken_and_one_more_is_not() -> None:
    assert matches(chain(16), chain(16))
    assert not matches(chain(16), chain(15))
    with pytest.raises(CriteriaRefused, match="16 levels"):
        Criteria.parse(chain(17))
    with pytest.raises(CriteriaRefused, match="16 levels"):
        Criteria.parse(chain(900))


def test_ten_thousand_members_are_refused_without_looking_at_each() -> None:
    criteria: Json = {f"m{index}": {"a": [index]} for index in range(10_000)}
    start = process_time()
    for _ in range(100):
        with pytest.raises(CriteriaRefused):
            Criteria.parse(criteria)
    assert process_time() - start < 1


def test_an_item_of_sixty_four_levels_is_matched() -> None:
    deep = chain(63)
    assert matches(chain(16), deep)
    assert matches({"x": {"$ne": chain(13)}}, {"x": deep})
    assert not matches({"x": {"$in": [chain(13)]}}, {"x": deep})
    assert not matches({"x": {"$has": chain(13)}}, {"x": [deep]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, {}),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}),
        ({"a": ["x", "y", 1]}, {"a": [1.0, "y", "x", "x"]}),
        ({"a": {"$gt": 1, "$lt": 5}}, {"a": {"$lt": 5, "$gt": 1}}),
        ({"a": {"$in": [1, {"x": 1, "y": 2}]}}, {"a": {"$in": [{"y": 2, "x": 1}, 1]}}),
        ({"a": {"b": {"c": [1, 2]}}}, {"a": {"b": {"c": [2, 1]}}}),
    ],
)
def test_criteria_that_ask_for_the_same_have_one_shape(one: Json, other: Json) -> None:
    assert Criteria.parse(one).shape == Criteria.parse(other).shape
    assert len({Criteria.parse(one), Criteria.parse(other)}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"a": {}}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {"a": {"$exists": False}}),
        ({"a": {}}, {"a": {"b": {}}}),
        ({"a": [[1, 2]]}, {"a": [[2, 1]]}),
        ({"a": [0]}, {"a": [False]}),
        ({"a": {"$lt": 1}}, {"a": {"$lte": 1}}),
        ({"a": {"$ne": 1}}, {"a": 1}),
        ({"a": {"$has": {"x": 1}}}, {"a": {"$has": [["x", 1]]}}),
        ({"a": []}, {"a": {}}),
    ],
)
def test_criteria_that_ask_for_something_else_have_another_shape(one: Json, other: Json) -> None:
    assert Criteria.parse(one).shape != Criteria.parse(other).shape
    assert Criteria.parse(one) != Criteria.parse(other)


CRITERIA = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        SCALARS | st.lists(SCALARS, max_size=3) | st.builds(lambda value: {"$ne": value}, SCALARS),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


@given(CRITERIA, CRITERIA, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_equal_shapes_match_the_same_items(one: dict[str, Json], other: dict[str, Json], item: dict[str, Json]) -> None:
    first, second = Criteria.parse(one), Criteria.parse(other)
    assert Criteria.parse(dict(reversed(one.items()))) == first
    if first == second:
        assert first.matches(item) == second.matches(item)


@given(CRITERIA, VALUES)
def test_criteria_are_no_other_thing(criteria: dict[str, Json], value: Json) -> None:
    assert Criteria.parse(criteria) != value
