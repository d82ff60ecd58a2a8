"""What a queue consists of: tables whose rows are copied as they are, in the order of their keys, in slices. No I/O.

Both kinds of store have the same columns, and JSON as text that nobody looks into. Only the numbers of sockets differ:
they hold the count of a store's starts, which are counted by each store for itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from leaseway_server.core.match import MOST_MATCHES
from leaseway_server.core.model import HTTP
from leaseway_server.store.columns import COLUMNS

Row: TypeAlias = tuple[Any, ...]
Key: TypeAlias = tuple[int, ...]

SLICE_ROWS: Final = 2_000
SLICE_CHARACTERS: Final = 4 * 1024 * 1024
"""A slice ends after so many rows, or with the one that makes it so long. Two of them are in memory, and one goes in
one transaction."""
_EPOCH_BITS: Final = 32
ADRIFT: Final = 1
"""The start that the sockets of leases are of while they are in no store."""


@dataclass(frozen=True, slots=True)
class Table:
    """`columns` begin with those of the key; `large` may be long."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    large: tuple[str, ...]

    @property
    def first(self) -> Key:
        """A key before all others."""
        return (-1,) * len(self.key)

    def key_of(self, row: Sequence[Any]) -> Key:
        """The key of a row."""
        return tuple(row[: len(self.key)])

    def fill(self, statement: str, **more: object) -> str:
        """A statement of either store, with what this table has for its {…}, and `more` that only that store asks."""
        parts = {
            "table": self.name,
            "columns": ", ".join(self.columns),
            "key": ", ".join(self.key),
            "key_down": ", ".join(f"{name} DESC" for name in self.key),
            **more,
        }
        for name, value in parts.items():
            statement = statement.replace(f"{{{name}}}", str(value))
        return statement


_MATCHES: Final = tuple(f"match_{number}" for number in range(1, MOST_MATCHES + 1))
ITEM: Final = Table("item", (*COLUMNS, *_MATCHES), ("seq",), ("meta", "progress", "error", *_MATCHES))
BODY: Final = Table("body", ("seq", "value"), ("seq",), ("value",))
RESULT: Final = Table("result", ("seq", "value"), ("seq",), ("value",))
ATTEMPT: Final = Table(
    "attempt",
    ("seq", "attempts", "worker", "started_at", "ended_at", "ending", "error"),
    ("seq", "attempts"),
    ("error",),
)
TABLES: Final = (BODY, RESULT, ATTEMPT, ITEM)

STATUS: Final = ITEM.columns.index("status")
_HOLDER: Final = ITEM.columns.index("holder")


def with_epoch(table: Table, rows: Iterable[Sequence[Any]], epoch: int) -> list[Row]:
    """The rows, whose leases are held by sockets of this start. Those over HTTP stay as they are."""
    if table is not ITEM:
        return [tuple(row) for row in rows]
    return [
        (*row[:_HOLDER], _held(row[_HOLDER], epoch), *row[_HOLDER + 1 :]) if row[_HOLDER] > HTTP else tuple(row)
        for row in rows
    ]


def _held(holder: int, epoch: int) -> int:
    return epoch << _EPOCH_BITS | holder & ((1 << _EPOCH_BITS) - 1)
