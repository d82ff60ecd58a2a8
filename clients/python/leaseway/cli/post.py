"""`leaseway post`: an item, or the items of a file, into a queue."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import click

from leaseway.cli.bulk import Bulk, Limits, Refused, Tally
from leaseway.cli.bulk_lines import ContentKeys, Keys, MemberKeys, posts
from leaseway.cli.bulk_screen import bulk_screen, counted
from leaseway.cli.given import Word, item_text, json_object, milliseconds, post_body
from leaseway.cli.options import INTERRUPTED, json_option, only_queue_of, print_json, token_option
from leaseway.cli.remote import NotDone, Remote, Unanswered
from leaseway.cli.watch import follow

PATIENCE: Final = "5m"
_URL: Final = re.compile("(http|ws)s?://")
_STOPPED: Final = (
    "Stopped there; what stands before it is posted. Mend the line and run the same again: what is posted is known "
    "by its key. Or leave such lines out with --keep-going."
)
_INTERRUPTED: Final = "Interrupted. Run the same again to go on: what is posted is known by its key."


@click.command()
@click.argument("words", nargs=-1, type=Word(), metavar="[URL] [ITEM]")
@click.option("--key", help="Its key: the same post said again is the same item.")
@click.option("--priority", type=click.IntRange(-100, 100), help="Higher ones come first; 0 where none is given.")
@click.option("--delay", "delayMs", type=milliseconds, metavar="TIME", help="Not before so long: 90s, 5m, 2h.")
@click.option("--ttl", "ttlMs", type=milliseconds, metavar="TIME", help="It expires where it takes longer than this.")
@click.option("--max-attempts", "maxAttempts", type=click.IntRange(1, 1_000), help="Faults that make it dead.")
@click.option("--meta", type=json_object, metavar="JSON", help="An object that travels along with it.")
@click.option("--watch", "watched", is_flag=True, help="Show it until its end.")
@click.option("--bulk", type=click.File("rb"), metavar="FILE", help="Post FILE's lines.")
@click.option("--key-member", metavar="NAME", help="With --bulk: the member of each item that is its key.")
@click.option("--run", default="", metavar="NAME", help="With --bulk: post the same lines once for each name.")
@click.option("--keep-going", is_flag=True, help="With --bulk: leave out the lines that are refused.")
@click.option(
    "--patience",
    type=milliseconds,
    default=PATIENCE,
    show_default=True,
    metavar="TIME",
    help="With --bulk: give up when nothing got through for so long.",
)
@token_option
@json_option
def post(
    words: Sequence[str],
    watched: bool,
    bulk: IO[bytes] | None,
    key_member: str | None,
    run: str,
    keep_going: bool,
    patience: int,
    token: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Post an item, or with --bulk a file of them.

    URL is the queue's address, such as https://task.example.com/resize; without it, LEASEWAY_URL is. ITEM is JSON,
    @FILE, or - for the standard input. What is printed is the item's id.

    --bulk takes a file with an item on each line (NDJSON), or - for the standard input, of any length. Each line gets
    a key: by default from what it says and how often that stood there before. So it may be interrupted and run again,
    also after lines were added or mended, and no line is posted twice, for as long as the queue holds its keys
    (dedupe_window, a day by default). A line that is refused ends it, unless --keep-going leaves such lines out; the
    exit status is 1 then. A full queue or a lost connection is waited for.

    \b
    Examples:
      leaseway post https://task.example.com/resize @picture.json --key order-17 --watch
      leaseway post https://task.example.com/resize --bulk pictures.ndjson

    Exit status: 0 posted, 1 not (all) posted or not finished, 2 wrong usage, 3 cannot reach or not allowed, 130
    interrupted.
    """
    if bulk is None:
        if key_member or run or keep_going:
            raise click.UsageError("--key-member, --run and --keep-going are for --bulk")
        _post_one(words, token, options, watched=watched, as_json=as_json)
    elif watched or options["key"] is not None:
        raise click.UsageError(f"--{'watch' if watched else 'key'} is for a single item, not for --bulk")
    else:
        keys = MemberKeys(key_member) if key_member else ContentKeys(run)
        _post_all(only_queue_of(words, token), bulk, _Asked(keys, options, keep_going, patience / 1000, as_json))


def _post_one(
    words: Sequence[str], token: str | None, options: dict[str, Any], *, watched: bool, as_json: bool
) -> None:
    if not words or _URL.match(words[-1]):
        raise click.UsageError("which item? Give it as JSON, as @FILE, or - for the standard input")
    remote = only_queue_of(words[:-1], token)
    try:
        answer = remote.post("items", "id", post_body(item_text(words[-1]), options))
    except NotDone as undone:
        raise _keyed(undone, options["key"]) from None
    except Unanswered as unanswered:
        raise _unsure(unanswered, keyed=options["key"] is not None) from None
    if answer["duplicate"]:
        click.echo(f"It was posted before: this key's item is {answer['status']}.", err=True)
    if not watched:
        if as_json:
            print_json(answer)
        else:
            click.echo(answer["id"])
        return
    raise SystemExit(follow(remote, token, [answer["id"]], as_json=as_json))


def _keyed(undone: NotDone, key: str | None) -> NotDone:
    hint = f"; leaseway items --key {shlex.quote(key)} shows it to an administrator" if key and undone.path else ""
    return NotDone(undone.message + hint, undone.code, undone.path)


def _unsure(unanswered: Unanswered, *, keyed: bool) -> Unanswered:
    advice = "say the same again, its key keeps it single" if keyed else "with --key it can be said again safely"
    return Unanswered(f"{unanswered.message}. It may be posted or not: {advice}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """How the lines of a file are to be posted."""

    keys: Keys
    options: dict[str, Any]
    keep_going: bool
    patience: float
    as_json: bool


def _post_all(remote: Remote, stream: IO[bytes], asked: _Asked) -> None:
    limits = Limits.of(remote)
    screen = bulk_screen(stream, as_json=asked.as_json)
    bulk = Bulk(remote, screen, keep_going=asked.keep_going, patience=asked.patience)
    lines = posts(stream, asked.keys, asked.options, limits.bytes)
    ended = ""
    try:
        with screen:
            bulk.run(lines, limits.lines)
    except Refused:
        ended = _STOPPED
    except KeyboardInterrupt:
        ended = _INTERRUPTED
    finally:
        _sum_up(bulk.tally, as_json=asked.as_json)
    if ended:
        click.echo(ended, err=True)
    raise SystemExit(INTERRUPTED if ended == _INTERRUPTED else int(bulk.tally.refused > 0))


def _sum_up(tally: Tally, *, as_json: bool) -> None:
    if as_json:
        print_json({"lines": tally.lines, "new": tally.new, "known": tally.known, "refused": tally.refused})
        return
    click.echo(f"{counted(tally)}.")
    if tally.known and not tally.new:
        click.echo("To post the same lines once more on purpose, give them a name with --run.", err=True)
