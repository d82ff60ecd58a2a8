"""`leaseway why`: what an item waits for, who holds it, or how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from leaseway.cli.options import items_of, json_option, print_json, token_option
from leaseway.cli.remote import printable

_AGAIN: Final = frozenset({"failed", "dead", "cancelled", "expired"})
"""What a retry helps."""


@click.command()
@click.argument("words", nargs=-1, metavar="[URL] ID")
@token_option
@json_option
def why(words: Sequence[str], token: str | None, as_json: bool) -> None:
    """Say what an item waits for, who holds it, or how it ended.

    ID is the item's; URL is the queue's address, without it LEASEWAY_URL is.

    \b
    Example:
      leaseway why https://task.example.com/resize 9f2c1a0b7d4e6f83
    """
    remote, ids = items_of(words, token)
    if len(ids) > 1:
        raise click.UsageError("one item is wanted")
    told = remote.get(f"items/{ids[0]}/why", "reasons")
    if as_json:
        print_json(told)
        return
    click.echo(f"{ids[0]} {'waits' if told['waiting'] else 'does not wait'}:")
    width = max((len(reason["code"]) for reason in told["reasons"]), default=0)
    for reason in told["reasons"]:
        click.echo(f"  {printable(reason['code']).ljust(width)}  {printable(reason['message'])}")
    if not told["reasons"]:
        click.echo("  nothing hinders it: the next claim that matches gets it")
    if _AGAIN.intersection(reason["code"] for reason in told["reasons"]):
        click.echo(f"  leaseway retry {ids[0]} gives it a new chance; leaseway items {ids[0]} shows all of it")
