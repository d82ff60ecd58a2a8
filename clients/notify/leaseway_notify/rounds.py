"""Work that is done again and again beside everything else. What hinders one round does not end the others."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Never, TypeAlias

from leaseway import LeasewayError
from leaseway_notify.errors import StoreAway

Pause: TypeAlias = Callable[[float], Awaitable[object]]
"""Returns after so many seconds."""
_log = logging.getLogger("leaseway.notify")


async def every(interval: int, work: Callable[[], Awaitable[object]], pause: Pause = asyncio.sleep) -> Never:
    """Does it at once, and again after each `interval`, ms. The database or the queue may be away meanwhile."""
    while True:
        try:
            await work()
        except (StoreAway, LeasewayError, TimeoutError) as error:
            _log.warning("a round is left out: %s", error)
        await pause(interval / 1000)
