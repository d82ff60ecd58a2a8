"""Which attempts must be remembered, as far as a program's answers and rows tell: the model that the table is held to.

Nothing of `core/attempts.py` is asked here. Items go by their names.
"""

from collections.abc import Mapping
from typing import Final

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.model import Item

Key = tuple[str, int]
"""An item, and the number of one of its attempts."""

_ENDINGS: Final = {"fail": "failed", "release": "released"}
_BY_THE_SERVER: Final = frozenset({"lost", "parted"})
_NOT_REMEMBERED: Final = frozenset({""})


class AttemptBook:
    """What is known of each attempt's end."""

    def __init__(self) -> None:
        self._told: dict[Key, str] = {}
        self._doubtful: set[Key] = set()

    def reported(self, name: str, verb: str, fence: int | None) -> None:
        """A report under this number was accepted. A result after a fail or a release undoes neither."""
        if fence is not None and verb in _ENDINGS:
            self._told[name, fence] = _ENDINGS[verb]
        elif fence is not None and verb == "result":
            self._told.setdefault((name, fence), "finished")

    def doubt(self, name: str, attempts: int) -> None:
        """How this attempt ended cannot be told: an answer was lost, or an administrator ended it."""
        self._doubtful.add((name, attempts))

    def check(self, rows: Mapping[str, Item], workers: Mapping[Key, str], table: Mapping[Key, Attempt]) -> None:
        """Holds the table to all that is known. `workers` had the attempts, of those that anybody was told."""
        for (name, number), attempt in table.items():
            assert name in rows, "an attempt of an item that is gone"
            assert number == attempt.attempts <= rows[name].attempts
            assert attempt.worker == workers.get((name, number), attempt.worker)
            assert attempt.started_at <= attempt.ended_at <= rows[name].updated_at
            assert bool(attempt.error) == (attempt.ending == "failed")
        for row in rows.values():
            for number in range(1, row.attempts + 1):
                found = table.get((row.id, number))
                ending = found.ending if found else ""
                assert ending in self._possible(row, number), (row.id, number, found)

    def _possible(self, row: Item, number: int) -> frozenset[str]:
        key = (row.id, number)
        told = self._told.get(key, "")
        if told in ("failed", "released"):
            return frozenset({told})
        if key in self._doubtful:
            return frozenset({*_BY_THE_SERVER, *_NOT_REMEMBERED, *_ENDINGS.values()})
        if told == "finished":
            return _NOT_REMEMBERED
        if number < row.attempts:
            return _BY_THE_SERVER
        return frozenset({row.ending}) & _BY_THE_SERVER or _NOT_REMEMBERED
