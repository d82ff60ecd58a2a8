"""What the commands that ask a queue have in common: its address, the token, and how they print."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any, Final

import click

from leaseway.cli.remote import Remote, printable

INTERRUPTED: Final = 130
"""The exit status of what was ended by Ctrl-C, as shells have it."""
LONGEST_NAMED: Final = 40
"""Characters of a wrong word that is said again."""
_ID: Final = re.compile("[0-9a-f]{16}")

token_option = click.option(
    "--token",
    envvar="LEASEWAY_TOKEN",
    metavar="TOKEN",
    help="The token. Better set LEASEWAY_TOKEN: what stands on a command line is seen by others.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def queue_of(words: Sequence[str], token: str | None) -> tuple[Remote, list[str]]:
    """The queue of the address that the words begin with, else of LEASEWAY_URL; and the words behind it."""
    given = bool(words) and ("/" in words[0] or ":" in words[0])
    url = words[0] if given else os.environ.get("LEASEWAY_URL", "")
    if not url:
        raise click.UsageError(
            "which queue? Give its address, such as https://task.example.com/resize, or LEASEWAY_URL"
        )
    remote = Remote(url, token)
    click.get_current_context().call_on_close(remote.close)
    return remote, list(words[1:] if given else words)


def only_queue_of(words: Sequence[str], token: str | None) -> Remote:
    """As `queue_of`, where no more may be said."""
    remote, rest = queue_of(words, token)
    if not rest:
        return remote
    if rest == list(words):  # The address is LEASEWAY_URL's.
        address = "http(s)://host/queue; or leave it out, LEASEWAY_URL is set"
        raise click.UsageError(f"{_named(rest[0], 1)} is no queue's address, which is such as {address}")
    raise click.UsageError(f"one queue is wanted, and nothing behind it ({len(rest)} too much)")


def items_of(words: Sequence[str], token: str | None) -> tuple[Remote, list[str]]:
    """The queue, and the ids of items, at least one."""
    remote, ids = queue_of(words, token)
    if not ids:
        raise click.UsageError("which item? Give its id")
    return remote, checked_ids(ids)


def checked_ids(ids: list[str]) -> list[str]:
    """The ids of items, where they are such."""
    for number, item_id in enumerate(ids, 1):
        if not _ID.fullmatch(item_id):
            raise click.UsageError(f"{_named(item_id, number)} is no item's id, which is 16 of 0-9 and a-f")
    return ids


def _named(word: str, number: int) -> str:
    """A word as it was given, unless it is long, or looks like a token, which no text may hold."""
    return f"number {number} here" if len(word) > LONGEST_NAMED or "lw_" in word else f'"{printable(word)}"'


def print_json(value: Any) -> None:
    """One document on one line, in ASCII: nothing in it moves the cursor of a terminal."""
    click.echo(json.dumps(value))
