"""The schema check against another library, jsonschema, over generated schemas and documents.

Where the two disagree, the case is in `DISAGREEMENTS` with its reason; nothing else is left out in silence.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from leaseway_server.core.jsontext import Json
from leaseway_server.core.schema import Schema, SchemaRefused
from leaseway_server.core.schema_format import ASSERTED
from support.formats import CHECKER

NAMES = st.sampled_from(["a", "b", "ab", "c"])
NUMBERS = st.integers(-2, 5) | st.sampled_from([0.5, 1.0, -0.0, 2.5, 2**53 + 1, 2.0**53, 2**64 - 1, -(2**63), 1e300])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b1", "é", "\U0001f600", "\U0001f600\U0001f600a", "a\u0000"])
FORMATTED = st.sampled_from(["2026-11-30", "12:00:00Z", "P1D", "a@b", "a:b", "::1", "/a"])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | FORMATTED
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
PATTERNS = st.sampled_from(["^a", "b$", "^[a-c]+$", "[0-9]", "^.$", "^(a|b)+$", "^.{2,3}$", "c[ab]{13}c"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
COUNTS = st.integers(0, 3)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A schema of a few keywords, or true or false."""
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    each: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 2.0]),
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "pattern": PATTERNS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "uniqueItems": st.booleans(),
        "prefixItems": several,
        "items": inner,
        "contains": inner,
        "minContains": COUNTS,
        "maxContains": COUNTS,
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "required": st.lists(NAMES, max_size=3, unique=True),
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "."]), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedItems": inner,
        "unevaluatedProperties": inner,
        "$ref": st.sampled_from(["#", "#/$defs/one", "#/$defs/two", "#named"]),
        "format": st.sampled_from(sorted(ASSERTED)),
    }
    parts = st.lists(
        st.sampled_from(sorted(each)).flatmap(lambda name: st.tuples(st.just(name), each[name])),
        min_size=1,
        max_size=4,
    )
    return st.booleans() | parts.map(dict)


SCHEMAS = st.builds(
    lambda root, one, two, three: {
        **root,
        "$defs": {"one": one, "two": two, "three": {"$anchor": "named", **three}},
    },
    *[
        st.recursive(keywords(st.booleans()), keywords, max_leaves=leaves).filter(lambda one: isinstance(one, dict))
        for leaves in (6, 3, 3, 2)
    ],
)


def resolves(value: Any, pointer: str) -> bool:
    """Whether a pointer leads to something within a value."""
    for step in pointer.split("/")[1:]:
        if isinstance(value, list) and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return False
    return True


def oracle_of(schema: Any) -> Draft202012Validator:
    """The other library, which asserts formats by the grammars of their standards."""
    return Draft202012Validator(schema, format_checker=CHECKER)


@pytest.mark.protocol("8.1")
@pytest.mark.timeout(120)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, st.lists(VALUES, min_size=6, max_size=12))
def test_both_libraries_give_the_same_verdict(schema: dict[str, Any], values: list[Json]) -> None:
    try:
        compiled = Schema.compile(schema)
    except SchemaRefused as refused:
        assert "leads back to itself" in str(refused) or "unfolds to more" in str(refused)  # noqa: PT017
        assume(False)
    oracle = oracle_of(schema)
    for value in values:
        problems = compiled.check(value)
        assert (not problems) == oracle.is_valid(value), (schema, value)
        assert all(resolves(value, problem.path) for problem in problems), (schema, value, problems)


AGREED: list[tuple[Any, list[Json], list[Json]]] = [
    # (schema, valid, invalid)
    (True, [None, 1, []], []),
    (False, [], [None, 1, []]),
    ({"type": "integer"}, [1, 1.0, -0.0, 1e300, 2**64 - 1], [1.5, True, "1", None]),
    ({"type": "number"}, [1, 0.5], [True, "1"]),
    ({"type": "boolean"}, [True, False], [0, 1, None]),
    ({"const": 1}, [1, 1.0], [True, "1", [1]]),
    ({"const": True}, [True], [1, 1.0]),
    ({"const": 0}, [0, 0.0, -0.0], [False, None]),
    ({"const": [True]}, [[True]], [[1], True]),
    ({"const": {"a": 0}}, [{"a": 0.0}], [{"a": False}, {}]),
    ({"const": 2**53 + 1}, [2**53 + 1], [2.0**53, 2**53]),
    ({"enum": [0, "a", None]}, [0.0, "a", None], [False, "b", []]),
    ({"enum": [False]}, [False], [0]),
    ({"enum": [1.0, 2]}, [1, 2.0], [True]),
    ({"minimum": 2**53}, [2**53, 2.0**53, 2**64 - 1], [2**53 - 1]),
    ({"exclusiveMaximum": 2.0**53}, [2**53 - 1], [2**53, 2**53 + 1]),
    ({"multipleOf": 3}, [9, 9.0, 0, -3, "x"], [10, 9.5, 1]),
    ({"multipleOf": 0.5}, [1, 1.5, -0.0], [0.25]),
    ({"minLength": 2}, ["ab", "\U0001f600\U0001f600", 5], ["a", "\U0001f600"]),
    ({"maxLength": 1}, ["", "\U0001f600"], ["e\u0301", "ab"]),
    ({"pattern": "b"}, ["abc", 5], ["ac"]),
    ({"pattern": "^\\w+$"}, ["ab_1"], ["a b", ""]),
    (
        {"uniqueItems": True},
        [[1, True], [0, False], [{"a": 1}, {"a": True}], [[0], [False]], ["1", 1]],
        [[1, 1.0], [[1], [1.0]]],
    ),
    ({"uniqueItems": True}, [[2**53 + 1, 2.0**53]], [[{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], [None, 0, None]]),
    ({"uniqueItems": False}, [[1, 1]], []),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [2]], []),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1.0]], [[1], [1] * 4, [1, True]]),
    ({"minContains": 3}, [[]], []),
    ({"prefixItems": [{"type": "null"}], "items": False}, [[], [None], {}], [[1], [None, None]]),
    ({"required": ["a"]}, [{"a": None}, [], "a"], [{}]),
    ({"properties": {"a": False}}, [{}, {"b": 1}], [{"a": None}]),
    ({"additionalProperties": {"type": "null"}, "properties": {"a": True}}, [{"a": 1, "b": None}], [{"b": 1}]),
    ({"patternProperties": {"^x": False}}, [{"ax": 1}], [{"xa": 1}]),
    ({"propertyNames": {"pattern": "^a"}}, [{"a": 1}, {}], [{"b": 1}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {"b": 1, "c": 1}], [{"a": 1, "b": 1}]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [3, 1.5]),
    ({"not": {"not": {"type": "null"}}}, [None], [1]),
    ({"if": {"const": 1}, "then": False}, [2, True], [1, 1.0]),
    ({"then": False, "else": False}, [1], []),
    (
        {"unevaluatedProperties": False, "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": True}}]},
        [{"a": 1}, {"b": 2}],
        [{"c": 1}, {"a": 2}],
    ),
    ({"unevaluatedItems": False, "contains": {"const": 1}}, [[1, 1]], [[1, 2]]),
    (
        {"$defs": {"t": {"properties": {"l": {"$ref": "#/$defs/t"}}, "type": "object"}}, "$ref": "#/$defs/t"},
        [{"l": {"l": {}}}],
        [{"l": {"l": 1}}],
    ),
    ({"format": "email"}, ["a@b", 1, None], ["no mail", ""]),
    ({"not": {"format": "email"}}, ["no mail"], ["a@b", 1]),
    ({"contentMediaType": "application/json", "contentEncoding": "base64"}, ["{"], []),
    ({"$comment": "x", "x-more": {"type": "null"}, "default": 1}, [1], []),
]


@pytest.mark.protocol("8.1")
@pytest.mark.parametrize(("schema", "valid", "invalid"), AGREED)
def test_both_libraries_agree_on_the_cases_that_matter(schema: Any, valid: list[Json], invalid: list[Json]) -> None:
    compiled, oracle = Schema.compile(schema), oracle_of(schema)
    assert [value for value in valid if compiled.check(value)] == []
    assert [value for value in invalid if not compiled.check(value)] == []
    assert [oracle.is_valid(value) for value in [*valid, *invalid]] == [True] * len(valid) + [False] * len(invalid)


DISAGREEMENTS: list[tuple[Any, Json, bool, str]] = [
    # (schema, value, our verdict, reason)
    ({"multipleOf": 0.1}, 0.3, True, "ours counts in decimals as people wrote them; jsonschema divides floats"),
    ({"multipleOf": 0.01}, 19.99, True, "the same: 19.99 is a price"),
    ({"multipleOf": 2.5}, 2.0**53, False, "the same: the float nearest to the quotient is whole"),
    ({"pattern": "^a$"}, "a\n", False, "`$` is the end in ECMA 262; Python's also stands before a last line feed"),
    ({"pattern": "^\\d$"}, "\u0663", False, "`\\d` is 0 to 9 in ECMA 262; Python's is any decimal digit"),
    ({"pattern": "^\\w$"}, "é", False, "`\\w` is ASCII in ECMA 262; Python's is any letter"),
    (
        {"pattern": "c[ab]{15}c"},
        "a" * 5_000 + "caaaaaaaaaaaaaaac",
        False,
        "ours tries no such pattern on more than 4,096",
    ),
    ({"format": "duration"}, f"P{'1' * 4_095}D", False, "the same of a format"),
    ({"format": "email"}, '"a\\ b"@c', False, "jsonschema-rs refuses an escaped blank, which RFC 5321 allows"),
    ({"format": "email"}, '"a <b"@c', False, "the same: it takes what stands before ` <` for the name of a person"),
    ({"format": "hostname"}, "xn--bcher-kva.example", True, "ours knows the labels of IDNA, which no grammar tells"),
]


@pytest.mark.parametrize(("schema", "value", "verdict", "_reason"), DISAGREEMENTS)
def test_where_the_libraries_disagree(schema: Any, value: Json, verdict: bool, _reason: str) -> None:
    assert (Schema.compile(schema).check(value) == ()) == verdict
    assert oracle_of(schema).is_valid(value) != verdict
