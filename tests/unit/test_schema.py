"""Schemas: which are accepted, and what they say of a document."""

from typing import Any, NoReturn

import pytest

from leaseway_server.core import schema as schema_module
from leaseway_server.core.errors import Problem
from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.schema import Schema, SchemaRefused

DRAFT = "https://json-schema.org/draft/2020-12/schema"
RESIZE: Json = {
    "$schema": DRAFT,
    "$id": "https://task.example.com/schemas/resize/item.json",
    "title": "A picture to resize",
    "type": "object",
    "properties": {
        "image": {"type": "string", "pattern": "^data:image/(png|jpeg);base64,"},
        "format": {"enum": ["png", "jpg"]},
        "width": {"type": "integer", "minimum": 1, "maximum": 4000},
    },
    "required": ["image", "format"],
    "additionalProperties": False,
}


def told(schema: Json, value: Any, **resources: Json) -> list[tuple[str, str]]:
    files = {name.replace("_", "."): content for name, content in resources.items()}
    return [(problem.path, problem.message) for problem in Schema.compile(schema, files).check(value)]


def refusal(schema: Any, resources: dict[str, Json] | None = None) -> SchemaRefused:
    with pytest.raises(SchemaRefused) as refused:
        Schema.compile(schema, resources)
    assert len(str(refused.value)) <= 300
    return refused.value


# What is told


def test_a_valid_document_has_no_problems() -> None:
    schema = Schema.compile(RESIZE)
    assert schema.check({"image": "data:image/png;base64,iVBO", "format": "png", "width": 640.0}) == ()
    assert schema.document is RESIZE


def test_each_fault_is_told_with_its_path_below_the_documents_own() -> None:
    value: Json = {"image": 1, "width": 0, "x/~": None}
    assert Schema.compile(RESIZE).check(value, "/1/item") == (
        Problem("/1/item/image", "1 is not of type string"),
        Problem("/1/item/width", "0 is less than 1"),
        Problem("/1/item", '"format" is missing'),
        Problem("/1/item/x~1~0", "is no member that is known here"),
    )


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"type": ["string", "null"]}, [1], [("", "an array of 1 is not of type string or null")]),
        ({"type": "array"}, {}, [("", "an object is not of type array")]),
        ({"type": "integer"}, 1.5, [("", "1.5 is not of type integer")]),
        ({"type": "integer"}, True, [("", "true is not of type integer")]),
        ({"type": "string"}, None, [("", "null is not of type string")]),
        ({"enum": ["a", 1, None]}, "é", [("", '"é" is not one of "a", 1, null')]),
        ({"const": {"a": 1}}, 2, [("", '2 is not {"a":1}')]),
        ({"const": "x" * 50}, {}, [("", f'an object is not "{"x" * 40}…')]),
        ({"minimum": 3}, 2, [("", "2 is less than 3")]),
        ({"maximum": 3}, 4, [("", "4 is greater than 3")]),
        ({"exclusiveMinimum": 3}, 3, [("", "3 is not greater than 3")]),
        ({"exclusiveMaximum": 3}, 3, [("", "3 is not less than 3")]),
        ({"multipleOf": 0.5}, 0.75, [("", "0.75 is not a multiple of 0.5")]),
        ({"minLength": 3}, "\U0001f600\U0001f600", [("", "has 2 characters, and needs 3 or more")]),
        ({"maxLength": 1}, "ab", [("", "has 2 characters, and may have 1 at most")]),
        ({"pattern": "^a"}, "b" * 50, [("", f'"{"b" * 40}"… does not match "^a"')]),
        ({"format": "date"}, "b" * 50, [("", "is not a date (RFC 3339), such as 2026-11-30")]),
        ({"minItems": 1}, [], [("", "has 0 members, and needs 1 or more")]),
        ({"maxItems": 1}, [1, 2], [("", "has 2 members, and may have 1 at most")]),
        ({"uniqueItems": True}, [1, 1.0], [("", "holds the same value twice")]),
        (
            {"contains": {"const": 1}, "minContains": 2},
            [1],
            [("", "does not hold as many members of the kind as it must")],
        ),
        (
            {"contains": {"const": 1}, "maxContains": 1},
            [1, 1],
            [("", "does not hold as many members of the kind as it must")],
        ),
        ({"minProperties": 1}, {}, [("", "has 0 members, and needs 1 or more")]),
        ({"maxProperties": 0}, {"a": 1}, [("", "has 1 members, and may have 0 at most")]),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, [("", "has a member with a name that is not allowed")]),
        ({"anyOf": [{"type": "null"}, False]}, 1, [("", "meets none of the 2 alternatives")]),
        ({"oneOf": [True, {"type": "null"}]}, None, [("", "does not meet exactly one of the 2 alternatives")]),
        ({"not": {}}, 1, [("", "is what it must not be")]),
        (False, 1, [("", "is not allowed here")]),
        ({"required": ["a", "b"]}, {}, [("", '"a" is missing'), ("", '"b" is missing')]),
        ({"dependentRequired": {"a": ["b", "c"], "x": ["y"]}}, {"a": 1, "c": 2}, [("", '"b" is missing beside "a"')]),
        (
            {"dependentSchemas": {"a": {"maxProperties": 1}, "x": False}},
            {"a": 1, "b": 2},
            [("", "has 2 members, and may have 1 at most")],
        ),
        (
            {"dependentSchemas": {"a": True, "b": {"type": "null"}}},
            {"a": 1, "b": 2},
            [("", "an object is not of type null")],
        ),
        (
            {"allOf": [{"minimum": 3}, True, {"multipleOf": 2}]},
            1,
            [("", "1 is less than 3"), ("", "1 is not a multiple of 2")],
        ),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, "", [("", "has 0 characters, and needs 1 or more")]),
        ({"if": {"type": "string"}, "then": True, "else": {"minimum": 1}}, 0, [("", "0 is less than 1")]),
        (
            {"properties": {"a": {"properties": {"b": {"type": "null"}}}}},
            {"a": {"b": 1}},
            [("/a/b", "1 is not of type null")],
        ),
        (
            {"items": {"type": "null"}},
            [None, 1, None, 2],
            [("/1", "1 is not of type null"), ("/3", "2 is not of type null")],
        ),
        (
            {"prefixItems": [True, {"type": "null"}, False], "items": {"type": "string"}},
            [1, 2, 3, "x", 4],
            [("/1", "2 is not of type null"), ("/2", "is not allowed here"), ("/4", "4 is not of type string")],
        ),
        ({"items": False}, [1], [("/0", "is not allowed here")]),
        (
            {
                "properties": {"a": True},
                "patternProperties": {"^x": {"type": "null"}, "^xy": {"const": 2}, "^z": False},
                "additionalProperties": {"type": "string"},
            },
            {"a": 1, "xy": 1, "z": 0, "n": 5, "o": "k"},
            [
                ("/xy", "1 is not of type null"),
                ("/xy", "1 is not 2"),
                ("/z", "is not allowed here"),
                ("/n", "5 is not of type string"),
            ],
        ),
        (
            {"unevaluatedProperties": False, "properties": {"a": True}},
            {"b": 1},
            [("", "holds members that its schema does not know")],
        ),
        (
            {"unevaluatedItems": False, "prefixItems": [True]},
            [1, 2],
            [("", "holds members that its schema does not know")],
        ),
        (
            {"unevaluatedProperties": False, "properties": {"a": {"type": "null"}}},
            {"a": 1, "b": 1},
            [("/a", "1 is not of type null")],
        ),
        ({"$defs": {"n": {"type": "null"}}, "items": {"$ref": "#/$defs/n"}}, [1], [("/0", "1 is not of type null")]),
        ({"$ref": "#n", "definitions": {"x": {"$anchor": "n", "type": "null"}}}, 1, [("", "1 is not of type null")]),
        (
            {"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}},
            {"next": {"next": {"next": 0}}},
            [("/next/next/next", "0 is not of type object or null")],
        ),
    ],
)
def test_every_keyword_says_what_is_wrong_and_where(schema: Json, value: Json, problems: list[tuple[str, str]]) -> None:
    assert told(schema, value) == problems


def test_a_value_that_is_at_fault_twice_is_told_twice() -> None:
    assert told({"type": "integer", "maximum": 5}, 6.5) == [
        ("", "6.5 is not of type integer"),
        ("", "6.5 is greater than 5"),
    ]


def test_the_first_ten_problems_are_told() -> None:
    assert [path for path, _text in told({"items": {"type": "string"}}, list(range(10_000)))] == [
        f"/{index}" for index in range(10)
    ]


def test_problems_far_apart_are_found() -> None:
    value: list[Json] = ["x"] * 100_000
    value[777] = value[99_999] = 0
    assert [path for path, _text in told({"items": {"type": "string"}}, value)] == ["/777", "/99999"]


def test_a_long_text_is_cut() -> None:
    options: list[Json] = ["x" * 39 + str(digit) for digit in range(9)]
    [(_path, text)] = told({"enum": options}, "y" * 800_000)
    assert len(text) == 200
    assert text.startswith(f'"{"y" * 40}"… is not one of "xxx')
    assert text.endswith("…")


def test_many_options_are_not_all_told() -> None:
    [(_path, text)] = told({"enum": list(range(2_000))}, -1)
    assert text == "-1 is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"


def test_a_name_that_is_too_long_for_a_path_ends_it() -> None:
    assert told({"additionalProperties": {"type": "null"}}, {"x" * 100_000: 1}) == [("", "1 is not of type null")]


# References to files


def test_a_schema_may_refer_to_files_beside_it_and_they_to_each_other() -> None:
    sizes: Json = {
        "$id": "https://other.example/",
        "$defs": {"side": {"$anchor": "s", "maximum": 9}},
        "items": {"$ref": "a%20b.json#/x"},
    }
    files: dict[str, Json] = {"sizes.json": sizes, "a%20b.json": {"properties": {"y": {"$ref": "sizes.json#s"}}}}
    files["sizes.json"] = {**sizes, "items": {"$ref": "a%20b.json"}}  # type: ignore[dict-item]  # sizes is an object
    schema = Schema.compile(
        {"prefixItems": [{"$ref": "sizes.json#/$defs/side"}], "items": {"$ref": "sizes.json"}}, files
    )
    assert schema.check([9, [{"y": 9}]]) == ()
    assert schema.check([10, [{"y": 9}, {"y": 10}]]) == (
        Problem("/0", "10 is greater than 9"),
        Problem("/1/1/y", "10 is greater than 9"),
    )


def test_a_pointer_may_be_escaped() -> None:
    schema: Json = {"$defs": {"a/b~ %^é": {"type": "null"}}, "$ref": "#/$defs/a~1b~0%20%25%5Eé"}
    assert told(schema, 1) == [("", "1 is not of type null")]


@pytest.mark.protocol("8.5")
@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "../secret.json",
        "./defs.json",
        "sub/defs.json",
        "/etc/passwd",
        "unknown.json#/$defs/a",
        "leaseway:///",
        "https://task.example.com/self.json",
        DRAFT,
    ],
)
def test_a_reference_to_anything_else_is_refused(reference: str) -> None:
    refused = refusal(
        {"$id": "https://task.example.com/self.json", "properties": {"a/b": {"$ref": reference}}}, {"defs.json": True}
    )
    assert refused.pointer == "/properties/a~1b/$ref"
    assert "no file beside this schema" in str(refused)


@pytest.mark.parametrize(
    "reference", ["#/$defs/b", "#b", "#/properties", "#/$defs/a/const", "#/$defs/a/", "defs.json#x", "#/ "]
)
def test_a_reference_to_no_schema_is_refused(reference: str) -> None:
    refused = refusal({"$defs": {"a": {"const": {}}}, "properties": {"x": {"$ref": reference}}}, {"defs.json": {}})
    assert refused.pointer == "/properties/x/$ref"
    assert "points to no schema" in str(refused)


# What is refused


@pytest.mark.protocol("8.3", "8.4")
@pytest.mark.parametrize(
    ("schema", "pointer", "message"),
    [
        (1, "", "no JSON Schema"),
        (None, "", "no JSON Schema"),
        ([], "", "no JSON Schema"),
        ({"type": "strnig"}, "/type", "no JSON Schema"),
        ({"properties": {"a/b": {"minimum": "3"}}}, "/properties/a~1b/minimum", "no JSON Schema"),
        ({"items": [{}]}, "/items", "no JSON Schema"),
        ({"required": ["a", "a"]}, "/required", "no JSON Schema"),
        ({"multipleOf": 0}, "/multipleOf", "no JSON Schema"),
        ({"enum": "x" * 10_000}, "/enum", "no JSON Schema"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "only draft 2020-12"),
        ({"items": {"$schema": DRAFT}}, "/items", "only at the head"),
        ({"items": {"$id": "x.json"}}, "/items", "only at the head"),
        ({"items": {"$dynamicRef": "#x"}}, "/items/$dynamicRef", "use \\$ref"),
        ({"$dynamicAnchor": "x"}, "/$dynamicAnchor", "use \\$anchor"),
        ({"dependencies": {}}, "/dependencies", "use dependentRequired"),
        ({"additionalItems": False}, "/additionalItems", "use items"),
        ({"items": {"format": "phone"}}, "/items/format", "unknown format 'phone'"),
        ({"items": {"format": "regex"}}, "/items/format", "not asserted"),
        ({"items": {"pattern": "("}}, "/items/pattern", "no regular expression"),
        ({"pattern": "(?=a)b"}, "/pattern", "linear time"),
        ({"pattern": "(a)\\1"}, "/pattern", "linear time"),
        ({"pattern": "(?:\\p{L}{1,99}){1,99}"}, "/pattern", "little memory"),
        ({"patternProperties": {"a/(": True}}, "/patternProperties/a~1(", "no regular expression"),
        ({"patternProperties": {"x[ab]{20}": True}}, "/patternProperties/x[ab]{20}", "too slow on a long name"),
        ({"$ref": "#"}, "", "leads back to itself"),
        ({"allOf": [{"$ref": "#"}]}, "/allOf/0", "leads back to itself"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref": "#/$defs/a"}}}},
            "/$defs/b/if",
            "leads back to itself",
        ),
        ({"dependentSchemas": {"a": {"not": {"$ref": "#"}}}}, "/dependentSchemas/a/not", "leads back to itself"),
    ],
)
def test_a_schema_that_is_none_or_not_taken_is_refused_with_its_place(schema: Any, pointer: str, message: str) -> None:
    refused = refusal(schema)
    assert refused.pointer == pointer
    with pytest.raises(SchemaRefused, match=message):
        raise refused


def test_a_fault_in_another_file_is_told_with_its_name() -> None:
    assert refusal(True, {"defs.json": {"$defs": {"a": {"type": 1}}}}).pointer == "defs.json#/$defs/a/type"
    assert refusal(True, {"defs.json": {"items": {"$ref": "#a"}}}).pointer == "defs.json#/items/$ref"
    assert refusal(True, {"defs.json": {"$schema": "x"}}).pointer == "defs.json#/$schema"


def test_a_loop_through_files_is_refused() -> None:
    files: dict[str, Json] = {"a.json": {"$ref": "b.json"}, "b.json": {"allOf": [{"$ref": "a.json"}]}}
    assert "leads back to itself" in str(refusal({"items": {"$ref": "a.json"}}, files))


@pytest.mark.protocol("8.2")
def test_contents_are_annotations() -> None:
    schema: Json = {"contentEncoding": "base64", "contentMediaType": "application/json", "contentSchema": {"$ref": "#"}}
    assert told(schema, "{") == []


def test_words_that_are_none_are_annotations() -> None:
    schema: Json = {"x-note": {"$ref": "http://127.0.0.1:1/"}, "examples": [{"$ref": "#"}], "default": {"$id": "a"}}
    assert told(schema, "{") == []


def test_a_schema_of_more_than_sixty_four_levels_is_refused() -> None:
    schema: Json = {}
    for _ in range(63):
        schema = {"not": schema}
    assert told(schema, 1) == [("", "is what it must not be")]
    assert "64 levels" in str(refusal({"not": schema}))
    assert "64 levels" in str(refusal(parse('{"not":' * 900 + "{}" + "}" * 900)))


def test_whatever_the_libraries_raise_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """What jsonschema-rs raises when it gives up."""

    def broken(_found: object) -> NoReturn:
        raise Panic("no more")

    monkeypatch.setattr(schema_module, "_trials", broken)
    assert str(refusal({})) == "cannot be compiled: no more"


def test_an_interrupt_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_found: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(schema_module, "_trials", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Schema.compile({})
