"""A queue's JSON Schema (draft 2020-12): accepted at start or refused, then asked about each document.

What is accepted:
- A valid schema of draft 2020-12, of at most 64 levels, and what it refers to: itself, or files given with it, by their
  plain name ("defs.json#/$defs/size"). Nothing is ever fetched. No `$dynamicRef`, no `dependencies`, no `$id` but at
  the head of a file (where it names the file and nothing more), no reference that comes back to the same value.
- `format` is asserted, or refused (`schema_format`). `contentEncoding`, `contentMediaType` and `contentSchema` are
  annotations.
- Regular expressions of a linear engine (`schema_pattern`): no look-around, no back-references.

What is bounded, so that no document holds up the server (measured: a valid document of 1 MiB within about 50 ms):
- A schema that unfolds to more than 100,000 checks is refused at start (`schema_cost`).
- Where a schema asks much of values that may be many (under `items`, say), a document with too many of them, or of
  numbers or texts that are slow to check, is a problem and never tried. The problem's text says how many may be.
- A format, and a regular expression that is not plain, is tried on 4,096 characters at most; a longer string does not
  match it.
- At most ten problems are found, with bounded effort (`schema_report`).
What is not bounded: an expression that its author wrote to be slow without a `*` or `+`, `^[ab]{0,500}a[ab]{500}$`.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from leaseway_server.core.errors import MESSAGE_LIMIT, PROBLEM_LIMIT, Problem
from leaseway_server.core.jsontext import DEEPEST, Json, pointer
from leaseway_server.core.schema_cost import Bounds, bounds
from leaseway_server.core.schema_format import EMAIL, GUARDS
from leaseway_server.core.schema_pattern import PATTERNS
from leaseway_server.core.schema_places import SELF, Place, SchemaRefused, address, places
from leaseway_server.core.schema_report import Finder, Verdict

__all__ = ["Problem", "Schema", "SchemaRefused"]

_UNSAID: Final = frozenset({"$id", "$schema", "$anchor", "contentSchema"})
"""What the validator need not see: references are absolute, contents are annotations."""


class Schema:
    """One compiled schema. `document` is as it was given."""

    __slots__ = ("_bounds", "_finder", "_root", "_verdict", "document")

    def __init__(self, document: Json, root: Place, limits: Bounds, finder: Finder, verdict: Verdict) -> None:
        self.document = document
        self._root = root
        self._bounds = None if limits.any_will_do else limits
        self._finder = finder
        self._verdict = verdict

    @classmethod
    def compile(cls, document: Json, resources: Mapping[str, Json] | None = None) -> "Schema":
        """A schema, ready to check. `resources` are the files that it may refer to, by name. Raises `SchemaRefused`."""
        try:
            return cls._compile(document, resources or {})
        except (SchemaRefused, KeyboardInterrupt):
            raise
        except BaseException as fault:  # a panic in jsonschema-rs is no Exception
            raise SchemaRefused("", f"cannot be compiled: {str(fault)[:MESSAGE_LIMIT]}") from fault

    @classmethod
    def _compile(cls, document: Json, resources: Mapping[str, Json]) -> "Schema":
        found = places(document, resources)
        files = [(address(place.file), _absolute(place)) for place in found if not place.path]
        registry = jsonschema_rs.Registry(files, draft=jsonschema_rs.Draft202012)

        def compiles(schema: dict[str, Any]) -> Verdict:
            return jsonschema_rs.Draft202012Validator(
                schema,
                registry=registry,
                pattern_options=PATTERNS,
                email_options=EMAIL,
                validate_formats=True,
                offline=True,
            )

        schema = cls(document, found[0], bounds(found[0]), Finder(compiles), compiles({"$ref": address(SELF)}))
        for value in _trials(found):
            schema.check(value)
        return schema

    def check(self, value: Json, path: str = "") -> tuple[Problem, ...]:
        """What is wrong with a document (of at most 64 levels): the first ten problems, or none.

        `path` is where the document stands in what was sent, and begins each problem's path.
        """
        if self._bounds and (excess := self._bounds.excess(value)):
            return (Problem(path, excess),)
        if self._verdict.is_valid(value):
            return ()
        found = islice(self._finder.find(self._root, value), PROBLEM_LIMIT)
        return tuple(Problem(path + pointer(way), _cut(text)) for way, text in found)


def _absolute(place: Place) -> dict[str, Any] | bool:
    """The schema of a place as the validator gets it."""
    if isinstance(place.schema, bool):
        return place.schema
    schema: dict[str, Any] = {}
    for keyword in place.schema.keys() - _UNSAID:
        schema[keyword] = place.content(keyword, _absolute) if keyword != "$ref" else place.parts["$ref"][0][1].uri
    for keyword, guarded in GUARDS.items():
        if keyword in schema and "if" in (guard := guarded(schema[keyword])):
            del schema[keyword]
            schema["allOf"] = [*schema.get("allOf", ()), guard]
    return schema


def _trials(found: list[Place]) -> Iterator[Json]:
    """A handful of values, so that what could fail fails at start: of every type, deep, and with the known members."""
    names = sorted({str(name) for place in found for name, _part in place.parts.get("properties", ())})
    flat: list[Json] = [None, True, 0, -1, 2**64 - 1, 0.5, -0.0, "", "x" * 10_000, [], {}]
    array: Json = []
    members: Json = {}
    for _ in range(DEEPEST - 1):
        array = [array]
        members = {names[0] if names else "x": members}
    yield from (*flat, flat, array, members)
    for value in flat:
        yield dict.fromkeys(names, value)


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 1]}…"
