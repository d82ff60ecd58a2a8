"""A clock that only a test moves. Owns time and chance of tests; nothing here waits for real time."""

import asyncio
from typing import Final

from leaseway_server.runtime.clock import Clock

START: Final = 1_800_000_000_000


class ManualClock(Clock):
    """It stands still until `advance`, and is set by `step`. `chance` gives `dice`, which a test may set."""

    def __init__(self, start: int = START) -> None:
        super().__init__()
        self.dice = 0.5
        self._now = start
        self._sleepers: dict[asyncio.Future[object], int] = {}

    def steady(self) -> int:
        """Milliseconds since the epoch, as far as the test has moved it."""
        return self._now

    def step(self, ms: int) -> None:
        """The store's clock is set by so much, and it is seen at once."""
        self.stepped += ms

    def chance(self) -> float:
        """What the test says it is."""
        return self.dice

    def advance(self, ms: int) -> None:
        """Moves the time on, and wakes those whose time has come."""
        self._now += ms
        for sleeper, until in list(self._sleepers.items()):
            if until <= self._now and not sleeper.done():
                sleeper.set_result(None)

    async def wait(self, event: asyncio.Event, until: int) -> None:
        """Returns when the event is set or the clock was moved to `until` (0 is never)."""
        if event.is_set() or 0 < until <= self._now:
            return
        sleeper: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        setting: asyncio.Future[object] = asyncio.ensure_future(event.wait())
        if until:
            self._sleepers[sleeper] = until
        try:
            await asyncio.wait({sleeper, setting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sleepers.pop(sleeper, None)
            sleeper.cancel()
            setting.cancel()
