"""Opens the store that the settings name."""

from pathlib import Path

from leaseway_notify.stores.store import SqlStore


async def open_store(store: str) -> SqlStore:
    """`sqlite:FILE` or a URL of PostgreSQL. Raises `StoreRefused`."""
    if store.startswith("sqlite:"):
        from leaseway_notify.stores.sqlite import open_sqlite

        return await open_sqlite(Path(store.removeprefix("sqlite:")))
    from leaseway_notify.stores.postgres import open_postgres  # Who uses SQLite needs no driver.

    return await open_postgres(store)
