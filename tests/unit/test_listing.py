"""Filters of lists: what they take, and what they refuse, each with the place of its fault."""

import pytest

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.listing import LABELS, MOST_VALUES, STATUSES, Filter, parse_filter


def test_each_member_is_a_text_or_an_array_of_texts() -> None:
    one = parse_filter({"status": "dead", "label": "retrying", "postedBy": "ann", "key": "k"})
    assert one == parse_filter({"status": ["dead"], "label": ["retrying"], "postedBy": ["ann"], "key": ["k"]})
    assert one == Filter(frozenset({"dead"}), frozenset({"retrying"}), frozenset({"ann"}), frozenset({"k"}))
    many = parse_filter({"status": ["dead", "failed", "dead"], "postedBy": ["", "ann"]})
    assert many == Filter(status=frozenset({"dead", "failed"}), posted_by=frozenset({"", "ann"}))
    assert parse_filter({}) == Filter()


@pytest.mark.protocol("5.92", "5.100")
@pytest.mark.parametrize("name", ["status", "label", "postedBy", "key"])
@pytest.mark.parametrize(
    "value", [None, 1, -1, True, {}, [], [None], [[]], ["x" * 201], "x" * 201, "a\nb", ["ok"] * (MOST_VALUES + 1)]
)
def test_a_wrong_value_is_refused_with_its_place(name: str, value: Json) -> None:
    with pytest.raises(BadMessage, match=name) as refused:
        parse_filter({name: value}, "/filter")
    assert refused.value.problems[0].path == f"/filter/{name}"


@pytest.mark.parametrize(("name", "value"), [("status", ""), ("status", "scheduled"), ("label", "lost"), ("key", "")])
def test_a_value_that_there_is_not_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadMessage, match=name) as refused:
        parse_filter({name: value})
    assert refused.value.problems[0].path == ""


@pytest.mark.protocol("5.98", "5.99")
@pytest.mark.parametrize("name", ["state", "Status", "posted_by", "", "status ", "x" * 5_000, "a/b"])
def test_an_unknown_member_is_refused_and_named(name: str) -> None:
    with pytest.raises(BadMessage, match="known are status, label, postedBy, key") as refused:
        parse_filter({"status": "dead", name: "x"}, "/filter")
    assert name[:40] in str(refused.value)
    assert refused.value.problems[0].path.startswith("/filter/")


@pytest.mark.parametrize(
    ("wanted", "statuses"),
    [
        (Filter(), STATUSES),
        (Filter(status=frozenset({"dead"})), {"dead"}),
        (Filter(label=frozenset({"scheduled", "retrying"})), {"pending"}),
        (Filter(status=frozenset({"dead", "pending"}), label=frozenset({"dead", "failed"})), {"dead"}),
        (Filter(status=frozenset({"dead"}), label=frozenset({"scheduled"})), set()),
    ],
)
def test_what_status_an_admitted_item_may_have(wanted: Filter, statuses: set[str]) -> None:
    assert wanted.statuses() == statuses


def test_each_status_is_a_label() -> None:
    assert set(LABELS) == STATUSES | {"scheduled", "retrying"}
