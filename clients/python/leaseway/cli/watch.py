"""`leaseway watch`: what becomes of items, until all have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import click

from leaseway.cli.news import telling_news
from leaseway.cli.options import INTERRUPTED, items_of, json_option, token_option
from leaseway.cli.remote import CannotReach, NotDone, Remote
from leaseway.cli.watch_screen import Screen, watch_screen
from leaseway.client import Client
from leaseway.errors import LeasewayError, UnknownItem
from leaseway.protocol import View

_LATER: Final = "Not ended yet: {}. It goes on without you; look again with leaseway watch."


@click.command()
@click.argument("words", nargs=-1, metavar="[URL] ID...")
@token_option
@json_option
def watch(words: Sequence[str], token: str | None, as_json: bool) -> None:
    """Show what becomes of items, until all have ended.

    URL is the queue's address, without it LEASEWAY_URL is. With --json each state is a document on a line of its own.

    \b
    Example:
      leaseway watch https://task.example.com/resize 9f2c1a0b7d4e6f83

    Exit status: 0 where all of them finished, 1 where one ended otherwise or is not there, 2 wrong usage, 3 cannot
    reach or not allowed, 130 interrupted.
    """
    remote, ids = items_of(words, token)
    raise SystemExit(follow(remote, token, list(dict.fromkeys(ids)), as_json=as_json))


def follow(remote: Remote, token: str | None, ids: Sequence[str], *, as_json: bool) -> int:
    """Shows these items until their ends. Gives the exit status."""
    with watch_screen(ids, as_json=as_json) as screen:
        try:
            _look(remote, ids, screen)
            if screen.open:
                with telling_news(screen.say):
                    asyncio.run(_follow(remote.url, token, screen))
        except KeyboardInterrupt:
            screen.say(_LATER.format(", ".join(screen.open)))
            return INTERRUPTED
    return int(not screen.all_finished)


def _look(remote: Remote, ids: Sequence[str], screen: Screen) -> None:
    """Shows how they are now. Over HTTP, which tells at once what hinders."""
    for item_id in ids:
        try:
            screen.show(View.of(remote.get(f"items/{item_id}", "status")))
        except NotDone as unknown:
            screen.miss(item_id, unknown.message)


async def _follow(url: str, token: str | None, screen: Screen) -> None:
    """Shows each change. A lost connection is mended, and told; what was deleted meanwhile is told, too."""
    try:
        async with Client(url, token=token) as queue:
            while screen.open:
                try:
                    async for view in queue.watch(list(screen.open)):
                        screen.show(view)
                except UnknownItem as unknown:
                    screen.miss(unknown.id, "there is no such item any more")
    except (LeasewayError, TimeoutError) as error:
        raise CannotReach(str(error)) from None
