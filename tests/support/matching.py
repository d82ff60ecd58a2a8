"""Expectations with placeholders, as transcripts write them (schemas/README.md, Matching).

Owns the names that a transcript gives to values. Knows no socket and no schema.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

_KINDS: dict[str, Callable[[Any], bool]] = {
    "time": lambda value: _is_integer(value) and value >= 0,
    "number": lambda value: _is_integer(value),
    "text": lambda value: isinstance(value, str),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
}
_WORDS = frozenset({"$any", "$same", "$above", "$absent", "$capture"})
_MISSING: Any = object()


class Names:
    """The values that a transcript knows by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def fill(self, said: Any) -> Any:
        """What is really said: each `{"$same": name}` replaced by its value."""
        match said:
            case {"$same": str(name)} if len(said) == 1:
                return self._values[name]
            case dict():
                return {key: self.fill(value) for key, value in said.items()}
            case list():
                return [self.fill(value) for value in said]
            case _:
                return said

    def write(self, path: str) -> str:
        """A path with each `{name}` replaced by its value."""
        return re.sub(r"\{([^}]+)\}", lambda found: str(self._values[found[1]]), path)

    def match(self, wanted: Any, got: Any) -> None:
        """Hold a message against what is expected, and remember what it captures; else `AssertionError`."""
        if isinstance(wanted, dict) and isinstance(got, dict) and not is_placeholder(wanted):
            for key, value in wanted.items():
                assert self._meets(value, got.get(key, _MISSING)), f"{key} is not as told, in {got}"
        else:
            assert self._meets(wanted, got), f"not as told: {got}"

    def _meets(self, wanted: Any, got: Any) -> bool:
        if is_placeholder(wanted):
            return self._meets_placeholder(wanted, got)
        if isinstance(wanted, dict) and isinstance(got, dict):
            return wanted.keys() == got.keys() and all(self._meets(wanted[key], got[key]) for key in got)
        if isinstance(wanted, list) and isinstance(got, list):
            return len(wanted) == len(got) and all(map(self._meets, wanted, got))
        # True is not 1, for a client in any language.
        return isinstance(wanted, bool) == isinstance(got, bool) and bool(wanted == got)

    def _meets_placeholder(self, wanted: Mapping[str, Any], got: Any) -> bool:
        if "$absent" in wanted:
            return got is _MISSING
        meets = (
            got is not _MISSING
            and ("$any" not in wanted or _KINDS[wanted["$any"]](got))
            and ("$same" not in wanted or self._meets(self._values[wanted["$same"]], got))
            and ("$above" not in wanted or got > self._values[wanted["$above"]])
        )
        if meets and "$capture" in wanted:
            self._values[wanted["$capture"]] = got
        return meets


def is_placeholder(value: Any) -> bool:
    """Whether an expected value stands for others."""
    return isinstance(value, dict) and bool(value) and value.keys() <= _WORDS


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
