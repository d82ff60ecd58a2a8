"""This server among others that share its store: who they are, hints to and from them, what they do to each queue.

Where nobody can share the store, all of this is nothing.
"""

import asyncio
from functools import partial
from typing import Any

from leaseway_server.core.queue import Queue
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.engine import Engine
from leaseway_server.runtime.hints import Messenger
from leaseway_server.runtime.neighbours import Neighbours
from leaseway_server.runtime.peers import Peers
from leaseway_server.runtime.surroundings import Surroundings
from leaseway_server.store.base import Store
from leaseway_server.store.shared import Sharing


class Cluster:
    """The servers of one store, as one of them sees it; `sharing` is None where it has its store to itself."""

    def __init__(self, sharing: Sharing | None, clock: Clock) -> None:
        self._sharing = sharing
        self._clock = clock
        self._engines: list[Engine] = []
        self._surroundings: dict[int, Surroundings] = {}
        """Theirs, by the number of their queues."""
        if sharing is not None:
            epoch = sharing.registry.epoch
            self._peers = Peers(sharing.registry, clock, self._surroundings.values, self._suspect_store)
            self._messenger = Messenger(sharing.hints, epoch, clock, self._hear, self._suspect)

    def engine(self, queue: Queue, store: Store, **options: Any) -> Engine:
        """The engine of a queue, among those of the others; `options` as `Engine` has them. Once it has joined."""
        if self._sharing is None:
            return Engine(queue, store, self._clock, **options)
        shared = self._sharing.queue(queue.name)
        neighbours = Neighbours(shared, self._sharing.registry.epoch, partial(self._messenger.send, shared.number))
        engine = Engine(queue, store, self._clock, neighbours=neighbours, **options)
        assert engine.surroundings is not None
        self._engines.append(engine)
        self._surroundings[shared.number] = engine.surroundings
        self._peers.introduce(engine.surroundings)
        return engine

    async def join(self) -> None:
        """Returns when the others know of this server, and its clock is the store's; before there is any engine."""
        if self._sharing is not None:
            await self._peers.join()

    async def run(self) -> None:
        """Keeps in touch with the others until it is cancelled."""
        if self._sharing is not None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._peers.run())
                group.create_task(self._messenger.run())

    async def leave(self) -> None:
        """A planned stop."""
        if self._sharing is not None:
            await self._peers.leave()

    def _hear(self, queue: int, server: int, what: str) -> None:
        if (surroundings := self._surroundings.get(queue)) is not None:
            surroundings.hint(server, what)

    def _suspect(self) -> None:
        for surroundings in self._surroundings.values():
            surroundings.suspect()

    def _suspect_store(self) -> None:
        for engine in self._engines:
            engine.suspect()  # Each has a connection of its own, and may be as well as before.
