"""What goes wrong at a PostgreSQL, as our errors: the only place that knows its codes (SQLSTATE).

What the data of a turn is to blame for passes as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import asyncpg

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreError, StoreFull, StoreGone

ALL: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Whatever the driver raises for what goes wrong at the other end, or on the way there."""
_FULL: Final = frozenset(
    {
        "25006",  # read-only transaction: a database that was set so, or a standby behind a pooler
        "42501",  # rights that were taken away meanwhile
    }
)
_FULL_CLASSES: Final = frozenset({"53", "58"})
"""It has no space, no memory, or cannot read or write a file. A fault of its log ends it instead."""
_BUSY: Final = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # a lock was not had in time
    }
)
_AWAY: Final = frozenset(
    {
        "25P03",  # idle for too long within a transaction: this process stood still
        "25P04",  # the transaction took too long
        "53300",  # too many connections
        "3D000",  # there is no such database
        "40003",  # it does not know itself whether a statement was done
    }
)
_GONE: Final = frozenset(
    {
        "3F000",  # there is no such schema
        "42P01",  # there is no such table
        "42703",  # there is no such column
    }
)
"""What only happens where somebody removed the tables, or changed them, under a running server."""
_AWAY_CLASSES: Final = frozenset({"08", "28", "57"})
"""Faults of the connection, of who may connect, and what an operator does: it stops, starts, crashed, or something was
canceled (57014, see `in_step`)."""


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Turns what is not the data's fault into `StoreFull`, `StoreBusy`, `StoreAway` or `StoreGone`."""
    try:
        yield
    except ALL as error:
        ours = translated(_first(error))
        if ours is None:
            raise
        raise ours from error


@contextmanager
def in_step(connection: "Breakable") -> Iterator[None]:
    """Ends a connection on which anything was canceled, that has no answer in time, or that leads to who may only read.

    A cancel may come when the statement that it was meant for is answered already. Then its error is read as the answer
    to the next one, whose own answer to the one behind that: nothing that is heard there can be believed any more, not
    even that a COMMIT was not done. Where no answer came, a path may be broken that swallows all that follows, too; and
    in a failover a pooler may lead to a standby for a while. The next connection may do better.
    """
    try:
        yield
    except (asyncpg.QueryCanceledError, asyncpg.ReadOnlySQLTransactionError, TimeoutError):
        end(connection)
        raise


def end(connection: "Breakable") -> None:
    """Ends it, unless it has ended already, so that the pool which it is of has taken it back."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


class Breakable(Protocol):
    """A connection that can be ended at once."""

    def terminate(self) -> None:
        """Ends it."""
        ...


def _first(error: Exception) -> Exception:
    """What broke the connection, where this is only that a broken one cannot end its transaction."""
    before = error.__context__
    if isinstance(error, asyncpg.InterfaceError) and isinstance(before, asyncpg.PostgresError | OSError):
        return before
    return error


def translated(error: Exception) -> StoreError | None:
    """The error of ours that says this; None where the data is at fault."""
    text = said_by(error)
    if isinstance(error, asyncpg.InterfaceError):
        return StoreAway(text) if "closed" in text else None  # Else it is about arguments that do not fit.
    if not isinstance(error, asyncpg.PostgresError):
        return StoreAway(text)
    code = error.sqlstate or ""
    if code in _AWAY or code[:2] in _AWAY_CLASSES:
        return StoreAway(text)
    if code in _FULL or code[:2] in _FULL_CLASSES:
        return StoreFull(text)
    if code in _GONE:
        return StoreGone(f"its tables were removed or changed meanwhile: {text}")
    return StoreBusy(text) if code in _BUSY else None


def said_by(error: Exception) -> str:
    """What it says in one line: what stands behind that may be data."""
    return (str(error.args[0]) if error.args and isinstance(error.args[0], str) else str(error)) or type(error).__name__
