"""A store of notifications whose database is away when the test says so."""

from collections import defaultdict
from typing import Any

from leaseway_notify.delivery import Change
from leaseway_notify.errors import StoreAway
from leaseway_notify.stores.store import SqlStore


class Faulty(SqlStore):
    """`away` says for the next calls of a verb whether the database is away; after them it is there."""

    def __init__(self, real: SqlStore) -> None:
        super().__init__(real._database)
        self.away: defaultdict[str, list[bool]] = defaultdict(list)

    def _count(self, verb: str) -> None:
        if self.away[verb] and self.away[verb].pop(0):
            raise StoreAway("the database is away")

    async def begin(self, *said: Any) -> Any:
        """As the real one."""
        self._count("begin")
        return await super().begin(*said)

    async def profile(self, recipient: str) -> Any:
        """As the real one."""
        self._count("profile")
        return await super().profile(recipient)

    async def change(self, delivery_id: str, fence: int, change: Change, now: int, only: Any = None) -> bool:
        """As the real one."""
        self._count("change")
        return await super().change(delivery_id, fence, change, now, only)
