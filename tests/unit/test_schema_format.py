"""Formats: which are asserted and refused, and that those which are asserted mean what their standards say."""

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leaseway_server.core.jsontext import Json
from leaseway_server.core.schema import Schema, SchemaRefused
from leaseway_server.core.schema_format import ASSERTED, REFUSED
from leaseway_server.core.schema_pattern import LONGEST
from support.format_cases import CASES
from support.formats import has_format


@cache
def schema_of(name: str) -> Schema:
    """The schema that asks for a format and nothing else."""
    return Schema.compile({"format": name})


def meets(name: str, value: Json) -> bool:
    """Whether the server takes it for the format."""
    return schema_of(name).check(value) == ()


# Which there are


def test_each_format_of_the_draft_is_asserted_or_refused() -> None:
    draft = [
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer"),
        *("relative-json-pointer", "regex"),
    ]
    assert sorted([*ASSERTED, *REFUSED]) == sorted(draft)
    assert list(CASES) == list(ASSERTED)


@pytest.mark.protocol("8.3")
@pytest.mark.parametrize("name", REFUSED)
def test_a_format_that_is_not_asserted_is_refused_and_told_what_to_use(name: str) -> None:
    with pytest.raises(SchemaRefused, match=f"format {name} is not asserted: .+ Use ") as refused:
        Schema.compile({"$defs": {"a/b": {"items": {"format": name}}}})
    assert refused.value.pointer == "/$defs/a~1b/items/format"


@pytest.mark.protocol("8.3")
@pytest.mark.parametrize("name", ["phone", "Date", "datetime", "", "é" * 10_000])
def test_an_unknown_format_is_refused_and_told_which_are_known(name: str) -> None:
    with pytest.raises(
        SchemaRefused, match=rf"unknown format '{name[:39]}.*use pattern, or one of date-time, "
    ) as refused:
        Schema.compile(True, {"defs.json": {"format": name}})
    assert refused.value.pointer == "defs.json#/format"
    assert len(str(refused.value)) <= 300


def test_what_is_only_named_so_is_no_format() -> None:
    schema: Json = {"properties": {"format": {"enum": ["x", {"format": "phone"}]}}, "x-note": {"format": "phone"}}
    assert Schema.compile(schema).check({"format": "x"}) == ()


# What they say


@pytest.mark.protocol("8.7")
@pytest.mark.parametrize("name", ASSERTED)
def test_each_format_takes_what_its_standard_does(name: str) -> None:
    valid, invalid = CASES[name]
    assert [text for text in valid if not meets(name, text)] == []
    assert [text for text in invalid if meets(name, text)] == []


@pytest.mark.parametrize("name", ASSERTED)
def test_the_grammars_of_the_tests_take_the_same(name: str) -> None:
    valid, invalid = CASES[name]
    assert [text for text in valid if not has_format(name, text)] == []
    assert [text for text in invalid if has_format(name, text)] == []


MISREAD = re.compile(r'"[^\n]*( <|\\ )', re.DOTALL)
"""Addresses that the server may refuse and the grammar does not: see the disagreements of the two libraries."""


@cache
def parts(name: str) -> tuple[st.SearchStrategy[str], st.SearchStrategy[str]]:
    """The cases of a format, and what parts of one may be replaced by: parts of another, or signs."""
    cases = [text for some in CASES[name] for text in some if len(text) < 100]
    signs = st.text(st.sampled_from(sorted({sign for text in cases for sign in text})), max_size=2)
    return st.sampled_from(cases), signs | st.sampled_from([case[len(case) // 2 :] for case in cases])


@st.composite
def texts(draw: st.DrawFn, name: str) -> str:
    """A text that nearly has a format: one of the cases, with parts of it replaced."""
    cases, others = parts(name)
    text = draw(cases)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, len(text)))
        text = text[:start] + draw(others) + text[end:]
    return text


@pytest.mark.parametrize("name", ASSERTED)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_text_has_a_format_where_the_grammar_says_so(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    assume(name != "email" or not MISREAD.match(text))
    assert meets(name, text) == has_format(name, text), text


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("xn--bcher-kva", True),
        ("xn--9n2bp8q.xn--9t4b11yi5a", True),
        ("xn--X", False),
        ("xn--", False),
        ("XN--BCHER-KVA", False),
        ("xn--hello-txk", False),
        ("xn--a-ecp.ru", False),
    ],
)
def test_a_label_of_idna_is_one_that_can_be_decoded(name: str, valid: bool) -> None:
    """In small letters, as IDNA makes them."""
    assert meets("hostname", name) == valid
    assert meets("email", f"a@{name}") == valid


@pytest.mark.parametrize("name", ASSERTED)
def test_what_is_no_string_has_every_format(name: str) -> None:
    values: list[Json] = [None, True, 1, 0.5, [], ["a b"], {}, {"a b": "a b"}]
    assert [value for value in values if not meets(name, value)] == []


# How it is told


@pytest.mark.parametrize("name", ASSERTED)
def test_a_text_that_misses_its_format_is_told_what_it_should_be(name: str) -> None:
    text = "no such thing, and to be kept quiet"
    [problem] = Schema.compile({"properties": {"a": {"format": name}}}).check({"a": text}, "/item")
    assert (problem.path, problem.message) == ("/item/a", f"is not {ASSERTED[name]}")
    assert meets(name, problem.message.partition(", such as ")[2])


WRONG = "is not a date (RFC 3339), such as 2026-11-30"
DATE: Json = {"format": "date"}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid", "path", "message"),
    [
        (DATE, "2026-11-30", "x", "", WRONG),
        ({"$defs": {"day": DATE}, "$ref": "#/$defs/day"}, "2026-11-30", "x", "", WRONG),
        ({"allOf": [True, DATE], "format": "uri-reference"}, "2026-11-30", "x", "", WRONG),
        ({"if": {"minLength": 2}, "then": DATE}, "x", "xy", "", WRONG),
        (
            {"if": DATE, "then": True, "else": {"maxLength": 1}},
            "2026-11-30",
            "xy",
            "",
            "has 2 characters, and may have 1",
        ),
        ({"items": DATE}, ["2026-11-30", 1], [1, "x"], "/1", WRONG),
        ({"prefixItems": [True, DATE]}, ["x", "2026-11-30"], ["x", "x"], "/1", WRONG),
        ({"properties": {"a": DATE}}, {"a": "2026-11-30"}, {"a": "x"}, "/a", WRONG),
        ({"patternProperties": {"^a": DATE}}, {"ab": "2026-11-30"}, {"ab": "x"}, "/ab", WRONG),
        ({"additionalProperties": DATE}, {"a": "2026-11-30"}, {"a": "x"}, "/a", WRONG),
        ({"dependentSchemas": {"a": {"properties": {"b": DATE}}}}, {"b": "x"}, {"a": 1, "b": "x"}, "/b", WRONG),
        ({"propertyNames": DATE}, {"2026-11-30": 1}, {"x": 1}, "", "has a member with a name that is not allowed"),
        ({"contains": DATE}, ["x", "2026-11-30"], ["x"], "", "does not hold as many members of the kind"),
        ({"anyOf": [DATE, {"format": "ipv4"}]}, "192.0.2.1", "x", "", "meets none of the 2 alternatives"),
        (
            {"oneOf": [DATE, {"minLength": 4}]},
            "abcd",
            "2026-11-30",
            "",
            "does not meet exactly one of the 2 alternatives",
        ),
        ({"not": DATE}, "x", "2026-11-30", "", "is what it must not be"),
        ({"unevaluatedItems": DATE}, ["2026-11-30"], ["x"], "", "holds members that its schema does not know"),
        ({"unevaluatedProperties": DATE}, {"a": "2026-11-30"}, {"a": "x"}, "", "holds members that its schema"),
        ({"format": "date", "pattern": "^2", "maxLength": 10}, "2026-11-30", "2", "", WRONG),
    ],
)
def test_a_format_is_seen_under_every_keyword(schema: Any, valid: Json, invalid: Json, path: str, message: str) -> None:
    compiled = Schema.compile(schema)
    assert compiled.check(valid) == ()
    [problem] = compiled.check(invalid)
    assert problem.path == path
    assert problem.message.startswith(message)


# How long a text may be


@pytest.mark.protocol("8.7")
@pytest.mark.parametrize(
    ("name", "head", "tail"),
    [
        ("date-time", "2026-11-30T12:00:00.", "Z"),
        ("time", "12:00:00.", "Z"),
        ("duration", "P", "D"),
        ("uri", "a:", ""),
        ("uri-reference", "", ""),
        ("iri", "a:é", ""),
        ("iri-reference", "é", ""),
        ("json-pointer", "/", ""),
    ],
)
def test_a_format_is_tried_on_short_texts_only(name: str, head: str, tail: str) -> None:
    longest = head + "1" * (LONGEST - len(head + tail)) + tail
    longer = head + "1" * (LONGEST + 1 - len(head + tail)) + tail
    assert meets(name, longest)
    [problem] = Schema.compile({"items": {"format": name}}).check([longest, longer])
    assert problem.path == "/1"
    assert problem.message == f'has 4097 characters; a format such as "{name}" is tried on 4096 at most'
    assert Schema.compile({"not": {"format": name}}).check(longer) == ()


@pytest.mark.parametrize("name", ASSERTED)
def test_no_text_of_any_length_has_a_format_it_was_not_tried_for(name: str) -> None:
    for sign in ("1", ".", ":", "/", "@", "<", "[", "%20", "é", "\U0001f600", "\x00", "xn--a."):
        [problem] = schema_of(name).check(sign * 400_000)
        assert problem.message.endswith("is tried on 4096 at most")
