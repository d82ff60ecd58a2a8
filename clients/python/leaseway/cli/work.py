"""`leaseway work`: a program in any language as a worker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from leaseway.cli.given import json_object, milliseconds
from leaseway.cli.guardian import Guardian
from leaseway.cli.news import telling_news
from leaseway.cli.options import json_option, only_queue_of, token_option
from leaseway.cli.program import EX_DATAERR, Program, words_of
from leaseway.cli.remote import AskedWrongly, CannotReach, NotAllowed, NotNow, Remote
from leaseway.cli.work_told import Told
from leaseway.errors import AccessRefused, Rejected, Unauthorized
from leaseway.worker import Worker


def statuses(text: str) -> frozenset[int]:
    """Exit statuses, with commas between them."""
    try:
        codes = frozenset(int(part) for part in text.split(","))
    except ValueError:
        codes = frozenset((0,))
    if not all(1 <= code <= 255 for code in codes):
        raise click.BadParameter("exit statuses are numbers from 1 to 255, with commas between them: 2,64")
    return codes


@click.command()
@click.argument("words", nargs=-1, metavar="[URL]")
@click.option(
    "--exec",
    "command",
    required=True,
    type=click.Path(readable=False),
    metavar="CMD",
    help="The program and its arguments.",
)
@click.option("-c", "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="So many at once.")
@click.option("--criteria", type=json_object, metavar="JSON", help='Only items like this: {"format": ["jpg", "png"]}.')
@click.option("--drain", is_flag=True, help="End when there is nothing left to do, as for cron.")
@click.option("--permanent-exit", type=statuses, default="65", metavar="CODES", help="Statuses that mean failed: 65,2.")
@click.option(
    "--grace", type=milliseconds, default="30s", show_default=True, metavar="TIME", help="What runs may go on so long."
)
@click.option(
    "--kill-after", type=milliseconds, default="3s", show_default=True, metavar="TIME", help="From SIGTERM to SIGKILL."
)
@click.option("--name", metavar="NAME", help="The worker's name, to which something of its own is added.")
@token_option
@json_option
def work(
    words: Sequence[str],
    command: str,
    concurrency: int,
    criteria: dict[str, Any] | None,
    drain: bool,
    permanent_exit: frozenset[int],
    grace: int,
    kill_after: int,
    name: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Run a program for each item of a queue.

    URL is the queue's address, without it LEASEWAY_URL is. The program gets the item as JSON on its standard input and
    writes the result as JSON to its standard output; nothing there means null. Each line of JSON that it writes to
    descriptor 3 is a progress record. What it writes to standard error is shown, and the last line of it is the error
    where it fails. LEASEWAY_ITEM_ID, LEASEWAY_ATTEMPTS, LEASEWAY_CHECKPOINT (the last record of the attempt before)
    and LEASEWAY_META tell it more.

    It ends with 0 where there is a result; with 65, or a status of --permanent-exit, where this item can never
    succeed; with any other to be tried again. Where its item is taken away, or the worker ends, it and all that it
    started get SIGTERM, then SIGKILL.

    SIGTERM or Ctrl-C: no new items, what runs goes on for --grace and then is given back. A second one ends it at once.

    \b
    Examples:
      leaseway work https://task.example.com/resize --exec ./resize.sh -c 4
      leaseway work --exec 'sh -c "wc -c"' --drain     # each result is the length of the item

    Exit status: 0 stopped or drained, 2 wrong usage, 3 cannot reach (with --drain) or not allowed.
    """
    program = words_of(command)
    remote = only_queue_of(words, token)
    _check(remote, patient=not drain)
    told = Told(as_json=as_json)
    with Guardian() as guardian, ThreadPoolExecutor(concurrency, thread_name_prefix="leaseway-wait") as waiting:
        runs = Program(program, permanent_exit | {EX_DATAERR}, kill_after / 1000, guardian, waiting, told.say)
        try:
            worker = Worker(
                remote.url,
                token=token,
                criteria=criteria,
                concurrency=concurrency,
                name=name,
                grace=grace / 1000,
                drain=drain,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        worker.handler(told.telling(runs))
        worker.on_settled = told.settled
        told.on_unwritten = worker.stop
        _work(worker, told)
    told.sum_up()
    if told.unwritten is not None:
        raise told.unwritten


def _check(remote: Remote, *, patient: bool) -> None:
    """Says at once what no waiting mends. A worker may be there before its server."""
    try:
        rights = remote.get("", "rights")["rights"]
    except NotAllowed:  # Who may work and not fetch: the socket will say.
        return
    except NotNow:
        if patient:
            return
        raise
    if "work" not in rights and "admin" not in rights:
        raise CannotReach(f"the server refuses: no right to work on {remote.name}")


def _work(worker: Worker, told: Told) -> None:
    try:
        with telling_news(told.line, logging.INFO):
            worker.run()
    except Unauthorized as refused:
        raise CannotReach(f"{refused}; is LEASEWAY_TOKEN set, and right?") from None
    except AccessRefused as refused:
        raise CannotReach(str(refused)) from None
    except Rejected as refused:
        raise AskedWrongly(f"the server does not take the criteria: {refused}", refused.code) from None
