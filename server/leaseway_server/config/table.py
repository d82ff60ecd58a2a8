"""Reading a table of a configuration: each key once, each mistake with its file and key.

Knows no key of Leaseway's, and no kind of value: those are in `load` and `values`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from leaseway_server.config.values import Wrong, expected
from leaseway_server.core.errors import LeasewayError

T = TypeVar("T")

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake: in which file (or other place), at which key or JSON Pointer ("" is the whole), and what it is."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.message) if part)


class ConfigRefused(LeasewayError):
    """The configuration cannot be used. `faults` are all mistakes that were found; the text has one a line."""

    def __init__(self, faults: Collection[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a configuration, all of it."""

    faults: list[Fault] = field(default_factory=list)


class Table:
    """One table of a configuration. Each key is taken by who knows it; `close` complains of the rest."""

    def __init__(self, found: Findings, file: str, values: Mapping[str, Any], path: str = "") -> None:
        self._found = found
        self._file = file
        self._values = values
        self._path = path
        self._known: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str, read: Callable[[Any], T], default: T) -> T:
        """The value of a key, as `read` understands it; the default where it is absent, or wrong and refused."""
        self._known.append(name)
        if name not in self._values:
            return default
        try:
            return read(self._values[name])
        except Wrong as wrong:
            for message in wrong.args:
                self.refuse(name, message)
            return default

    def table(self, name: str) -> "Table":
        """The table under a key; an empty one where it is absent, or wrong and refused."""
        return Table(self._found, self._file, self.take(name, _table, {}), self.key(name))

    def refuse(self, name: str, message: str) -> None:
        """Tells a mistake at a key."""
        self._found.faults.append(Fault(self._file, self.key(name), message))

    def close(self) -> None:
        """Refuses each key that nobody took."""
        for name in self._values:
            if name not in self._known:
                self.refuse(name, unknown(name, self._known, "key"))

    def key(self, name: str) -> str:
        """The full name of a key, as TOML writes it."""
        key = name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        return f"{self._path}.{key}" if self._path else key


def unknown(name: str, known: Collection[str], what: str) -> str:
    """Says that there is no such key (or other thing), and which one was probably meant."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f'unknown {what}; did you mean "{near[0]}"?'
    return f"unknown {what}; known here: {', '.join(known)}"


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected("a table, that is keys of its own", value)
    return value
