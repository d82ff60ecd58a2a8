"""Which items are meant: the filters that commands have in common, and what is done to all that they hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click
import orjson

from leaseway.cli.options import INTERRUPTED, print_json
from leaseway.cli.remote import Remote

F = TypeVar("F", bound=Callable[..., Any])
Filters = Mapping[str, Sequence[str]]
"""By the names of the protocol (PROTOCOL.md §5, Lists); of each one of the values, or any where there is none."""
STATUSES: Final = ("pending", "processing", "finished", "failed", "dead", "cancelled", "expired")
LABELS: Final = ("scheduled", "retrying", *STATUSES)
PATIENCE: Final = 3_600.0
"""Seconds: the server goes through all of the queue before it answers."""
_DONE: Final = {"retry": "retried", "cancel": "cancelled", "delete": "deleted"}
_OPTIONS: Final = (
    click.option("--status", multiple=True, type=click.Choice(STATUSES), help="Only these; may be repeated."),
    click.option("--label", multiple=True, type=click.Choice(LABELS), help="Only these; may be repeated."),
    click.option(
        "--posted-by", "postedBy", multiple=True, metavar="USER", help="Only what this user posted; may be repeated."
    ),
    click.option("--key", multiple=True, metavar="KEY", help="Only what was posted with this key; may be repeated."),
)


def filter_options(command: F) -> F:
    """The options; the command gets them as `**filters`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given(filters: Filters) -> dict[str, list[str]]:
    """Those that were given."""
    return {name: list(values) for name, values in filters.items() if values}


def change_all(remote: Remote, action: str, filters: Filters, *, yes: bool, as_json: bool) -> None:
    """Does it to all that the filters hold, once somebody has seen how many they are and agreed, or said `yes` before.

    Raises `click.UsageError` where nobody is there to be asked.
    """
    remote.patience = PATIENCE
    matched = _bulk(remote, action, filters, dry=True)["matched"]
    if matched and not yes:
        _ask(f"{_items(matched)} of {remote.name} would be {_DONE[action]}")
    try:
        told = _bulk(remote, action, filters, dry=False) if matched else {"matched": 0, "changed": 0}
    except KeyboardInterrupt:
        click.echo("Interrupted. What was done until then stays so; the same again goes on.", err=True)
        raise SystemExit(INTERRUPTED) from None
    if as_json:
        print_json(told)
        return
    changed = told["changed"]
    click.echo(f"{_items(changed)} of {remote.name} {'was' if changed == 1 else 'were'} {_DONE[action]}.")
    if told["matched"] > changed:
        click.echo(f"{_items(told['matched'] - changed)} had become otherwise meanwhile.", err=True)


def _bulk(remote: Remote, action: str, filters: Filters, *, dry: bool) -> dict[str, int]:
    body = orjson.dumps({"action": action, "filter": filters, "dryRun": dry})
    answer: dict[str, int] = remote.post("bulk", "matched", body)
    return answer


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}; nobody is here to be asked, so say --yes to do it")
    if not click.confirm(f"{what}. Do it?", err=True):
        click.echo("Nothing was done.", err=True)
        raise SystemExit(1)


def _items(number: int) -> str:
    return f"{number:,} item{'' if number == 1 else 's'}"
