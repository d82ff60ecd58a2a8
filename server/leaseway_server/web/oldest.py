"""Which item is ready longest, asked of an engine that may be stuck: for metrics and a queue's page of facts."""

import asyncio
from typing import Final

from leaseway_server.core.commands import Oldest, WaitsSince
from leaseway_server.runtime.engine import Engine

PATIENCE_SECONDS: Final = 1.0
"""So long an engine has to answer. One whose disk is stuck is not waited for: the rest is told."""


async def waits_since(engine: Engine) -> WaitsSince | None:
    """Since when the item is ready that is so longest; None where the engine does not say."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await engine.ask(Oldest())
    except TimeoutError:
        return None
    return found if isinstance(found, WaitsSince) else None
