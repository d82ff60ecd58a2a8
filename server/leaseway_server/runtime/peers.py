"""The servers that share a store: this one says each second that it is alive, and learns who else is.

Whoever says nothing for some seconds is gone; whoever speaks again is back. What follows from either is each engine's.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from leaseway_server.core.errors import StoreError
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.surroundings import Surroundings
from leaseway_server.store.shared import Registry, Roll

BEAT_SECONDS: Final = 1.0
JOIN_SECONDS: Final = 0.1
JOIN_ROLLS: Final = 30
"""So many rolls at most a server waits until the others have seen it; who is not there by then is about to be gone."""
FORGET_SECONDS: Final = 600.0
"""Those that are gone for long are looked for so seldom; no beat waits for that."""

_log = logging.getLogger(__name__)


class Peers:
    """This server among the others. `queues` are the surroundings of all its queues; `missed` is told where the store
    did not answer."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        queues: Callable[[], Collection[Surroundings]],
        missed: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._queues = queues
        self._missed = missed
        self._alive: frozenset[int] = frozenset()
        self._newest = 0

    async def join(self) -> None:
        """Returns when all others know of this server: from then on their turns say what they change."""
        roll = await self._beat()
        known_from = roll.now
        for _ in range(JOIN_ROLLS):
            if all(beat_at > known_from for beat_at in roll.alive.values()):
                break
            await asyncio.sleep(JOIN_SECONDS)
            roll = await self._beat()
        self._meet(roll)

    def introduce(self, queue: Surroundings) -> None:
        """It learns who is there, from the first on."""
        queue.meet(self._alive, self._newest)

    async def run(self) -> None:
        """Says so each second until it is cancelled, and has those forgotten that are gone for long."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_on())
            group.create_task(self._forget_on())

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                self._meet(await self._beat())
            except StoreError:
                self._missed()

    async def _forget_on(self) -> None:
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            with suppress(StoreError):  # Another server may do it, or this one the next time.
                await self._registry.forget()

    async def leave(self) -> None:
        """A planned stop: the others need not wait to see that it is gone."""
        try:
            await self._registry.leave()
        except StoreError as fault:
            _log.warning("the others were not told of the stop", extra={"event": "peers.untold", "fault": str(fault)})

    async def _beat(self) -> Roll:
        began, stepped = self._clock.steady(), self._clock.stepped
        roll = await self._registry.beat()
        self._clock.agree(roll.now, self._clock.steady() - began)
        if by := self._clock.stepped - stepped:
            said = {"event": "store.clock_set", "ms": by}
            _log.warning("the database's clock was set; leases count anew", extra=said)
        return roll

    def _meet(self, roll: Roll) -> None:
        alive = frozenset(roll.alive)
        if alive != self._alive:
            said = {"event": "peers.changed", "servers": len(alive) + 1, "gone": sorted(self._alive - alive)}
            _log.info("the servers that share the store are others now", extra=said)
        self._alive, self._newest = alive, roll.newest
        for queue in self._queues():
            self.introduce(queue)
