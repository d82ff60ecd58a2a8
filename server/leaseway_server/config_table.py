"""Reading a table of a configuration: each value with its type and bounds, each mistake with its file and key.

Knows no key of Leaseway's: which keys there are, and what they mean together, is in `config.py`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from leaseway_server.core.errors import LeasewayError

T = TypeVar("T")

UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST: Final = 36_500 * UNITS["d"]
"""No duration is longer: the end of it is still a time that everybody can keep."""
_DURATION: Final = re.compile(r"([0-9]{1,16})(ms|s|m|h|d)")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN: Final = 60
_NOT_YET: Final = "this version of Leaseway does not have this yet; take it out"


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


class Wrong(ValueError):
    """A value cannot be taken; the text says what was expected."""


class Table:
    """One table of a configuration. Each key is taken by who knows it; `close` complains of the rest."""

    def __init__(self, faults: list[Fault], file: str, values: Mapping[str, Any], path: str = "") -> None:
        self._faults = faults
        self._file = file
        self._values = values
        self._path = path
        self._known: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str, read: Callable[[Any], T], default: T) -> T:
        """The value of a key, as `read` understands it; the default where it is absent, or wrong and noted."""
        self._known.append(name)
        if name not in self._values:
            return default
        try:
            return read(self._values[name])
        except Wrong as wrong:
            self.refuse(name, str(wrong))
            return default

    def table(self, name: str) -> "Table":
        """The table under a key; an empty one where it is absent, or wrong and noted."""
        return Table(self._faults, self._file, self.take(name, _table, {}), self._key(name))

    def refuse(self, name: str, message: str) -> None:
        """Notes a mistake at a key."""
        self._faults.append(Fault(self._file, self._key(name), message))

    def close(self, later: Collection[str] = ()) -> None:
        """Notes each key that nobody took. Those of `later` are known, but not built yet."""
        for name in self._values:
            if name not in self._known:
                self.refuse(name, _NOT_YET if name in later else unknown(name, self._known, "key"))

    def _key(self, name: str) -> str:
        key = name if _BARE_KEY.fullmatch(name) else json.dumps(name)
        return f"{self._path}.{key}" if self._path else key


def unknown(name: str, known: Collection[str], what: str) -> str:
    """Says that there is no such key (or other thing), and which one was probably meant."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f'unknown {what}; did you mean "{near[0]}"?'
    return f"unknown {what}; known here: {', '.join(known)}"


# ── Values ──


def expected(what: str, value: object) -> Wrong:
    """The complaint that something else was expected."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return Wrong(f"expected {what}, found {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}")


def text(value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise expected("a text", value)
    return value


def duration(value: object) -> int:
    """A duration in ms, of 0 or more."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise expected('a duration such as "90s", "5m", "7d" or "500ms"', value)
    length = int(found[1]) * UNITS[found[2]]
    if length > LONGEST:
        raise expected(f"a duration of at most {spell(LONGEST)}", value)
    return length


def span(value: object) -> int:
    """A duration in ms, longer than 0."""
    length = duration(value)
    if not length:
        raise expected("a duration longer than 0", value)
    return length


def span_or_off(value: object) -> int:
    """As `span`, or 0 for "off"."""
    if value != "off" and not isinstance(value, str):
        raise expected('"off" or a duration such as "10m"', value)
    return 0 if value == "off" else span(value)


def spell(length: int) -> str:
    """A duration in ms as the configuration writes it, in the largest unit that fits."""
    unit = next((unit for unit in "dhms" if length and length % UNITS[unit] == 0), "ms")
    return f"{length // UNITS[unit]}{unit}"


def whole(least: int, most: int) -> Callable[[object], int]:
    """An integer within these bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise expected(f"a whole number from {least} to {most}", value)
        return value

    return read


def share(value: object) -> float:
    """A number from 0 to below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise expected("a number from 0 to below 1, such as 0.15", value)
    return float(value)


def durations(value: object) -> tuple[int, ...]:
    """Durations in ms, at least one."""
    if not isinstance(value, list) or not value:
        raise expected('a list of durations such as ["30s", "2m"]', value)
    return tuple(map(duration, value))


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected("a table, that is keys of its own", value)
    return value
