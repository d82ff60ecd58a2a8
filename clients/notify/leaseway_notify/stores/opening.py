"""Opens the store that the settings name."""

from pathlib import Path

from leaseway_notify.errors import StoreRefused
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore


async def open_store(store: str) -> SqlStore:
    """`sqlite:FILE` or a URL of PostgreSQL. Raises `StoreRefused`."""
    if store.startswith("sqlite:"):
        return await open_sqlite(Path(store.removeprefix("sqlite:")))
    try:
        from leaseway_notify.stores.postgres import open_postgres  # Who uses SQLite needs no driver.
    except ModuleNotFoundError as missing:
        raise StoreRefused("PostgreSQL needs a driver: pip install 'leaseway[notify,postgres]'") from missing
    return await open_postgres(store)
