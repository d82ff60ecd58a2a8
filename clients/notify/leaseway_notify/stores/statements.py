"""The statements of `queries.sql` and the migrations, as one database wants them. Runs none.

Both are written once: `Dialect` is all in which SQLite and PostgreSQL differ.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, Final

from leaseway_notify.delivery import Delivery, Notification
from leaseway_notify.stores.base import Token

PACKAGE: Final = "leaseway_notify.stores"
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"\$(\d+)")
_LIST: Final = re.compile(r"\{in \$(\d+)\}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database writes what is not the same everywhere; `\\1` is the number of a parameter."""

    schema: str
    parameter: str
    in_list: str
    for_update: str
    for_change: str
    for_staying: str
    text: str
    integer: str
    number: str
    strict: str


def names(of: type[Any], prefix: str = "") -> str:
    """The columns of a dataclass; with a prefix "d" they are `d.id AS d_id` and so on."""
    columns = [field.name for field in fields(of)]
    return ", ".join(f"{prefix}.{name} AS {prefix}_{name}" if prefix else name for name in columns)


def _values(of: type[Any]) -> str:
    return ", ".join(f"${number}" for number, _ in enumerate(fields(of), 1))


_SENDING: Final = f"{names(Delivery, 'd')}, {names(Notification, 'n')}"
_PARTS: Final = {
    "notification": names(Notification),
    "notification_values": _values(Notification),
    "delivery": names(Delivery),
    "delivery_values": _values(Delivery),
    "sending": _SENDING,
    "token": names(Token),
    "token_values": _values(Token),
    "entry": f"i.number, i.delivered_at, i.read_at, i.archived_at, {names(Notification, 'n')}",
}


def load_queries(dialect: Dialect) -> dict[str, str]:
    """The statements by name."""
    parts = _NAME.split(_read("queries.sql"))
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {name: _filled(_COMMENT.sub("", text).strip().rstrip(";"), dialect) for name, text in pairs}


def load_migrations(dialect: Dialect) -> list[tuple[int, list[str]]]:
    """The numbered scripts `0001_….sql`, in order, each as its statements."""
    folder = files(PACKAGE).joinpath("migrations")
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), list(_statements(_read(f"migrations/{name}"), dialect))) for name in scripts]


def _statements(script: str, dialect: Dialect) -> Iterable[str]:
    """None of ours has a semicolon within."""
    bare = re.sub(r"--.*", "", script)
    return (_filled(statement.strip(), dialect) for statement in bare.split(";") if statement.strip())


def _read(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _filled(text: str, dialect: Dialect) -> str:
    text = _LIST.sub(dialect.in_list, text)
    parts = _PARTS | {field.name: getattr(dialect, field.name) for field in fields(dialect)}
    text = re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], text)
    return _PARAMETER.sub(dialect.parameter, text)
