"""Reading TOML: each key once, each mistake with its file, its key and what was expected, all of them at once.

Knows no key of ours: those are in `settings.py`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from leaseway_notify.errors import NotifyError

T = TypeVar("T")

UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h|d)")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class SettingsRefused(NotifyError):
    """The settings cannot be used. `faults` are all mistakes that were found; the text has one a line."""

    def __init__(self, faults: Collection[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Wrong(ValueError):
    """A value cannot be taken; says what was expected."""


@dataclass(slots=True)
class Table:
    """One table of a file. Each key is taken by who knows it; `close` complains of the rest.

    `elsewhere`: where a value was said that is not the file's, by its key.
    """

    file: str
    values: Mapping[str, Any]
    faults: list[str]
    path: str = ""
    known: list[str] = field(default_factory=list)
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def take(self, name: str, read: Callable[[Any], T], default: T) -> T:
        """The value of a key, as `read` understands it; the default where it is absent, or wrong and refused."""
        self.known.append(name)
        if name not in self.values:
            return default
        try:
            return read(self.values[name])
        except Wrong as wrong:
            self.refuse(name, str(wrong))
            return default

    def table(self, name: str) -> "Table":
        """The table under a key; an empty one where it is absent, or wrong and refused."""
        return Table(self.file, self.take(name, _table, {}), self.faults, self._key(name), elsewhere=self.elsewhere)

    def refuse(self, name: str, message: str) -> None:
        """Tells a mistake at a key."""
        key = self._key(name)
        self.faults.append(f"{self.elsewhere.get(key, f'{self.file}: {key}')}: {message}")

    def close(self) -> None:
        """Refuses each key that nobody took."""
        for name in self.values:
            if name not in self.known:
                near = get_close_matches(name, self.known, n=1)
                meant = f'did you mean "{near[0]}"?' if near else f"known here: {', '.join(self.known)}"
                self.refuse(name, f"unknown key; {meant}")

    def _key(self, name: str) -> str:
        key = name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        return f"{self.path}.{key}" if self.path else key


def read_toml(file: Path) -> dict[str, Any]:
    """What a file says. Raises `SettingsRefused`."""
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        fault = "is not UTF-8"
    except RecursionError:
        fault = "is nested too deeply"
    except ValueError as error:  # tomllib's own error, or Python's for an integer of thousands of digits.
        fault = f"is not TOML: {error}"
    raise SettingsRefused([f"{file}: {fault}"])


def expected(what: str, value: object) -> Wrong:
    """The complaint that something else was expected."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return Wrong(f"expected {what}, found {shown if len(shown) <= 60 else shown[:59] + '…'}")


# ── Kinds of values ──


def duration(value: object) -> int:
    """A duration longer than 0, in ms."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    length = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < length <= 36_500 * UNITS["d"]:
        raise expected('a duration such as "90s", "5m" or "7d"', value)
    return length


def spell(length: int) -> str:
    """A duration as the file writes it."""
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if length % UNITS[unit] == 0)
    return f"{length // UNITS[unit]}{unit}"


def whole(least: int, most: int) -> Callable[[object], int]:
    """An integer within these bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise expected(f"a whole number from {least:_} to {most:_}", value)
        return value

    return read


def yes_or_no(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def text(value: object) -> str:
    """A text that says something, on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise expected("a text on one line", value)
    return value


def one_of(*words: T) -> Callable[[object], T]:
    """One of these words."""

    def read(value: object) -> T:
        for word in words:
            if word == value:
                return word
        raise expected(" or ".join(f'"{word}"' for word in words), value)

    return read


def each_of(read: Callable[[object], T]) -> Callable[[object], frozenset[T]]:
    """A list of such values."""

    def read_all(value: object) -> frozenset[T]:
        if not isinstance(value, list):
            raise expected("a list", value)
        return frozenset(read(one) for one in value)

    return read_all


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected("a table, that is keys of its own", value)
    return value
