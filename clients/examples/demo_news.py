"""Waiting for something to become true, and what is raised when it does not. Knows nothing of what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DemoFailed(Exception):
    """The demo could not show what it wanted to show; the text says what and why."""


class News:
    """One bulletin for the whole demo: who changes something tells it, who waits looks again."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self._trouble: DemoFailed | None = None

    def tell(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = asyncio.Event()

    def fail(self, trouble: DemoFailed) -> None:
        """Nobody needs to wait any longer."""
        self._trouble = trouble
        self.tell()

    async def until(self, found: Callable[[], T | None], what: str, within: float = 60.0) -> T:
        """What `found` finds, as soon as that is true. Raises `DemoFailed` after so many seconds."""
        try:
            async with asyncio.timeout(within):
                while True:
                    if self._trouble:
                        raise self._trouble
                    if value := found():
                        return value
                    await self._next.wait()
        except TimeoutError:
            raise DemoFailed(f"waited {within:g} s in vain for this: {what}") from None
