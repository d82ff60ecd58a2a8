"""What an array contains, as `equal` says and without comparing its members one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core import criteria as criteria_module
from leaseway_server.core.contains import container_test
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.jsontext import Json, equal

# True is 1 to Python, and false is 0: most of what is compared here differs by no more.
LEAVES = st.sampled_from([True, False, 0, 1, 0.0, 1.0, -0.0, 2, None, "1", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def variants(value: Json) -> st.SearchStrategy[Json]:
    """Values that Python finds equal to this one."""
    if isinstance(value, list):
        return st.tuples(*map(variants, value)).map(list)
    if isinstance(value, dict):
        return st.fixed_dictionaries({name: variants(member) for name, member in value.items()})
    return st.sampled_from([each for each in (True, False, 0, 1, 0.0, 1.0, value) if each == value])


@given(st.data())
def test_it_is_what_equal_says(data: st.DataObject) -> None:
    value = data.draw(VALUES)
    values: list[Json] = data.draw(st.lists(VALUES | variants(value), max_size=6))
    assert container_test(value)(values) == any(equal(each, value) for each in values)


@pytest.mark.parametrize(
    ("asked", "others"),
    [(2, 1), (1, True), (True, 1), (0.0, False), ("a", "b"), ([1], [True]), ({"a": [0]}, {"a": [False]}), ([], {})],
)
def test_no_members_of_a_large_array_are_compared_one_by_one(
    asked: Json, others: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(criteria_module, "equal", lambda _one, _other: pytest.fail("it compares one by one"))
    criteria, large = Criteria.parse({"a": {"$has": asked}}), [others] * 100_000
    assert not criteria.matches({"a": large})
    assert criteria.matches({"a": [*large, asked]})


@pytest.mark.parametrize(
    ("asked", "scans"),
    [
        (None, False),
        ({"a": 1, "b": [1, 2], "c": {"$in": [1], "$lt": 4}}, False),
        ({"a": {"$has": 1}}, True),
        ({"a": {"b": {"c": {"$ne": 1, "$has": None}}}}, True),
    ],
)
def test_only_what_scans_takes_longer_for_large_items(asked: Json, scans: bool) -> None:
    criteria = Criteria.parse(asked)
    assert (criteria.effort(1_000_000) > criteria.effort(10)) == scans
    assert criteria.effort(0) >= 1


def test_large_criteria_take_longer() -> None:
    assert Criteria.parse({"a": list(range(900))}).effort(0) > 50 * Criteria.parse({"a": 1}).effort(0)
