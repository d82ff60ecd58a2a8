"""Which of PostgreSQL's errors mean what to a turn."""

import asyncpg
import pytest

from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost
from leaseway_server.store.postgres.faults import postgres_errors, translated


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (asyncpg.DiskFullError("no space"), StoreFull),
        (asyncpg.OutOfMemoryError("no memory"), StoreFull),
        (asyncpg.ReadOnlySQLTransactionError("a standby"), StoreFull),
        (asyncpg.InsufficientPrivilegeError("not any more"), StoreFull),
        (asyncpg.UndefinedFileError("a file of a table is gone"), StoreFull),
        (asyncpg.ConfigurationLimitExceededError("no more temporary files"), StoreFull),
        (asyncpg.DeadlockDetectedError("deadlock"), StoreBusy),
        (asyncpg.SerializationError("serialization"), StoreBusy),
        (asyncpg.LockNotAvailableError("lock timeout"), StoreBusy),
        (asyncpg.QueryCanceledError("statement timeout"), StoreAway),
        (asyncpg.AdminShutdownError("shut down"), StoreAway),
        (asyncpg.CannotConnectNowError("starting"), StoreAway),
        (asyncpg.TooManyConnectionsError("too many"), StoreAway),
        (asyncpg.OperatorInterventionError("stop"), StoreAway),
        (asyncpg.StatementCompletionUnknownError("done or not"), StoreAway),
        (asyncpg.ConnectionDoesNotExistError("gone"), StoreAway),
        (asyncpg.InvalidPasswordError("another one by now"), StoreAway),
        (asyncpg.InterfaceError("the connection is closed"), StoreAway),
        (ConnectionRefusedError("nobody"), StoreAway),
        (asyncpg.InternalClientError("cannot switch to state 15"), StoreAway),
        (TimeoutError(), StoreAway),
        (asyncpg.UndefinedTableError("no such table"), StoreLost),
        (asyncpg.InvalidSchemaNameError("no such schema"), StoreLost),
        (asyncpg.UndefinedColumnError("no such column"), StoreLost),
    ],
)
def test_what_is_not_the_datas_fault_is_an_error_of_ours(error: Exception, ours: type[Exception]) -> None:
    with pytest.raises(ours, match=str(error) or "TimeoutError"), postgres_errors():
        raise error


@pytest.mark.parametrize(
    "error", [asyncpg.UniqueViolationError("twice"), asyncpg.DataError("no int"), asyncpg.InterfaceError("3 arguments")]
)
def test_a_fault_of_the_data_passes_as_it_is(error: Exception) -> None:
    assert translated(error) is None
    with pytest.raises(type(error)), postgres_errors():
        raise error


def test_what_broke_the_connection_is_told_and_not_what_followed() -> None:
    def break_and_undo() -> None:
        try:
            raise asyncpg.AdminShutdownError("shut down")
        finally:
            raise asyncpg.InterfaceError("the connection is closed")

    with pytest.raises(StoreAway, match="shut down"), postgres_errors():
        break_and_undo()
