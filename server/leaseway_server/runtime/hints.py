"""Hints between servers: sent after the commit, gathered for a moment, and heard on a connection of its own.

They are a convenience: what a hint would have said is found by looking each second. Nothing is lost with one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from leaseway_server.core.errors import StoreError
from leaseway_server.runtime.clock import Clock
from leaseway_server.store.shared import Hints

GATHER_SECONDS: Final = 0.003
"""Hints follow each other by so much at least: those of one queue become one meanwhile."""
AGAIN_SECONDS: Final = 1.0
"""After a connection broke, or could not be made, about so long until the next try."""

_log = logging.getLogger(__name__)


class Messenger:
    """Sends and hears the hints of one server. `told` is told the queue's number, the server's, and what it says;
    `missed` that some may have been."""

    def __init__(
        self,
        hints: Hints,
        epoch: int,
        clock: Clock,
        told: Callable[[int, int, str], None],
        missed: Callable[[], None],
    ) -> None:
        self._hints = hints
        self._epoch = epoch
        self._clock = clock
        self._told = told
        self._missed = missed
        self._to_send: dict[str, None] = {}
        self._something = asyncio.Event()

    def send(self, queue: int, what: str) -> None:
        """Has it sent, once, however often it is said at this moment."""
        self._to_send[f"{queue}:{self._epoch}:{what}"] = None
        self._something.set()

    async def run(self) -> None:
        """Sends and listens until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_on())
            if self._hints.heard_at_once:
                group.create_task(self._listen_on())

    async def _send_on(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            hints, self._to_send = list(self._to_send), {}
            try:
                await self._hints.send(hints)
            except StoreError as fault:  # Others look by themselves; the turns tell that the database is away.
                _log.debug("hints could not be sent", extra={"event": "hints.unsent", "fault": str(fault)})
            await asyncio.sleep(GATHER_SECONDS)

    async def _listen_on(self) -> None:
        while True:
            try:
                async with self._hints.listening(self._heard) as gone:
                    self._missed()
                    await gone
            except StoreError as fault:
                _log.debug("hints cannot be heard", extra={"event": "hints.unheard", "fault": str(fault)})
            await asyncio.sleep(AGAIN_SECONDS * (0.5 + self._clock.chance()))

    def _heard(self, hint: str) -> None:
        """What is no hint of ours is none: anybody may notify."""
        queue, _, rest = hint.partition(":")
        server, _, what = rest.partition(":")
        if queue.isdecimal() and server.isdecimal() and int(server) != self._epoch:
            self._told(int(queue), int(server), what)
