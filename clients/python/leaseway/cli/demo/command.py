"""`leaseway demo`: runs the show in a temporary folder, and ends everything that it started."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import signal
import tempfile
from pathlib import Path
from typing import Final

import click

ENDED_BADLY: Final = 1
INTERRUPTED: Final = 130


@click.command()
@click.option("--once", is_flag=True, help="End after the show, with status 0, or 1 where the count is wrong.")
@click.option(
    "--pace",
    type=click.FloatRange(0, 10),
    default=0.1,
    show_default=True,
    help="Seconds added to each step of the work, so that it can be watched.",
)
def demo(once: bool, pace: float) -> None:
    """Show it all in ten seconds, on this machine.

    A server, two workers and a producer, each a real process: ranges of numbers are posted, their primes counted, every
    step seen live; a worker is killed in mid-work, and another goes on where it was. Needs the server's packages. It
    leaves nothing behind.

    \b
    Example:
      leaseway demo --once
    """
    if importlib.util.find_spec("uvicorn") is None:
        raise click.UsageError("demo needs the server, which is not installed: pip install 'leaseway[server]'")
    logging.getLogger("leaseway").addHandler(logging.NullHandler())  # What matters of it is on the screen.
    with tempfile.TemporaryDirectory(prefix="leaseway-demo-") as folder:
        raise SystemExit(asyncio.run(_run(Path(folder), pace, once=once)))


async def _run(folder: Path, pace: float, *, once: bool) -> int:
    """Gives the exit status: 0 where the count was right, 1 where it was not, 130 where nobody waited for it."""
    from leaseway.cli.demo.processes import DemoFailed
    from leaseway.cli.demo.screen import Screen
    from leaseway.cli.demo.show import Show

    _cancel_on_signals()
    with Screen() as screen:
        show = Show(screen, folder, pace)
        try:
            await show.run(once=once)
        except* DemoFailed as failed:
            screen.say(f"The demo failed: {failed.exceptions[0]}", "bold red")
            show.right = False
        except* asyncio.CancelledError:
            screen.say("Ended, with everything that was started.")
    return {True: 0, False: ENDED_BADLY, None: INTERRUPTED}[show.right]


def _cancel_on_signals() -> None:
    """The first signal cancels this task, which then ends in order; further ones change nothing."""
    task = asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
