"""JSON is kept faithful or refused (PROTOCOL.md, head); equality as criteria and keys compare (§4, §5)."""

import json
import math
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaseway_server.core.jsontext import (
    HIGHEST_INTEGER,
    LONGEST_POINTER,
    LOWEST_INTEGER,
    Json,
    JsonRefused,
    check_depth,
    equal,
    parse,
    pointer,
    too_deep,
    write,
)

INTEGERS = st.integers(LOWEST_INTEGER, HIGHEST_INTEGER)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@given(VALUES)
def test_what_is_written_is_read_as_it_was(value: Json) -> None:
    assert repr(parse(write(value))) == repr(value)
    assert repr(parse(write(value).encode())) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        str(LOWEST_INTEGER),
        str(HIGHEST_INTEGER),
        "[9223372036854775808]",
        '{"a":-9223372036854775808,"b":[18446744073709551615]}',
    ],
)
def test_integers_within_bounds_are_kept(text: str) -> None:
    assert write(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "18446744073709551616",
        "-9223372036854775809",
        "[1, 18446744073709551616]",
        '{"a":99999999999999999999}',
        '{"\\"18446744073709551615":-18446744073709551616}',
        "1" * 300,
        '["' + "1" * 30 + '",\n' + "1" * 25 + "]",
    ],
)
def test_integers_out_of_bounds_are_refused(text: str) -> None:
    with pytest.raises(JsonRefused, match=r"an integer outside −2\^63 … 2\^64−1 cannot be kept exactly: -?[1-9]"):
        parse(text)


def test_a_long_integer_is_told_in_short() -> None:
    with pytest.raises(JsonRefused, match=r"exactly: -1{29}… \(300 digits\)$"):
        parse(b"-" + b"1" * 300)


@pytest.mark.parametrize(
    "text",
    [
        "0." + "1" * 400,
        "1." + "1" * 5_000,
        "1e-" + "0" * 30 + "1",
        "1E+" + "0" * 30 + "1",
        "1" * 25 + ".5",
        "1" * 25 + "e2",
        "-" + "1" * 25 + "E2",
        '"' + "1" * 5_000 + '"',
        '"\\"' + "1" * 25 + '"',
        '{"' + "1" * 25 + '":"\\\\"}',
    ],
)
def test_long_runs_of_digits_that_are_no_integers_are_kept(text: str) -> None:
    assert parse(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1e400", "a number too large to keep"),
        ('{"a": -1e400}', r"a number too large to keep.*\(line 1, column 7\)"),
        ("1" * 400, "a number too large to keep"),
        ("[" + "1" * 5_000 + "]", "an integer outside"),
        ("NaN", "not JSON: .*line 1, column 1"),
        ("[Infinity]", "not JSON"),
        ("[-Infinity]", "not JSON"),
        ('"\\ud800"', "half of a surrogate pair"),
        ('["\\udc00\\ud800"]', "half of a surrogate pair"),
        ('{"\\ud800": 1}', "half of a surrogate pair"),
        (b'"\xed\xa0\x80"', "surrogate"),
        ('"\ud800"', "surrogate"),
        (b'"\xff"', "UTF-8"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        ("\ufeff1", "byte order mark"),
        ("[" * 1_000_000, "more than 1,024 levels"),
        ('{"a":' * 200_000, "more than 1,024 levels"),
        ("", "an empty text"),
        (b"", "an empty text"),
        ("01", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("[1,]", "not JSON"),
        ("1 2", r"not JSON: .* \(line 1, column 3\)"),
        ('"a\tb"', "not JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(JsonRefused, match=reason) as refused:
        parse(text)
    assert len(str(refused.value)) <= 200


def test_of_two_equal_names_the_last_one_counts_and_one_is_written() -> None:
    assert write(parse('{"a":1,"b":2,"a":3}')) == '{"a":3,"b":2}'


def test_names_that_mean_something_to_others_are_data() -> None:
    text = '{"__proto__":{"a":1},"constructor":2,"\\u0000":3}'
    assert write(parse(text)) == text


def test_a_negative_zero_stays_one() -> None:
    assert math.copysign(1, float(str(parse("-0.0")))) == -1


@pytest.mark.parametrize("value", [parse(nested(300)), [2**64], "\ud800"])
def test_what_cannot_be_written_is_refused(value: Json) -> None:
    with pytest.raises(JsonRefused, match="cannot be written as JSON"):
        write(value)


@pytest.mark.parametrize("levels", [1, 2, 63, 64, 65, 66, 1_000])
def test_depth_is_counted_in_levels_of_arrays_and_objects(levels: int) -> None:
    array, members = parse(nested(levels)), parse('{"a":' * (levels - 1) + "{}" + "}" * (levels - 1))
    assert too_deep(array) == too_deep(members) == (levels > 64)


@pytest.mark.parametrize("levels", [2, 3, 16, 64])
def test_the_limit_is_the_last_depth_that_is_taken(levels: int) -> None:
    array = parse(nested(levels))
    assert not too_deep(array, levels)
    assert too_deep(array, levels - 1)


@pytest.mark.parametrize("value", [None, 1, "[[[[", [], [1, 2, 3], {"a": "{"}])
def test_scalars_and_flat_values_are_not_deep(value: Json) -> None:
    assert not too_deep(value, 1)


def test_a_value_with_too_many_levels_is_refused() -> None:
    check_depth(parse(nested(64)))
    with pytest.raises(JsonRefused, match="more than 64 levels of arrays and objects"):
        check_depth([1, parse(nested(64)), {}])


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1" * 300 + "." + "1" * 999_000 + "]",
        "[" + ",".join(["9223372036854775807"] * 50_000) + "]",
        '["' + "1" * 1_000_000 + '"]',
        "[" + '"\\\\\\"",' * 150_000 + "9223372036854775807]",
        "[" + "[]," * 300_000 + "9223372036854775807]",
    ],
)
def test_a_million_characters_take_no_longer_than_their_length_asks_for(text: str) -> None:
    """Some 0.05 s; what is not linear would take minutes."""
    start = process_time()
    check_depth(parse(text))
    assert process_time() - start < 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0, -0.0),
        (2**53, float(2**53)),
        ("é", "é"),
        (None, None),
        (True, True),
        ([1, [2.0]], [1.0, [2]]),
        ({"a": 1, "b": [None]}, {"b": [None], "a": 1.0}),
        ([], []),
        ({}, {}),
    ],
)
def test_equal(one: Json, other: Json) -> None:
    assert equal(one, other)
    assert equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (0, None),
        (False, None),
        ("", None),
        (2**53 + 1, float(2**53)),
        (2**64 - 1, float(2**64)),
        ("é", "e\u0301"),
        ([1], [True]),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ([], {}),
        ([], None),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"b": 1}),
        ({"a": None}, {}),
        ({"a": 1}, {"a": 1, "b": 2}),
    ],
)
def test_not_equal(one: Json, other: Json) -> None:
    assert not equal(one, other)
    assert not equal(other, one)


@given(VALUES)
def test_every_value_equals_what_is_read_of_it(value: Json) -> None:
    assert equal(value, parse(write(value)))


def test_pointers_are_escaped_and_end_where_they_get_too_long() -> None:
    assert pointer(()) == ""
    assert pointer(("a/b", 0, "m~n", "")) == "/a~1b/0/m~0n/"
    assert pointer(("a", "x" * LONGEST_POINTER, "b")) == "/a"
