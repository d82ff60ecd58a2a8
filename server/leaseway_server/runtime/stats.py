"""The figures of one queue, told to those who watch them: at once, then at most twice a second while they change.

One timer a queue, which runs while anybody watches; each message is encoded once, however many do (PROTOCOL.md §3).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from leaseway_server.runtime.clock import Clock

PERIOD_MS: Final = 500


class StatsViewer(Protocol):
    """Somebody who watches the figures. Must be hashable, and must not wait in `offer_stats`."""

    def offer_stats(self, message: bytes) -> None:
        """The figures are others now."""
        ...


@dataclass(slots=True)
class _Told:
    """What a viewer was told last, and when (ms since the epoch)."""

    message: bytes
    at: int


class Stats:
    """Who watches the figures of one queue. `facts` gives what a message says beside its type."""

    def __init__(self, clock: Clock, facts: Callable[[], Mapping[str, object]]) -> None:
        self._clock = clock
        self._facts = facts
        self._viewers: dict[StatsViewer, _Told] = {}
        self._never = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None

    def show(self, viewer: StatsViewer) -> bytes:
        """The message as it stands now; from now on the viewer is offered the ones after it."""
        message = self._encode()
        self._viewers[viewer] = _Told(message, self._clock.steady())
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_on())
        return message

    def hide(self, viewer: StatsViewer) -> None:
        """Ends `show`; harmless where there was none."""
        self._viewers.pop(viewer, None)
        if not self._viewers and self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def tell(self) -> None:
        """Offers the message to those who were told another one, and that not less than half a second ago."""
        now, message = self._clock.steady(), self._encode()
        for viewer, told in list(self._viewers.items()):
            if told.message != message and now - told.at >= PERIOD_MS:
                told.message, told.at = message, now
                viewer.offer_stats(message)

    def __len__(self) -> int:
        return len(self._viewers)

    async def _tell_on(self) -> None:
        while True:
            await self._clock.wait(self._never, self._clock.steady() + PERIOD_MS)
            self.tell()

    def _encode(self) -> bytes:
        return orjson.dumps({"type": "stats", **self._facts()})
