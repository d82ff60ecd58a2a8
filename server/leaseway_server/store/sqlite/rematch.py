"""The columns of what `match` names, computed anew where a queue's configuration names other members than before.

In slices, each a transaction of its own. Until the last one is done the file says that its columns are of no
configuration at all: a start that ends in between, however, makes the next one begin again.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

import orjson

from leaseway_server.core.jsontext import parse
from leaseway_server.core.match import Match, column_texts
from leaseway_server.store import bounds
from leaseway_server.store.sqlite.turn import SQL

_UNDER_WAY: Final = "null"


def matched(connection: sqlite3.Connection) -> Match | None:
    """What the columns are computed for; None where that was not finished."""
    found = orjson.loads(connection.execute(SQL["matched"]).fetchone()[0])
    return None if found is None else tuple(found)


def rematch(connection: sqlite3.Connection, match: Match) -> Iterator[int]:
    """Computes all columns for `match`. Gives after each slice how many rows it had."""
    connection.execute(SQL["set_matched"], (_UNDER_WAY,))
    seq = 0
    while rows := _slice(connection, seq):
        seq = rows[-1][0]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(SQL["set_match"], [(*column_texts(parse(body), match), row) for row, body in rows])
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        yield len(rows)
    connection.execute(SQL["set_matched"], (orjson.dumps(match).decode(),))


def _slice(connection: sqlite3.Connection, after: int) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    size = 0
    for seq, body in connection.execute(SQL["to_match"], (after, bounds.REMATCH_ROWS)):
        rows.append((seq, body))
        size += len(body)
        if size > bounds.REMATCH_CHARACTERS:
            break
    return rows
