"""Which JSON Schemas are accepted: a document and the files beside it, walked into places, references followed.

A place is one schema within a document: the document itself or a subschema. What is refused is refused here, with a
pointer; what a schema may cost is `schema_cost.py`, what it says of a value `schema.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from leaseway_server.core.jsontext import DEEPEST, Json, Path, pointer, too_deep
from leaseway_server.core.schema_format import refusal
from leaseway_server.core.schema_pattern import PATTERNS, PLAIN, alive

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
SELF: Final = ""
"""The name of the document itself among the files."""

ONE: Final = frozenset({"additionalProperties", "propertyNames", "items", "contains"}) | {
    *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else")
}
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SHELVES: Final = frozenset({"$defs", "definitions"})
SAME_VALUE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"},
)
"""The keywords whose schemas apply to the very value, not to a part of it."""
_ELSEWHERE: Final = {
    "$dynamicRef": "use $ref",
    "$dynamicAnchor": "use $anchor",
    "$recursiveRef": "use $ref",
    "$recursiveAnchor": "use $ref",
    "dependencies": "use dependentRequired or dependentSchemas",
    "additionalItems": "use items after prefixItems",
}
"""Keywords that are left out, so that references are known at start and both libraries read a schema alike."""


class SchemaRefused(ValueError):
    """A schema that is not accepted. `pointer` is a JSON Pointer; in another file, its name and # stand before it."""

    def __init__(self, at: str, message: str) -> None:
        super().__init__(message)
        self.pointer = at


@dataclass(slots=True, eq=False)
class Place:
    """A schema within a file. `parts` are its subschemas by keyword, in order, with the member's name or the index."""

    file: str
    path: Path
    schema: dict[str, Any] | bool
    parts: "dict[str, list[tuple[str | int, Place]]]" = field(default_factory=dict)

    @property
    def pointer(self) -> str:
        """Where it stands, for people."""
        return f"{self.file}#{pointer(self.path)}" if self.file else pointer(self.path)

    @property
    def uri(self) -> str:
        """Its address for `$ref`, absolute."""
        return f"{address(self.file)}#{quote(_key(self.path))}"

    def content(self, keyword: str, form: "Callable[[Place], Any]") -> Any:
        """What stands under a keyword, each subschema replaced by its form."""
        if keyword in ONE or keyword == "$ref":
            return form(self.parts[keyword][0][1])
        if keyword in LISTS:
            return [form(part) for _index, part in self.parts[keyword]]
        if keyword in self.parts:
            return {name: form(part) for name, part in self.parts[keyword]}
        return self.schema[keyword]  # type: ignore[index]  # a boolean has no keywords

    def of(self, *keywords: str) -> "Iterator[Place]":
        """The subschemas of some keywords."""
        for keyword in keywords:
            for _name, part in self.parts.get(keyword, ()):
                yield part


def address(file: str) -> str:
    """Where the validator finds a file: in its registry, nowhere else."""
    return f"leaseway:///{quote(file, safe='')}"


def places(document: Json, resources: Mapping[str, Json]) -> list[Place]:
    """All places of a schema and of the files that it may name; the first is the document itself.

    Raises `SchemaRefused`: for what is no schema of draft 2020-12, for a reference that leaves these files or finds
    nothing, that comes back to the same value, for a pattern or a format that is not accepted.
    """
    found: list[Place] = []
    for file, content in ((SELF, document), *resources.items()):
        _check_draft(file, content)
        found += _walk(Place(file, (), content))  # type: ignore[arg-type]  # the check made sure: an object or a boolean
    known = {(place.file, _key(place.path)): place for place in found}
    for place in list(found):
        if isinstance(place.schema, dict) and "$anchor" in place.schema:
            known[place.file, place.schema["$anchor"]] = place
    for place in found:
        if isinstance(place.schema, dict) and "$ref" in place.schema:
            place.parts["$ref"] = [("", _target(place, place.schema["$ref"], known))]
    for place, _target_of_loop in unfold(found, lambda place: place.of(*SAME_VALUE))[1]:
        raise SchemaRefused(place.pointer, "leads back to itself without a step down into the value: never decided")
    return found


def _check_draft(file: str, document: Json) -> None:
    at = f"{file}#" if file else ""
    if too_deep(document):
        raise SchemaRefused(at, f"a schema may have {DEEPEST} levels of arrays and objects, not more")
    if isinstance(document, dict) and document.get("$schema", DRAFT) not in (DRAFT, f"{DRAFT}#"):
        raise SchemaRefused(f"{at}/$schema", f"only draft 2020-12 is known: {DRAFT}")
    for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(document):
        raise SchemaRefused(at + pointer(tuple(error.absolute_path)), f"no JSON Schema: {_cut(error.message)}")


def _walk(place: Place) -> Iterator[Place]:
    yield place
    if isinstance(place.schema, bool):
        return
    _check_words(place, place.schema)
    for keyword, content in place.schema.items():
        if keyword in ONE:
            members: list[tuple[Path, Any]] = [((), content)]
        elif keyword in LISTS:
            members = [((index,), schema) for index, schema in enumerate(content)]
        elif keyword in MAPS | _SHELVES:
            members = [((name,), schema) for name, schema in content.items()]
        else:
            continue
        place.parts[keyword] = []
        for step, schema in members:
            part = Place(place.file, (*place.path, keyword, *step), schema)
            place.parts[keyword].append((step[0] if step else "", part))
            yield from _walk(part)


def _check_words(place: Place, schema: dict[str, Any]) -> None:
    for word, instead in _ELSEWHERE.items():
        if word in schema:
            raise SchemaRefused(f"{place.pointer}/{word}", f"{word} is not supported: {instead}")
    if place.path and ("$id" in schema or "$schema" in schema):
        raise SchemaRefused(place.pointer, "$id and $schema stand only at the head of a file")
    if "format" in schema and (why := refusal(schema["format"])):
        raise SchemaRefused(f"{place.pointer}/format", why)
    if "pattern" in schema:
        _check_pattern(f"{place.pointer}/pattern", schema["pattern"])
    for pattern in schema.get("patternProperties", ()):
        at = f"{place.pointer}/patternProperties{pointer((pattern,))}"
        _check_pattern(at, pattern)
        if alive(pattern) > PLAIN:
            raise SchemaRefused(at, "too slow on a long name: begin with ^ and let little follow a * or +")


def _check_pattern(at: str, pattern: str) -> None:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=PATTERNS)
    except ValueError:
        told = "no regular expression that runs in linear time and little memory (look-around and \\1 do not)"
        raise SchemaRefused(at, f"{_cut(pattern)!r} is {told}") from None


def _target(place: Place, reference: str, known: Mapping[tuple[str, str], Place]) -> Place:
    at = f"{place.pointer}/$ref"
    file, _, fragment = reference.partition("#")
    if file and (file, "") not in known:
        raise SchemaRefused(at, f"{_cut(reference)!r} is no file beside this schema, and nothing else is read")
    target = known.get((file or place.file, unquote(fragment)))
    if target is None:
        raise SchemaRefused(at, f"{_cut(reference)!r} points to no schema")
    return target


def unfold(
    starts: Iterable[Place], parts: Callable[[Place], Iterator[Place]]
) -> tuple[list[Place], set[tuple[Place, Place]]]:
    """What the starts lead to, each place after its parts; and the steps (from, to) that close a loop."""
    order: dict[Place, None] = {}
    returns: set[tuple[Place, Place]] = set()
    for start in starts:
        trail = {start: parts(start)} if start not in order else {}
        while trail:
            place = next(reversed(trail))
            part = next(trail[place], None)
            if part is None:
                order[place] = None
                del trail[place]
            elif part in trail:
                returns.add((place, part))
            elif part not in order:
                trail[part] = parts(part)
    return list(order), returns


def _key(path: Path) -> str:
    """A whole JSON Pointer, however long."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"
