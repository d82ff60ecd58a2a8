"""What all requests and sockets share: the queues that are served, who may use them, and the planned stop."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final, Protocol

from leaseway_server.core.access import Grants
from leaseway_server.core.commands import Read
from leaseway_server.core.errors import StoreError
from leaseway_server.core.queue import Queue
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.engine import Engine
from leaseway_server.store.access import AccessStore

_log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 3.0
"""So long a planned stop waits for what is under way on the sockets."""


class OpenSocket(Protocol):
    """A socket that is open. `token_id` is "" where it came without a token."""

    token_id: str

    def expel(self) -> None:
        """Its token is not valid any more: it is closed with 4401."""
        ...

    async def drain(self) -> None:
        """Sends what is still to be sent, and closes with 1012."""
        ...


@dataclass(slots=True)
class ServedQueue:
    """One queue at work: its engine, who may do what, and the sockets that are open on it."""

    queue: Queue
    grants: Grants
    engine: Engine
    sockets: set[OpenSocket] = field(default_factory=set)


@dataclass(slots=True)
class Site:
    """One server. `stopping` is set when the planned stop begins: whoever waits for something answers at once."""

    queues: dict[str, ServedQueue]
    tokens: AccessStore
    clock: Clock
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def grants(self) -> dict[str, Grants]:
        """To whom each queue gives which right."""
        return {name: served.grants for name, served in self.queues.items()}

    @property
    def ready(self) -> bool:
        """Whether work can be taken in: nothing is stopping, and every store can be written."""
        return not self.stopping.is_set() and all(served.engine.writable for served in self.queues.values())

    def refresh(self) -> None:
        """Reads the tokens again, and closes the sockets of those that are revoked or expired; call it each second."""
        try:
            self.tokens.refresh()
        except StoreError as error:
            _log.error("the tokens cannot be read; those that are known still count", extra={"fault": str(error)})
        now = self.clock.now()
        for served in self.queues.values():
            for socket in list(served.sockets):
                if socket.token_id and not self.tokens.still_valid(socket.token_id, now):
                    socket.expel()

    async def drain(self) -> None:
        """The planned stop (PROTOCOL.md §6): claims end, reports under way are let in, sockets close with 1012."""
        self.stopping.set()
        for served in self.queues.values():
            served.engine.close_claims()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(self._drain(served) for served in self.queues.values()))
        except TimeoutError:
            pass  # A client that never reads; its socket is cut when the process ends.

    async def _drain(self, served: ServedQueue) -> None:
        await served.engine.ask(Read(()))  # What was said before is answered before this is.
        await asyncio.gather(*(socket.drain() for socket in list(served.sockets)))
