"""The matching of expectations, as schemas/README.md tells it: what a transcript's player could get wrong."""

from typing import Any

import pytest

from support.matching import Names


def names(**values: Any) -> Names:
    return Names(values)


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
        ({"a": {"$absent": True}}, {"b": 1}),
        ({"a": {"$any": "time"}}, {"a": 0}),
        ({"a": {"$any": "object"}}, {"a": {}}),
        ({"a": [{"b": {"$any": "text"}}]}, {"a": [{"b": "x"}]}),
        ({"a": {"$same": "ten"}}, {"a": 10}),
        ({"a": {"$above": "ten"}}, {"a": 11}),
        ({"$any": "list"}, [1]),
        (None, None),
    ],
)
def test_meets(wanted: Any, got: Any) -> None:
    names(ten=10).match(wanted, got)


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ({"a": 1}, {}),
        ({"a": None}, {}),
        ({"a": 1}, {"a": True}),
        ({"a": True}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": {"$absent": True}}, {"a": None}),
        ({"a": {"$any": "time"}}, {"a": -1}),
        ({"a": {"$any": "number"}}, {"a": True}),
        ({"a": {"$any": "text"}}, {"a": None}),
        ({"a": {"$any": "text"}}, {}),
        ({"a": {"$capture": "x"}}, {}),
        ({"a": {"$same": "ten"}}, {"a": 11}),
        ({"a": {"$above": "ten"}}, {"a": 10}),
        ({"a": {"$above": "ten", "$any": "text"}}, {"a": 11}),
        ({"a": 1}, [1]),
        (None, {}),
    ],
)
def test_does_not_meet(wanted: Any, got: Any) -> None:
    with pytest.raises(AssertionError, match="as told"):
        names(ten=10).match(wanted, got)


def test_captures_are_said_again() -> None:
    known = names()
    known.match({"id": {"$capture": "job"}, "rev": {"$capture": "rev"}}, {"id": "9f2c", "rev": 3})
    known.match({"rev": {"$above": "rev", "$capture": "rev"}}, {"rev": 4})
    assert known.fill({"batch": [{"id": {"$same": "job"}, "n": {"$same": "rev"}}]}) == {
        "batch": [{"id": "9f2c", "n": 4}]
    }
    assert known.write("/items/{job}/cancel") == "/items/9f2c/cancel"


def test_what_did_not_match_is_not_captured() -> None:
    known = names(job="old")
    with pytest.raises(AssertionError):
        known.match({"id": {"$any": "text", "$capture": "job"}}, {"id": 7})
    assert known.fill({"$same": "job"}) == "old"


def test_other_dollar_members_are_data() -> None:
    criteria = {"claim": {"criteria": {"vram": {"$lte": 24}}}}
    assert names().fill(criteria) == criteria
    names().match({"a": {"$lte": 24}}, {"a": {"$lte": 24}})
