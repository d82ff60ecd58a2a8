"""Processes that end with the test that started them, and what they print meanwhile."""

from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def ended_after(process: Process, *, gently: bool = False) -> AsyncIterator[Process]:
    """Kills it at the end, where it still runs; `gently` with SIGTERM, for one that has children to end."""
    try:
        yield process
    finally:
        if process.returncode is None:
            (process.terminate if gently else process.kill)()
        await process.communicate()


async def read_until(process: Process, words: str) -> str:
    """What it printed up to the line with these words."""
    assert process.stdout is not None
    printed = ""
    async for line in process.stdout:
        printed += line.decode()
        if words in printed:
            return printed
    raise AssertionError(f"it ended without {words!r}:\n{printed}")
