"""`leaseway items`: what is in a queue, newest first. One item in full is `item_in_full.py`'s."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import click

from leaseway.cli.filters import Filters, filter_options, given
from leaseway.cli.item_in_full import show
from leaseway.cli.options import checked_ids, json_option, print_json, queue_of, token_option
from leaseway.cli.remote import CannotReach, Remote
from leaseway.cli.tables import percent, print_table, span

View = dict[str, Any]
PAGE: Final = 100
"""So many are asked for at once."""
_HEAD: Final = ("ID", "LABEL", "POSTED", "CHANGED", "ATTEMPTS", "BY", "KEY", "NOTE")


@click.command()
@click.argument("words", nargs=-1, metavar="[URL] [ID]...")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, help="List at most so many.")
@token_option
@json_option
def items(words: Sequence[str], limit: int, token: str | None, as_json: bool, **filters: Sequence[str]) -> None:
    """List the items of a queue, newest first, or show some in full.

    URL is the queue's address, such as https://task.example.com/resize; without it, LEASEWAY_URL is. With ids: each
    item's state, what was posted, its last record, its result or error, and what became of earlier attempts.

    \b
    Examples:
      leaseway items https://task.example.com/resize --status dead --limit 20
      leaseway items https://task.example.com/resize 9f2c1a0b7d4e6f83
    """
    remote, ids = queue_of(words, token)
    wanted = given(filters)
    if not ids:
        _list(remote, wanted, limit, as_json=as_json)
    elif wanted:
        raise click.UsageError("give ids, or filters for a list, and not both")
    else:
        raise SystemExit(show(remote, checked_ids(ids), as_json=as_json))


def _list(remote: Remote, wanted: Filters, limit: int, *, as_json: bool) -> None:
    query = [(name, value) for name, values in wanted.items() for value in values]
    found, more = _listed(remote, query if as_json else [*query, ("results", "false")], limit)
    if as_json:
        print_json(found)
    elif found:
        now = int(time.time() * 1000)
        print_table(_HEAD, [_row(view, now) for view in found])
    else:
        click.echo(f"There are no such items in {remote.name}." if query else f"{remote.name} is empty.", err=True)
    if more:
        these = "this one" if len(found) == 1 else f"these {len(found):,}"
        click.echo(f"There are more than {these}; --limit shows them.", err=True)


def _listed(remote: Remote, query: Sequence[tuple[str, str]], limit: int) -> tuple[list[View], bool]:
    """The first `limit` items, and whether there are more. A page may be empty and yet not the last."""
    found: list[View] = []
    cursor = ""
    while True:
        wanted = min(limit - len(found), PAGE)
        page = remote.get("items", "items", [*query, ("limit", str(wanted)), *([("cursor", cursor)] if cursor else [])])
        found += page["items"]
        if page["next"] is None or len(found) >= limit:
            return found, page["next"] is not None
        if page["next"] == cursor:
            raise CannotReach("the server lists the same items again and again")
        cursor = page["next"]


def _row(view: View, now: int) -> list[str]:
    return [
        view["id"],
        view["label"],
        f"{span(now - view['postedAt'])} ago",
        f"{span(now - view['updatedAt'])} ago",
        str(view["attempts"] or ""),
        view["postedBy"] or "",
        view["key"] or "",
        _note(view, now),
    ]


def _note(view: View, now: int) -> str:
    """What one most wants to know besides: who has it and how far it is, when it is due, why it ended so."""
    notes = []
    if view["status"] == "processing":
        notes += [view["worker"]] if view["worker"] else []
        far = percent(view["progress"])
        notes += [] if far is None else [f"{far:g} %"]
    if view["label"] in ("scheduled", "retrying"):
        notes.append(f"due in {span(view['dueAt'] - now)}")
    if view["error"]:
        notes.append(str(view["error"].get("message", "")))
    return "; ".join(notes)
