"""Work that is done again and again beside everything else. What hinders one round does not end the others."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Never, TypeAlias

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


@asynccontextmanager
async def beside(ended: Callable[[], None], *works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does these beside the body, and no longer. `ended` is called when one of them ends; what it raised is raised."""
    tasks = [asyncio.create_task(one) for one in works]
    for task in tasks:
        task.add_done_callback(lambda _: ended())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
