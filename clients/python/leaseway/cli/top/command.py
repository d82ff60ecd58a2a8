"""`leaseway top`: watches queues, and shows how they stand again and again until Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from leaseway.cli.options import json_option, token_option
from leaseway.cli.remote import CannotReach
from leaseway.cli.top.screens import Screen, screen_for
from leaseway.cli.top.sources import Source, sources_at
from leaseway.errors import AccessRefused, Rejected

TOLD_WITHIN: Final = 10.0
"""Seconds in which a live server pushes its first figures."""


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--once", is_flag=True, help="Show how it stands now, and end.")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Show it so often; without this each 2 s, and twice a second on a terminal.",
)
@token_option
@json_option
def top(urls: Sequence[str], once: bool, every: float | None, token: str | None, as_json: bool) -> None:
    """Watch queues: what waits, what is done, who does it.

    URL is a queue's address, or a server's for all its queues that you may look at; without it, LEASEWAY_URL is. A
    queue's workers are told to its administrators. A lost connection comes back by itself. Ctrl-C ends it. In a pipe
    it prints a line a queue, with --json a document each time.

    \b
    PENDING    PEND   what waits, also what is scheduled for later
    PROCESSING WORK   what workers hold
    FINISHED   DONE   what is finished
    FAILED            what ended badly for good; BAD is these and the dead
    DEAD              what used up its tries
    IN/MIN     IN/M   posts in the last full minute, or in this one if more
    OUT/MIN    OUT/M  finished items, counted in the same way
    WORKERS    WRK    workers that are connected
    OLDEST     OLD    how long the item is ready that is so longest

    \b
    Examples:
      leaseway top https://task.example.com
      leaseway top https://task.example.com/resize --once --json
    """
    given = list(urls) or [url for url in [os.environ.get("LEASEWAY_URL", "")] if url]
    if not given:
        raise click.UsageError("which queue? Give its address, its server's, or LEASEWAY_URL")
    logging.getLogger("leaseway").addHandler(logging.NullHandler())  # What matters of it is on the screen.
    try:
        sources = sources_at(given, token)
        with screen_for(as_json=as_json, once=once) as screen:
            asyncio.run(_watch(sources, screen, every or screen.period, once=once))
    except (AccessRefused, Rejected) as refused:
        raise CannotReach(f"the server refuses: {refused}") from None
    except KeyboardInterrupt:
        return  # Before there was a loop to tell.


async def _watch(sources: list[Source], screen: Screen, period: float, *, once: bool) -> None:
    """Until a signal, or one of the connections ends for good, which raises why."""
    running = [asyncio.create_task(source.run()) for source in sources]
    showing = asyncio.create_task(_show(sources, screen, period, once=once))
    done, _ = await asyncio.wait([*running, showing], return_when=asyncio.FIRST_COMPLETED)
    for task in (*running, showing):
        task.cancel()
    await asyncio.wait([*running, showing])
    for task in done:
        task.result()


async def _show(sources: list[Source], screen: Screen, period: float, *, once: bool) -> None:
    ended = asyncio.create_task(_signalled())
    told = asyncio.create_task(_all_told(sources))
    await asyncio.wait({ended, told}, timeout=TOLD_WITHIN if once else period, return_when=asyncio.FIRST_COMPLETED)
    while not ended.done():
        if once and not told.done():
            _complain(sources)
        for source in sources:
            source.note_trouble()
        screen.show([source.figures for source in sources], int(time.time() * 1000))
        if once:
            break
        await asyncio.wait({ended}, timeout=period)
    told.cancel()
    ended.cancel()


def _complain(sources: list[Source]) -> NoReturn:
    silent = next(source for source in sources if not source.told.is_set())
    silent.note_trouble()
    why = silent.figures.trouble or "no answer"
    raise CannotReach(f"no figures of {silent.figures.queue} came within {TOLD_WITHIN:.0f} s: {why}")


async def _all_told(sources: list[Source]) -> None:
    for source in sources:
        await source.told.wait()


async def _signalled() -> None:
    """Waits for Ctrl-C, or to be asked to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
