"""SIGINT and SIGTERM: the first one asks for an end in order, the next one ends the process on the spot."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def until_signal(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Does work to its end, and sets its event at the first signal. To be called in the main thread."""

    async def working() -> T:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def on_signal() -> None:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)
            stop.set()

        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal)
        return await work(stop)

    return asyncio.run(working())
