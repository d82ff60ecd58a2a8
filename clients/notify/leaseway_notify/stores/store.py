"""The store, over either database: each part's verbs, put together."""

from leaseway_notify.stores.deliveries import Deliveries
from leaseway_notify.stores.keeping import Caps, Housekeeping, Tokens
from leaseway_notify.stores.planning import Outgoing, Planning
from leaseway_notify.stores.recipients import Inboxes, Profiles


class SqlStore(Planning, Outgoing, Deliveries, Profiles, Inboxes, Caps, Tokens, Housekeeping):
    """All verbs of `base.Store`. Use `open_sqlite` or `open_postgres`, then `close` or `async with`."""

    async def __aenter__(self) -> "SqlStore":
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of the database."""
        await self._database.close()
