"""Bad input of every kind, made from the wire schemas: each example with each of its members wrong in each way.

A new message is covered as soon as its schema is there. What of it all the server takes on purpose is said by the
tests, and how it is sent too.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from leaseway_schemas import wire, wire_names
from support.wire import is_valid, registry

Place = tuple[str | int, ...]

DEEP: Final[Any] = json.loads("[" * 65 + "]" * 65)
"""One level more than an item, a record or a result may have."""
UNKEEPABLE: Final[tuple[Any, ...]] = (2**64, -(2**63) - 1, "a\ud800")
"""What no JSON of the protocol may hold, whatever a schema says of the place (PROTOCOL.md, head)."""
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, -0.5, 2**53, 2**63, -(2**63)),
    *("", "x", "1", "x" * 201, "x" * 33_000, "a\nb", "\x00", "ü"),
    *([], [None], [[]], [{}], ["x"] * 10_001, DEEP, {}, {"": None}, {"id": {}}, {"$near": 1}, {"__proto__": {}}),
    {f"member {number}": number for number in range(10_000)},
)
LEFT_OUT: Final = object()


@dataclass(frozen=True, slots=True)
class Mutant:
    """A message with one member changed. `refused` says whether the wire schema, or JSON itself, forbids it."""

    place: Place
    value: Any
    message: Any
    refused: bool

    @property
    def pointer(self) -> str:
        """Where it was changed, as a JSON Pointer."""
        return "".join(f"/{step}" for step in self.place)

    def __str__(self) -> str:
        told = "is left out" if self.value is LEFT_OUT else f"is {repr(self.value)[:60]}"
        return f"{self.pointer or 'the message'} {told}"


def mutants(schema: str) -> Iterator[Mutant]:
    """All mutants of all examples of that wire schema."""
    document = wire(schema)
    for example in document["examples"]:
        for place in dict.fromkeys(_places(document, document["$id"], example)):
            for value in (LEFT_OUT, *VALUES, *UNKEEPABLE):
                message = _changed(example, place, value)
                if message is not LEFT_OUT and not _same(message, example):
                    unkeepable = any(value is each for each in UNKEEPABLE)
                    yield Mutant(place, value, message, unkeepable or not is_valid(schema, message))


def client_schemas(socket: str) -> Mapping[str, str]:
    """By verb, the schemas of what a client says on a socket: those of either socket are among them."""
    return {
        name.removeprefix(prefix): name
        for prefix in (f"{socket}-client-", "socket-client-")
        for name in wire_names()
        if name.startswith(prefix)
    }


def request_bodies() -> Mapping[str, tuple[str, str]]:
    """By schema, the method and path of each request that has a body: its title says them."""
    titles = {name: wire(name).get("title", "") for name in wire_names() if name.startswith("http-")}
    found = {name: re.match(r"The body of ([A-Z]+) (/[^\s,]+)", title) for name, title in titles.items()}
    return {name: (match[1], match[2]) for name, match in found.items() if match}


def _same(one: Any, other: Any) -> bool:
    """Equal to the letter: True is not 1, 1 is not 1.0."""
    return bool(one == other) and repr(one) == repr(other)


def _changed(example: Any, place: Place, value: Any) -> Any:
    """The example with that value at a place; `LEFT_OUT` where there was nothing to leave out."""
    if not place:
        return value
    message = copy.deepcopy(example)
    parent = message
    for step in place[:-1]:
        parent = parent[step]
    if value is not LEFT_OUT:
        parent[place[-1]] = value
    elif isinstance(parent, list) or parent.pop(place[-1], LEFT_OUT) is LEFT_OUT:
        return LEFT_OUT
    return message


def _places(schema: Any, base: str, value: Any) -> Iterator[Place]:
    """The value's own place, and that of each member which the schema knows, be it there or not."""
    yield ()
    for branch, its_base in _branches(schema, base):
        if isinstance(value, dict):
            for name, inner in branch.get("properties", {}).items():
                yield (name,)
                if name in value:
                    yield from ((name, *rest) for rest in _places(inner, its_base, value[name]))
        elif isinstance(value, list) and value and "items" in branch:
            yield from ((0, *rest) for rest in _places(branch["items"], its_base, value[0]))


def _branches(schema: Any, base: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """A schema and all that it refers to or is made of, each with the address that its references start from."""
    if not isinstance(schema, dict):
        return
    yield schema, base
    if reference := schema.get("$ref"):
        target = registry().resolver(base).lookup(urljoin(base, reference))
        yield from _branches(target.contents, urljoin(base, reference).partition("#")[0])
    for word in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(word, ()):
            yield from _branches(branch, base)
