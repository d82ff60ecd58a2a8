"""`leaseway retry`, `cancel`, `delete`, `pause`, `unpause`: what an administrator does to items and queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from leaseway.cli.filters import Filters, change_all, filter_options, given
from leaseway.cli.options import checked_ids, json_option, only_queue_of, print_json, queue_of, token_option
from leaseway.cli.remote import NotDone, Remote

F = TypeVar("F", bound=Callable[..., Any])
_yes_option = click.option("--yes", is_flag=True, help="Of filters: do it without asking, as in scripts.")


def of_items(command: F) -> F:
    """What a command takes that does something to items."""
    words = click.argument("words", nargs=-1, metavar="[URL] [ID]...")
    return words(filter_options(_yes_option(token_option(json_option(command)))))


def of_a_queue(command: F) -> F:
    """What a command takes that does something to a queue."""
    return click.argument("words", nargs=-1, metavar="[URL]")(token_option(json_option(command)))


@click.command()
@of_items
def retry(words: Sequence[str], yes: bool, token: str | None, as_json: bool, **filters: Sequence[str]) -> None:
    """Give items that ended badly a new chance.

    They failed, or are dead, cancelled or expired. URL is the queue's address, without it LEASEWAY_URL is. Items
    are named by their ids: each is done by itself, and the exit status is 1 where one of them could not be. Or by
    filters: all that they hold, once it was shown how many these are and you agreed, or at once with --yes.

    \b
    Examples:
      leaseway retry https://task.example.com/resize 9f2c1a0b7d4e6f83
      leaseway retry https://task.example.com/resize --status dead
    """
    _steer("retry", words, token, filters, yes=yes, as_json=as_json)


@click.command()
@of_items
def cancel(words: Sequence[str], yes: bool, token: str | None, as_json: bool, **filters: Sequence[str]) -> None:
    """Withdraw items, also from workers.

    URL is the queue's address, without it LEASEWAY_URL is. Items are named by their ids: each is done by itself,
    and the exit status is 1 where one of them could not be. Or by filters: all that they hold, once it was shown
    how many these are and you agreed, or at once with --yes.

    \b
    Examples:
      leaseway cancel https://task.example.com/resize 9f2c1a0b7d4e6f83
      leaseway cancel https://task.example.com/resize --label scheduled --posted-by alice
    """
    _steer("cancel", words, token, filters, yes=yes, as_json=as_json)


@click.command()
@of_items
def delete(words: Sequence[str], yes: bool, token: str | None, as_json: bool, **filters: Sequence[str]) -> None:
    """Delete items that have ended, with their results.

    What is deleted is gone, and its key is free. URL is the queue's address, without it LEASEWAY_URL is. Items are
    named by their ids: each is done by itself, and the exit status is 1 where one of them could not be. Or by
    filters: all that they hold, once it was shown how many these are and you agreed, or at once with --yes.

    \b
    Examples:
      leaseway delete https://task.example.com/resize 9f2c1a0b7d4e6f83
      leaseway delete https://task.example.com/resize --status cancelled
    """
    _steer("delete", words, token, filters, yes=yes, as_json=as_json)


@click.command()
@of_a_queue
def pause(words: Sequence[str], token: str | None, as_json: bool) -> None:
    """Stop giving out the items of a queue.

    Posts are taken, and what workers hold they finish. It stays so, over restarts too, until it is unpaused. URL is the
    queue's address, without it LEASEWAY_URL is.

    \b
    Example:
      leaseway pause https://task.example.com/resize
    """
    _switch("pause", words, token, as_json=as_json)


@click.command()
@of_a_queue
def unpause(words: Sequence[str], token: str | None, as_json: bool) -> None:
    """Give out the items of a queue again.

    URL is the queue's address, without it LEASEWAY_URL is.

    \b
    Example:
      leaseway unpause https://task.example.com/resize
    """
    _switch("unpause", words, token, as_json=as_json)


def _steer(verb: str, words: Sequence[str], token: str | None, filters: Filters, *, yes: bool, as_json: bool) -> None:
    remote, ids = queue_of(words, token)
    wanted = given(filters)
    if bool(ids) == bool(wanted):
        raise click.UsageError("which items? Give their ids, or filters such as --status dead, and not both")
    if wanted:
        change_all(remote, verb, wanted, yes=yes, as_json=as_json)
    else:
        _each(verb, remote, checked_ids(ids), as_json=as_json)


def _each(verb: str, remote: Remote, ids: Sequence[str], *, as_json: bool) -> None:
    """Asks for one item after another, and ends early only where the server cannot be asked at all."""
    done: list[dict[str, Any]] = []
    try:
        for item_id in ids:
            done.append(_ask(remote, verb, item_id))
            if not as_json:
                _tell(done[-1])
    except click.ClickException:
        _note_rest(verb, ids[len(done) :])
        raise
    finally:
        if as_json:
            print_json(done)
    raise SystemExit(any(one["error"] for one in done))


def _ask(remote: Remote, verb: str, item_id: str) -> dict[str, Any]:
    try:
        status = _become(remote, verb, item_id)
    except NotDone as undone:
        return {"id": item_id, "status": None, "error": {"code": undone.code, "message": undone.message}}
    return {"id": item_id, "status": status, "error": None}


def _become(remote: Remote, verb: str, item_id: str) -> str:
    if verb == "delete":
        remote.content("DELETE", f"items/{item_id}", 204)
        return "deleted"
    return str(remote.post(f"items/{item_id}/{verb}", "status")["status"])


def _tell(one: dict[str, Any]) -> None:
    if one["error"]:
        click.echo(f"{one['id']}: {one['error']['message']}", err=True)
    else:
        click.echo(f"{one['id']} is {one['status']}")


def _note_rest(verb: str, rest: Sequence[str]) -> None:
    if len(rest) > 1:
        click.echo(f"Nothing is known of {verb} for {', '.join(rest)}.", err=True)


def _switch(verb: str, words: Sequence[str], token: str | None, *, as_json: bool) -> None:
    remote = only_queue_of(words, token)
    answer = remote.post(verb, "paused")
    if as_json:
        print_json(answer)
    elif answer["paused"]:
        click.echo(f"{remote.name} is paused: nothing is given out until leaseway unpause.")
    else:
        click.echo(f"{remote.name} is not paused: what is ready is given out.")
