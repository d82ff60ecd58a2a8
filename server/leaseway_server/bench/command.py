"""`leaseway bench`: prints each measurement as it comes. What is measured is in `ways.py`."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import click
import orjson
import uvloop

from leaseway_server.bench.figures import HEAD, Figure
from leaseway_server.bench.machine import Machine
from leaseway_server.bench.process import NotStarted
from leaseway_server.bench.ways import measure


@click.command()
@click.option("--items", type=click.IntRange(1), default=20_000, show_default=True, help="So many a measurement.")
@click.option("--lanes", type=click.IntRange(1, 500), default=64, show_default=True, help="So many at once.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    help="Measure the disk of this folder. Without this: where temporary files are.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(items: int, lanes: int, folder: Path | None, as_json: bool) -> None:
    """Measure what a server does on this machine.

    Starts servers of its own on new stores, one after the other, and takes all away at the end; about half a minute.
    Measured is the whole way of items, from their posts to the pushes of their ends, with every commit synced; then
    posts in arrays. An echo of the same frames is for scale. "server µs" is the CPU that the server takes for an item.

    \b
    Examples:
      leaseway bench
      leaseway bench --items 5000 --folder /var/lib/leaseway --json
    """
    machine = Machine.found(folder)
    if machine.flatters:
        click.echo(
            f"Note: {machine.filesystem} is in memory: a disk is slower. --folder names another place.", err=True
        )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(_print_each(measure(folder, items, lanes), machine, as_json=as_json))
    except NotStarted as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(orjson.dumps({"machine": asdict(machine), "figures": [figure.public() for figure in figures]}))


async def _print_each(figures: AsyncIterator[Figure], machine: Machine, *, as_json: bool) -> list[Figure]:
    """Prints them for people as they come, and gives them all."""
    if not as_json:
        click.echo(f"{machine}\n\n{HEAD}")
    found = []
    async for figure in figures:
        found.append(figure)
        if not as_json:
            click.echo(figure.line())
    return found
