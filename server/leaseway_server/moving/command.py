"""`leaseway move FROM TO`: what it is told, what it says, and how it ends. What it does is done in `move.py`.

Exit status as of the server's other commands: 0 done, 1 the work ended badly, 2 wrong usage.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar, get_args

import click
import orjson
import uvloop

from leaseway_server.config.values import Wrong
from leaseway_server.config.values import store as place_of
from leaseway_server.core.errors import StoreError
from leaseway_server.moving.move import Moved, Moving, Step, Tokens
from leaseway_server.moving.side import Side
from leaseway_server.moving.undo import forget
from leaseway_server.moving.undo import undo as take_back
from leaseway_server.store.place import Place
from leaseway_server.stores import kind_of

T = TypeVar("T")

ENDED_BADLY: Final = 1
TOLD_EACH_SECONDS: Final = 0.1


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # Older clicks have no argument there.
    """A store, as the configuration names it."""

    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """What was found is not repeated: it may hold a password."""
        try:
            return place_of(value)
        except Wrong as wrong:
            self.fail(str(wrong), param, ctx)


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for."""

    source: Place
    target: Place
    queues: Collection[str] | None
    tokens: Tokens
    force: bool


@click.command()
@click.argument("source", metavar="FROM", type=PlaceType())
@click.argument("target", metavar="TO", type=PlaceType())
@click.option("--queues", metavar="A,B", help="Move only these queues.")
@click.option(
    "--tokens",
    type=click.Choice(get_args(Tokens)),
    default="same",
    help="Where both have tokens: refuse unless they are the same, add those that TO lacks, or leave them.",
)
@click.option("--undo", is_flag=True, help="Take a move from FROM to TO back, where no server used TO since.")
@click.option("--force", is_flag=True, help="With --undo: let FROM be used again, and do not ask TO.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def move(
    source: Place, target: Place, queues: str | None, tokens: Tokens, undo: bool, force: bool, as_json: bool
) -> None:
    """Move a store into one of the other kind, from SQLite or from PostgreSQL.

    Ids, keys, leases, attempts, results, times and tokens are kept, and both sides are compared at the end. Stop the
    server first: workers go on with what they have when it is back on TO. From then on no server uses FROM. A move that
    was interrupted goes on when it is run again. A password need not be said here: PGPASSWORD and ~/.pgpass are read.

    \b
    Examples:
      leaseway move sqlite:/var/lib/leaseway postgresql://leaseway@db.example.com/leaseway
      leaseway move --undo sqlite:/var/lib/leaseway postgresql://leaseway@db.example.com/leaseway
    """
    if type(source) is type(target):
        raise click.UsageError(
            "FROM and TO are of one kind. A folder is copied by `leaseway backup` or cp, a database by pg_dump."
        )
    if force and not undo:
        raise click.UsageError("--force goes with --undo.")
    chosen = None if queues is None else {name for name in queues.split(",") if name}
    if chosen is not None and not chosen:
        raise click.BadParameter("expected the names of queues, such as a,b", param_hint="--queues")
    wish = Wish(source, target, chosen, tokens, force)
    (_undo if undo else _move)(wish, as_json=as_json)


def _move(wish: Wish, *, as_json: bool) -> None:
    began = time.monotonic()
    moving: list[Moving] = []

    async def run() -> Moved:
        async with _sides(wish) as (source, target):
            moving.append(Moving(source, target, Line().tell))
            return await moving[0].run(wish.queues, wish.tokens)

    try:
        moved = _run(run())
    except (StoreError, KeyboardInterrupt) as error:
        _end_badly(error, begun=bool(moving) and moving[0].begun)
    _say(wish, moved, time.monotonic() - began, as_json=as_json)


def _undo(wish: Wish, *, as_json: bool) -> None:
    async def run() -> list[str]:
        if wish.force:
            async with kind_of(wish.source).side(make=False) as source:
                return await forget(source, wish.queues)
        async with _sides(wish) as (source, target):
            return await take_back(source, target, wish.queues)

    try:
        undone = _run(run())
    except StoreError as error:
        _fail(f"Error: {error}")
    if as_json:
        click.echo(orjson.dumps({"from": str(wish.source), "to": str(wish.target), "undone": undone}))
    elif undone:
        click.echo(f"Taken back: {', '.join(undone)}. Servers may use {wish.source} again.")
    else:
        click.echo("There was nothing to take back.")


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@asynccontextmanager
async def _sides(wish: Wish) -> AsyncIterator[tuple[Side, Side]]:
    async with kind_of(wish.source).side(make=False) as source, kind_of(wish.target).side(make=True) as target:
        yield source, target


def _end_badly(error: BaseException, *, begun: bool) -> NoReturn:
    message = f"Error: {error}" if isinstance(error, StoreError) else "Interrupted."
    if begun:
        message += (
            "\nWhat was copied is kept, and no server uses either store now: run the same command again to go on, or "
            "with --undo to take it back."
        )
    _fail(message)


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(ENDED_BADLY)


# ── What is said ──


class Line:
    """How far it is, on one line of a terminal; elsewhere nothing is said."""

    def __init__(self) -> None:
        self._told_at = 0.0

    def tell(self, queue: str, step: Step, done: int, expected: int) -> None:
        """Says it, not too often."""
        now = time.monotonic()
        if not sys.stderr.isatty() or (now - self._told_at < TOLD_EACH_SECONDS and done < expected):
            return
        self._told_at = now
        sys.stderr.write(f"\r\033[K{queue}: {step}, {done:,} of {expected:,} rows" + "\r\033[K" * (done >= expected))
        sys.stderr.flush()


def _say(wish: Wish, moved: Moved, seconds: float, *, as_json: bool) -> None:
    if as_json:
        queues = [
            {
                "name": name,
                "items": content.rows["item"],
                "results": content.rows["result"],
                "attempts": content.rows["attempt"],
                "digest": content.digest,
            }
            for name, content in moved.contents.items()
        ]
        known = {"queues": queues, "already": moved.already, "tokens": moved.tokens, "seconds": round(seconds, 3)}
        click.echo(orjson.dumps({"from": str(wish.source), "to": str(wish.target)} | known))
        return
    for name, content in moved.contents.items():
        click.echo(
            f"{name}: {content.rows['item']:,} items, {content.rows['result']:,} results, "
            f"{content.rows['attempt']:,} attempts. Both sides agree (digest {content.digest})."
        )
    for name in moved.already:
        click.echo(f"{name}: all of it was moved there before.")
    if moved.contents:
        tokens = f"{moved.tokens:,} token{'' if moved.tokens == 1 else 's'}"
        click.echo(f"{tokens} moved. It took {seconds:.1f} s. Let the server use {wish.target} now.")
