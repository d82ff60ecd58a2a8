"""The statements of `queries.sql`, and those that depend on how many columns are written. Runs none."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from leaseway_server.core.match import MOST_MATCHES
from leaseway_server.store.columns import COLUMNS
from leaseway_server.store.postgres.schema import PACKAGE
from leaseway_server.store.queries import load_queries

_TEXTS: Final = frozenset({"status", "ending", "posted_by", "lease_user", "worker", "key"})
_BYTES: Final = frozenset({"meta", "progress", "error", *(f"match_{column}" for column in range(1, MOST_MATCHES + 1))})
_INTEGERS: Final = frozenset({"rank", "attempts", "attempts_base", "failures", "losses", "max_attempts"})
_SMALL: Final = frozenset({"ready", "held"})


def _type(column: str) -> str:
    for columns, name in ((_TEXTS, "text"), (_BYTES, "bytea"), (_INTEGERS, "integer"), (_SMALL, "smallint")):
        if column in columns:
            return name
    return "bigint"


def _arrays(columns: Iterable[str], first: int) -> str:
    """A parameter each, for the values of all rows in that column; numbered from `first` on."""
    return ", ".join(f"${number}::{_type(column)}[]" for number, column in enumerate(columns, first))


def _queries() -> dict[str, str]:
    columns = ", ".join(COLUMNS)
    queries = load_queries(PACKAGE, "queries.sql") | load_queries(PACKAGE, "lists.sql")
    return {
        name: text.replace("{columns}", columns).replace("{wanted}", queries["wanted"])
        for name, text in queries.items()
    }


SQL: Final = _queries()


@lru_cache(512)
def insert(columns: tuple[str, ...], indexed: int) -> str:
    """Writes these columns, then the texts of so many members that `match` names, and the bodies last."""
    named = (*columns, *(f"match_{column}" for column in range(1, indexed + 1)))
    parts = {"{names}": ", ".join(named), "{arrays}": _arrays(named, 2), "{bodies}": f"${len(named) + 2}"}
    return _filled("insert", parts)


@lru_cache(512)
def update(columns: tuple[str, ...]) -> str:
    """Writes these columns; the row numbers come first, then a parameter each."""
    parts = {
        "{assignments}": ", ".join(f"{name} = after.{name}" for name in columns),
        "{arrays}": _arrays(columns, 3),
        "{names}": ", ".join(columns),
    }
    return _filled("update", parts)


@lru_cache
def pick_match(column: int) -> str:
    """Picks by this column of `match`."""
    return _filled("pick_match", {"{match}": f"match_{column}"})


def _filled(name: str, parts: dict[str, str]) -> str:
    text = SQL[name]
    for mark, value in parts.items():
        text = text.replace(mark, value)
    return text
