"""Time and chance, the only place where they come from."""

import asyncio
import random
import secrets
import time


class Clock:
    """Wall time at the start plus the monotonic clock, so that a step of the system's clock ends no lease.

    Where several servers share a database, they all go by its clock: see `agree`.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._floor = 0
        self._agreed = False
        self._random = random.Random()  # noqa: S311  Spreads retries; nothing secret comes from it.

    def now(self) -> int:
        """Milliseconds since the epoch; never goes back."""
        return max(self._floor, self._read())

    def agree(self, there: int, took: int) -> None:
        """Another clock showed `there` (ms since the epoch) at some moment of the last `took` ms: this one follows it.

        The first time it may jump, afterwards it stands still until the other one has caught up.
        """
        if self._agreed:
            self._floor = self.now()
        ahead = self._read() - (there + took // 2)
        if abs(ahead) > took:  # Less than that may be the way of the answer.
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
        """Returns when the event is set or at `until` (ms since the epoch; 0 is never), whichever comes first."""
        if not until:
            await event.wait()
            return
        seconds = (until - self.now()) / 1000
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                pass
