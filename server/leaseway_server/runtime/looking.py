"""What can be seen of a queue's engine from outside its turns: lists, who waits, who holds what. Changes nothing."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from leaseway_server.core.commands import Ask
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.dispatch import Dispatch
from leaseway_server.core.errors import StoreAway, StoreBusy, StoreFull, StoreLost, Unavailable
from leaseway_server.core.listing import Filter, Page
from leaseway_server.core.match import Match
from leaseway_server.core.model import Position
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.leases import Lease, Leases
from leaseway_server.store.base import Store

Found = TypeVar("Found")
_log = logging.getLogger(__name__)


class Looking:
    """Looks at one engine's store and memory. `on_lost` is told where the store fails at that."""

    def __init__(
        self, store: Store, clock: Clock, dispatch: Dispatch, leases: Leases, on_lost: Callable[[StoreLost], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._dispatch = dispatch
        self._leases = leases
        self._on_lost = on_lost

    async def page(self, wanted: Filter, cursor: str, limit: int, *, results: bool = True) -> tuple[Page | None, int]:
        """A page of a list, and its time, ms since the epoch; see `Store.page`. Raises `Unavailable`."""
        now = self._clock.now()
        return await self._looked(self._store.page(wanted, cursor, limit, now, results=results)), now

    async def ahead(self, position: Position, most: int) -> int:
        """How many ready items are handed out before one at this position; see `Store.ahead`. Raises `Unavailable`."""
        return await self._looked(self._store.ahead(position, most))

    async def _looked(self, looking: Awaitable[Found]) -> Found:
        try:
            return await looking
        except (StoreAway, StoreBusy, StoreFull) as fault:
            raise Unavailable("the server cannot reach its database at the moment") from fault
        except StoreLost as lost:
            self._on_lost(lost)
            raise Unavailable("the store cannot be read") from lost

    def asked(self) -> list[Criteria]:
        """The criteria of the claims that wait, each once."""
        return self._dispatch.asked()

    def lease_end(self, item_id: str) -> tuple[int, bool]:
        """When an item's lease is taken away, and whether its socket is of before the start; see `Leases.end_of`."""
        return self._leases.end_of(item_id)

    def waiting(self, holder: int) -> list[tuple[Ask, int]]:
        """A socket's waiting claims, oldest first, and how many items each still takes."""
        return self._dispatch.waiting(holder)

    def held(self, holder: int, most: int) -> list[tuple[str, Lease]]:
        """What a socket holds as of the last commit, by id; at most so many."""
        return self._leases.held(holder, most)

    def holds(self, holder: int) -> int:
        """How many leases a socket holds."""
        return self._leases.number(holder)


async def index_members(store: Store, match: Match, queue: str) -> None:
    """Has the store index the members that `match` names, where it has indexed others. Before the first turn."""
    if await store.matched() == match:
        return
    said = {"queue": queue, "match": ",".join(match)}
    _log.info("the members to match are others now: indexing", extra={"event": "store.indexing", **said})
    rows = await store.rematch(match)
    _log.info("the members to match are indexed", extra={"event": "store.indexed", **said, "items": rows})
