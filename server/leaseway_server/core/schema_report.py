"""What is wrong with a document that its schema refused: where, and in words.

jsonschema-rs says quickly that a document is not valid, but gathers all of its errors before it tells the first, each
with a copy of the value: 500,000 errors took 7 s, an `anyOf` that refers to itself doubles with each level. So it is
asked only for verdicts, one keyword at a time, and only on the way to what is wrong. No second opinion is formed here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

import orjson

from leaseway_server.core.jsontext import Json, Path
from leaseway_server.core.schema_format import ASSERTED, GUARDS
from leaseway_server.core.schema_pattern import LONGEST
from leaseway_server.core.schema_places import Place

Finding: TypeAlias = tuple[Path, str]
_Member: TypeAlias = tuple[str | int, Any]

MOST_EFFORT: Final = 6 * 1024 * 1024
"""Bytes of JSON looked at for one document, counted anew at every step down. What is left then is not told."""
_SLICE: Final = 256
_TOLD_OPTIONS: Final = 10
_COMPANIONS: Final = {
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
}


class Verdict(Protocol):
    """A compiled schema."""

    def is_valid(self, instance: Any) -> bool:
        """Whether it holds."""


@dataclass(slots=True)
class _Effort:
    left: int = MOST_EFFORT

    def allows(self, value: Json) -> bool:
        """Whether there is enough left to look at this value; takes it away."""
        if isinstance(value, dict | list | str):
            self.left -= len(value) if isinstance(value, str) else len(orjson.dumps(value))
        return self.left >= 0


@dataclass(slots=True, eq=False)
class Finder:
    """Finds what is wrong under one schema. `compiles` turns a schema, whose `$ref`s are absolute, into its verdict."""

    compiles: Callable[[dict[str, Any]], Verdict]
    _verdicts: dict[tuple[Place, str], Verdict] = field(default_factory=dict)

    def find(self, place: Place, value: Json) -> Iterator[Finding]:
        """At least one finding, for a value that the place does not admit."""
        return self._at(place, value, (), _Effort())

    def _at(self, place: Place, value: Json, path: Path, effort: _Effort) -> Iterator[Finding]:
        if isinstance(place.schema, bool):
            yield path, "is not allowed here"
            return
        if not effort.allows(value):
            yield path, "does not meet its schema; where exactly was not looked for in so large a document"
            return
        found = False
        for keyword in place.schema:
            if keyword in _SAYING and not self._verdict(place, keyword).is_valid(value):
                found = True
                yield from self._told(place, keyword, value, path, effort)
        if not found:
            yield path, "holds members that its schema does not know"

    def _told(self, place: Place, keyword: str, value: Any, path: Path, effort: _Effort) -> Iterator[Finding]:
        match keyword:
            case "$ref" | "allOf" | "dependentSchemas" | "if":
                ways = [(part, value, path) for part in self._same_value(place, keyword, value)]
            case "properties":
                ways = [(part, value[name], (*path, name)) for name, part in place.parts[keyword] if name in value]
            case "prefixItems":
                ways = [
                    (part, one, (*path, index))
                    for index, ((_, part), one) in enumerate(zip(place.parts[keyword], value, strict=False))
                ]
            case "items" | "additionalProperties" | "patternProperties":
                yield from self._members(place, keyword, value, path, effort)
                return
            case _:
                yield from ((path, text) for text in _texts(keyword, place.schema[keyword], value))  # type: ignore[index]
                return
        for part, one, way in ways:
            if not self._verdict(part, "").is_valid(one):
                yield from self._at(part, one, way, effort)

    def _same_value(self, place: Place, keyword: str, value: Any) -> Iterator[Place]:
        if keyword == "if":
            holds = all(self._verdict(part, "").is_valid(value) for part in place.of("if"))
            return place.of("then" if holds else "else")
        return (part for name, part in place.parts[keyword] if keyword != "dependentSchemas" or name in value)

    def _members(self, place: Place, keyword: str, value: Any, path: Path, effort: _Effort) -> Iterator[Finding]:
        """In slices: a member of many is found with few questions."""
        first = len(place.parts.get("prefixItems", ()))
        members: Iterator[_Member] = (
            islice(enumerate(value), first, None) if keyword == "items" else iter(value.items())
        )
        whole = self._verdict(place, keyword)
        while some := list(islice(members, _SLICE)):
            if not whole.is_valid(_holder(keyword, some)):
                for name, member in some:
                    if not whole.is_valid(_holder(keyword, [(name, member)])):
                        yield from self._member(place, keyword, (name, member), path, effort)

    def _member(self, place: Place, keyword: str, member: _Member, path: Path, effort: _Effort) -> Iterator[Finding]:
        name, value = member
        for part in place.of(keyword):
            if part.schema is False and keyword == "additionalProperties":
                yield (*path, name), "is no member that is known here"
            elif keyword != "patternProperties" or not self._verdict(part, keyword).is_valid({name: value}):
                yield from self._at(part, value, (*path, name), effort)

    def _verdict(self, place: Place, keyword: str) -> Verdict:
        """Of one keyword of a place; of the whole place where the keyword is empty; of one pattern of its members."""
        verdict = self._verdicts.get((place, keyword))
        if verdict is None:
            verdict = self._verdicts[place, keyword] = self.compiles(_alone(place, keyword))
        return verdict


def _holder(keyword: str, members: list[_Member]) -> Any:
    return [member for _index, member in members] if keyword == "items" else dict(members)


def _reference(place: Place) -> dict[str, Any] | bool:
    return place.schema if isinstance(place.schema, bool) else {"$ref": place.uri}


def _alone(place: Place, keyword: str) -> dict[str, Any]:
    """The schema of one keyword: what others it needs are there, but admit everything."""
    if keyword == "":
        return {"$ref": place.uri}
    if keyword == "patternProperties" and keyword not in place.parts:
        return {keyword: {place.path[-1]: _reference(place)}}
    schema: dict[str, Any] = place.schema  # type: ignore[assignment]  # a boolean has no keywords
    if keyword in GUARDS:
        return GUARDS[keyword](schema[keyword])
    alone = {keyword: place.content(keyword, _reference)}
    if keyword == "$ref":
        return {keyword: place.parts["$ref"][0][1].uri}
    for companion in _COMPANIONS.get(keyword, ()):
        if companion in schema:
            alone[companion] = place.content(companion, _reference)
    if keyword == "additionalProperties":
        for companion in ("properties", "patternProperties"):
            alone[companion] = dict.fromkeys(schema.get(companion, ()), True)
    return alone


def _texts(keyword: str, content: Any, value: Any) -> Iterator[str]:
    if keyword == "required":
        yield from (f"{_shown(name)} is missing" for name in content if name not in value)
    elif keyword == "dependentRequired":
        for name, needed in content.items():
            if name in value:
                yield from (
                    f"{_shown(other)} is missing beside {_shown(name)}" for other in needed if other not in value
                )
    elif keyword in GUARDS and len(value) > LONGEST and "if" in GUARDS[keyword](content):
        yield f"has {len(value)} characters; a {keyword} such as {_shown(content)} is tried on {LONGEST} at most"
    else:
        yield _TEXTS[keyword](content, value)


def _shown(value: Json) -> str:
    if isinstance(value, str):
        return orjson.dumps(value[:40]).decode() + ("…" if len(value) > 40 else "")
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return "an object" if isinstance(value, dict) else orjson.dumps(value).decode()


def _option(value: Json) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 42 else f"{text[:41]}…"


def _any_of(options: list[Json]) -> str:
    return ", ".join(map(_option, options[:_TOLD_OPTIONS])) + (", …" if len(options) > _TOLD_OPTIONS else "")


_TEXTS: Final[dict[str, Callable[[Any, Any], str]]] = {
    "type": lambda types, value: (
        f"{_shown(value)} is not of type {' or '.join([types] if isinstance(types, str) else types)}"
    ),
    "enum": lambda options, value: f"{_shown(value)} is not one of {_any_of(options)}",
    "const": lambda option, value: f"{_shown(value)} is not {_option(option)}",
    "minimum": lambda limit, value: f"{_shown(value)} is less than {limit}",
    "maximum": lambda limit, value: f"{_shown(value)} is greater than {limit}",
    "exclusiveMinimum": lambda limit, value: f"{_shown(value)} is not greater than {limit}",
    "exclusiveMaximum": lambda limit, value: f"{_shown(value)} is not less than {limit}",
    "multipleOf": lambda divisor, value: f"{_shown(value)} is not a multiple of {divisor}",
    "minLength": lambda limit, value: f"has {len(value)} characters, and needs {limit} or more",
    "maxLength": lambda limit, value: f"has {len(value)} characters, and may have {limit} at most",
    "pattern": lambda pattern, value: f"{_shown(value)} does not match {_shown(pattern)}",
    "format": lambda name, _value: f"is not {ASSERTED[name]}",
    "minItems": lambda limit, value: f"has {len(value)} members, and needs {limit} or more",
    "maxItems": lambda limit, value: f"has {len(value)} members, and may have {limit} at most",
    "uniqueItems": lambda _content, _value: "holds the same value twice",
    "contains": lambda _content, _value: "does not hold as many members of the kind as it must",
    "minProperties": lambda limit, value: f"has {len(value)} members, and needs {limit} or more",
    "maxProperties": lambda limit, value: f"has {len(value)} members, and may have {limit} at most",
    "propertyNames": lambda _content, _value: "has a member with a name that is not allowed",
    "anyOf": lambda options, _value: f"meets none of the {len(options)} alternatives",
    "oneOf": lambda options, _value: f"does not meet exactly one of the {len(options)} alternatives",
    "not": lambda _content, _value: "is what it must not be",
}
_SAYING: Final = _TEXTS.keys() | {
    *("$ref", "allOf", "if", "dependentSchemas", "properties", "patternProperties", "additionalProperties"),
    *("prefixItems", "items", "required", "dependentRequired"),
}
"""The keywords that can be wrong by themselves. What is unevaluated is told where none of them is."""
