"""Which kind of store a configuration names is decided here, once; all others know the interfaces of `store/` alone.

`sqlite` and `postgres` compose what each kind consists of; nothing is read or written here but by the stores.
"""

from importlib.util import find_spec
from typing import assert_never

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.place import Place, PostgresUrl, SqliteFolder
from leaseway_server.stores.base import Kind, Stores
from leaseway_server.stores.sqlite import SqliteKind

__all__ = ["Kind", "Stores", "kind_of"]


def kind_of(place: Place) -> Kind:
    """What can be done with a store there. Raises `StoreRefused` where its driver is missing."""
    match place:
        case SqliteFolder():
            return SqliteKind(place.folder)
        case PostgresUrl():
            if find_spec("asyncpg") is None:
                raise StoreRefused(
                    "a store in PostgreSQL needs asyncpg, which is not installed: pip install 'leaseway[postgres]'"
                )
            from leaseway_server.stores.postgres import PostgresKind  # With SQLite nobody needs its driver.

            return PostgresKind(place)
        case _:
            assert_never(place)
