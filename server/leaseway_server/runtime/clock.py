"""Time and chance, the only place where they come from."""

import asyncio
import random
import secrets
import time
from typing import Final

STEP_MS: Final = 500
"""The store's clock was set where it is off by at least so much at once; what is less is followed and not noticed."""


class Clock:
    """Wall time at the start plus the monotonic clock, so that a step of the system's clock ends no lease.

    Where several servers share a database, they all go by its clock: see `agree`. That may be set while they run: what
    is to last for a while is measured by `steady`, which takes no part in it.
    """

    def __init__(self) -> None:
        self.stepped = 0
        """By how much (ms) the store's clock was set since this one first agreed with it."""
        self._offset = time.time() - time.monotonic()
        self._floor = 0
        self._agreed = False
        self._random = random.Random()  # noqa: S311  Spreads retries; nothing secret comes from it.

    def now(self) -> int:
        """Milliseconds since the epoch; goes back only where the store's clock was set back."""
        return self.steady() + self.stepped

    def steady(self) -> int:
        """The same as if no clock was ever set: never goes back, and jumps no further than `STEP_MS`."""
        return max(self._floor, self._read())

    def agree(self, there: int, took: int) -> None:
        """The store's clock showed `there` (ms since the epoch) at some moment of the last `took` ms: `now` follows it.

        `steady` may jump with it the first time; afterwards it goes along with what is no step, and stands still until
        the other one has caught up.
        """
        ahead = self._read() + self.stepped - (there + took // 2)
        if abs(ahead) <= took:  # Less than that may be the way of the answer.
            pass
        elif self._agreed and abs(ahead) >= STEP_MS:
            self.stepped -= ahead
        else:
            self._floor = self.steady() if self._agreed else 0
            self._offset -= ahead / 1000
        self._agreed = True

    def _read(self) -> int:
        return int((time.monotonic() + self._offset) * 1000)

    def chance(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def secret(self) -> str:
        """A text that nobody can guess: 256 bits."""
        return secrets.token_urlsafe(32)

    async def wait(self, event: asyncio.Event, until: int) -> None:
        """Returns when the event is set or at `until` (ms, as `steady`; 0 is never), whichever comes first."""
        if not until:
            await event.wait()
            return
        seconds = (until - self.steady()) / 1000
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                pass
