"""No document takes long, whatever the schema that was accepted; what would is refused, and says why."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from time import process_time

import pytest

from leaseway_server.core.jsontext import Json, parse
from leaseway_server.core.schema import Schema, SchemaRefused
from leaseway_server.core.schema_cost import MOST_EXTREME, bounds
from leaseway_server.core.schema_format import ASSERTED
from leaseway_server.core.schema_pattern import LONGEST, PLAIN, alive, guarded
from leaseway_server.core.schema_places import places


def chain(levels: int, end: Json) -> Json:
    for _ in range(levels):
        end = {"a": end}
    return end


def laughs(count: int) -> dict[str, Json]:
    """References that double at each step."""
    defs: dict[str, Json] = {"d0": {"type": "integer"}}
    for index in range(1, count):
        reference: Json = {"$ref": f"#/$defs/d{index - 1}"}
        defs[f"d{index}"] = {"allOf": [reference, reference]}
    return {"$defs": defs, "$ref": f"#/$defs/d{count - 1}"}


def unevaluated(count: int) -> Json:
    schema: Json = {"type": "integer"}
    for _ in range(count):
        schema = {"anyOf": [{"properties": {"a": schema}}], "unevaluatedProperties": False}
    return schema


BRANCHES: Json = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "minProperties": 2},
    ]
}
FORMATS: Json = [{"format": name} for name in ASSERTED]
HALVES: Callable[[int], list[Json]] = lambda count: [index + 0.5 for index in range(count)]  # noqa: E731
SLOW: list[tuple[str, Json, Json]] = [
    ("branches that refer back, nothing fits", BRANCHES, chain(60, 1)),
    ("branches that refer back, all fits", BRANCHES, chain(60, {})),
    ("oneOf that refers back", {"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"type": "null"}]}, chain(60, 1)),
    ("unique objects", {"uniqueItems": True}, [{"a": index} for index in range(80_000)]),
    ("unique integers that are one float", {"uniqueItems": True}, [2**63 + index for index in range(50_000)]),
    ("unique huge integers", {"uniqueItems": True}, [2**60 + index for index in range(50_000)]),
    ("unique fractions", {"uniqueItems": True}, HALVES(100_000)),
    ("unique fractions, as many as are tried", {"uniqueItems": True}, HALVES(8_000)),
    ("many small unique arrays of fractions", {"items": {"uniqueItems": True}}, [HALVES(14)] * 10_000),
    ("many small unique arrays", {"items": {"uniqueItems": True}}, [list(range(14))] * 10_000),
    (
        "unique at every level",
        {"uniqueItems": True, "items": {"$ref": "#"}},
        parse("[" * 60 + "1,2" * 100_000 + "]" * 60),
    ),
    ("prices", {"items": {"multipleOf": 0.01}}, [0.25] * 200_000),
    ("prices, as many as are tried", {"items": {"multipleOf": 0.01}}, [0.25] * 16_000),
    ("prices beyond all measure", {"items": {"multipleOf": 0.01}}, [1e-300] * 40_000),
    ("numbers beyond all measure", {"items": {"maximum": 255}}, [1e300] * 170_000),
    ("bytes", {"items": {"minimum": 0, "maximum": 255}}, [1] * 500_000),
    ("options that are integers, met by fractions", {"items": {"enum": list(range(200))}}, [199.0] * 170_000),
    ("options that are integers", {"items": {"enum": list(range(200))}}, [199] * 250_000),
    ("options that are fractions", {"items": {"enum": HALVES(30)}}, [29.5] * 200_000),
    ("options that are objects", {"items": {"enum": [{"v": index} for index in range(100)]}}, [{"v": 99}] * 90_000),
    ("options that are texts", {"items": {"enum": [f"v{index}" for index in range(1_000)]}}, ["v"] * 200_000),
    ("a constant that is an array", {"items": {"const": [0.5]}}, [[0.5]] * 100_000),
    ("thirty alternatives", {"items": {"anyOf": [{"const": f"k{index}"} for index in range(30)]}}, ["zz"] * 150_000),
    ("500,000 errors", {"items": {"type": "string"}}, [1] * 500_000),
    ("one error after 250,000", {"items": {"type": "string"}}, [*["a"] * 250_000, 1]),
    ("unknown members", {"additionalProperties": False}, {f"p{index}": 1 for index in range(80_000)}),
    (
        "patterns of members",
        {"patternProperties": {f"^{i}x": True for i in range(50)}},
        {f"p{i}": 1 for i in range(80_000)},
    ),
    ("nested repetition", {"pattern": "^(a+)+$"}, "a" * 1_000_000 + "b"),
    ("many states", {"pattern": "a[ab]{200}c"}, "abbaababb" * 100_000),
    (
        "a data URL",
        {"pattern": "^data:image/png;base64,[A-Za-z0-9+/]+={0,2}$"},
        f"data:image/png;base64,{'iVBO' * 200_000}!",
    ),
    ("a long text of no format", {"anyOf": FORMATS}, "http://[::1]/%20" * 60_000),
    ("short texts of no format", {"items": {"anyOf": FORMATS}}, [" <a@b>"] * 100_000),
    ("short texts of no format, as many as are tried", {"items": {"anyOf": FORMATS}}, [" <a@b>"] * 34_000),
    (
        "names of members that have no format",
        {"propertyNames": {"anyOf": FORMATS}},
        {f" {i}": i for i in range(34_000)},
    ),
    ("e-mail addresses", {"items": {"format": "email"}}, ["a@b"] * 170_000),
    ("host names of much Punycode", {"items": {"format": "hostname"}}, [".".join(["xn--9n2bp8q"] * 21)] * 4_000),
    ("texts as long as are tried", {"items": {"format": "iri"}}, [f"a:{'é' * (LONGEST - 2)}"] * 120),
    ("a thousand formats", {"allOf": [{"format": "uri"}] * 1_000}, f"a:{'%20' * 1_300}"),
    ("references that double", laughs(14), "x"),
    ("references that double, of many", {**laughs(14), "items": {"$ref": "#/$defs/d9"}}, [1] * 100_000),
    ("unevaluated in unevaluated", unevaluated(7), chain(7, 1)),
    ("100,000 options", {"enum": [f"v{index}" for index in range(100_000)]}, "x"),
    ("contains", {"contains": {"const": 5}}, [1] * 500_000),
    (
        "much at the bottom",
        {"properties": {"a": {"$ref": "#"}}, "items": {"type": "null"}},
        chain(60, [*[None] * 180_000, 1]),
    ),
    ("a long text that is none", {"type": "integer"}, "x" * 900_000),
]


@pytest.mark.protocol("8.6")
@pytest.mark.parametrize(("schema", "value"), [case[1:] for case in SLOW], ids=[case[0] for case in SLOW])
def test_no_document_takes_long(schema: Json, value: Json) -> None:
    """Far more than was measured (0.06 s at most): this finds what grows too fast, on a busy machine too."""
    compiled = Schema.compile(schema)
    start = process_time()
    problems = compiled.check(value)
    assert process_time() - start < 2
    assert all(len(problem.message) <= 200 for problem in problems)
    assert len(problems) <= 10


@pytest.mark.parametrize(
    ("schema", "pointer", "message"),
    [
        (laughs(40), "/$defs/", "unfolds to more than 100,000 checks"),
        (unevaluated(14), "", "unfolds to more than 100,000 checks"),
        ({"items": {"enum": [{"v": index} for index in range(25_000)]}}, "", "hardly a document could be checked"),
    ],
)
def test_a_schema_with_which_hardly_anything_could_be_checked_is_refused(
    schema: Json, pointer: str, message: str
) -> None:
    with pytest.raises(SchemaRefused, match=message) as refused:
        Schema.compile(schema)
    assert refused.value.pointer.startswith(pointer)


@pytest.mark.protocol("8.6")
@pytest.mark.parametrize(
    ("schema", "most", "value", "what"),
    [
        ({"items": {"multipleOf": 0.01}}, 49_751, 1, "values"),
        ({"items": {"multipleOf": 0.01}}, 16_638, 0.25, "fractions"),
        ({"items": {"maximum": 255, "minimum": 1}}, MOST_EXTREME, 1e200, "very large or very small numbers"),
    ],
)
def test_a_document_with_too_much_of_what_is_slow_is_a_problem(schema: Json, most: int, value: Json, what: str) -> None:
    compiled = Schema.compile(schema)
    [problem] = compiled.check([value] * (most + 2), "/item")
    assert problem.path == "/item"
    assert f"more than {most:,} {what}" in problem.message
    assert "more than" not in str(compiled.check([value] * (most - 2), "/item"))


def test_texts_that_are_slow_to_match_are_few() -> None:
    slow: Json = {"pattern": "c[ab]{48}c"}
    schema = Schema.compile({"items": {"anyOf": [slow, {"propertyNames": slow}]}})
    told = "holds texts of more than 100,000 characters: too many for this schema's patterns and formats"
    most: list[Json] = ["x" * 1_000] * 100
    assert [problem.message for problem in schema.check([*most, "x"])] == [told]
    assert [problem.message for problem in schema.check([{f"{index:04000}": 1} for index in range(26)])] == [told]
    assert told not in str(schema.check([*most, "x" * 1_000_000]))


def test_texts_that_ask_for_many_formats_are_few() -> None:
    schema = Schema.compile({"items": {"allOf": [{"format": "uri"}] * 100}})
    long: list[Json] = ["a:" + "b" * 998] * 100
    assert schema.check(long) == ()
    assert "holds texts of more than 100,000 characters" in str(schema.check([*long, "a:"]))
    short: list[Json] = ["a:"] * 7_600
    assert schema.check(short) == ()
    assert "holds more than 7,680 values" in str(schema.check([*short, *short]))


def test_one_format_of_every_text_bounds_no_document() -> None:
    for name in set(ASSERTED) - {"email", "hostname"}:
        assert bounds(places({"items": {"format": name}}, {})[0]).any_will_do


def test_integers_that_are_one_float_are_few_where_values_must_differ() -> None:
    schema = Schema.compile({"uniqueItems": True})
    assert schema.check([2**63 + index for index in range(900)]) == ()
    assert schema.check([2**60 + 1_024 * index for index in range(5_000)]) == ()
    assert "very large" in str(schema.check([2**63 + index for index in range(1_100)]))


def test_a_document_that_only_looks_large_is_checked() -> None:
    row: Json = {"id": 2**60, "at": [1.5, 2.5, 3.5], "name": "x", "tags": ["a", "b"]}
    schema: Json = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "integer", "minimum": 0},
                "at": {"type": "array", "items": {"type": "number"}, "minItems": 3},
                "name": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$"},
                "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
            },
            "required": ["id", "at", "name"],
            "additionalProperties": False,
        },
    }
    assert Schema.compile(schema).check([row] * 10_000) == ()


def test_a_pattern_that_is_not_plain_is_tried_on_short_strings_only() -> None:
    schema = Schema.compile({"pattern": "c[ab]{15}c", "allOf": [{"type": "string"}]})
    text = "c" + "ab" * 7 + "ac"
    assert schema.check(text) == ()
    assert schema.check("a" * (LONGEST - len(text)) + text) == ()
    [problem] = schema.check("a" * (LONGEST + 1 - len(text)) + text)
    assert problem.message == 'has 4097 characters; a pattern such as "c[ab]{15}c" is tried on 4096 at most'
    assert Schema.compile({"pattern": "c[ab]{15}c"}).check(5) == ()
    assert Schema.compile({"not": {"pattern": "c[ab]{15}c"}}).check("a" * 5_000) == ()


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        ("", 0),
        ("abc", 3),
        ("^abc$", 0),
        ("^[0-9a-f]{8}-[0-9a-f]{4}$", 0),
        ("^data:image/(png|jpeg);base64,[A-Za-z0-9+/]+={0,2}$", 4),
        ("^\\S+@\\S+\\.\\S+$", 6),
        ("^(a+)+$", 2),
        ("^x(ab+c)*d{5}$", 9),
        ("^x(ab?c){2,}d$", 8),
        ("a[ab]{15}c", 17),
        ("a[^]\\]{}]{15}c", 17),
        ("^x|[ab]*c", 5),
        ("^(x|y)a*", 1),
        ("^(?:x(?:y{3}z){4})*$", 18),
        ("(?i)a\\p{L}\\x{61}\\{{2}", 6),
        ("^.{0,}a{20}?", 21),
        ("{2}", 0),
    ],
)
def test_how_many_places_of_a_pattern_can_be_alive(pattern: str, places: int) -> None:
    assert alive(pattern) == places
    assert ("if" in guarded(pattern)) == (places > PLAIN)


def way(count: int, step: Callable[[Json], Json]) -> Json:
    """A schema whose references go on and on, then down into the value and back to the first."""
    defs: dict[str, Json] = {f"d{index}": step({"$ref": f"#/$defs/d{index + 1}"}) for index in range(count)}
    return {"$defs": {**defs, f"d{count}": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"$ref": "#"}]},
        way(1_000, lambda reference: reference),
        way(200, lambda reference: {"not": reference}),
        way(200, lambda reference: {"allOf": [True, reference]}),
    ],
)
def test_no_loop_or_long_way_of_references_ends_the_process(schema: Json) -> None:
    program = f"""
        from leaseway_server.core.schema import Schema, SchemaRefused
        try:
            schema = Schema.compile({schema!r})
        except SchemaRefused:
            print("done")
        else:
            value = []
            for _ in range(63):
                value = [value]
            schema.check(value)
            print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")
