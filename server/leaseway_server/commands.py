"""The server's commands: `leaseway serve`, `check`, `token`, `backup`. What they do is done elsewhere.

Exit status: 0 done, 1 the work ended badly, 2 wrong usage or configuration. What a program reads goes to the standard
output, what is said to people beside it to standard error. A token is printed once, by `token new`, and nowhere else.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, get_args

import click
import orjson

from leaseway_server.config import (
    QUEUE_NAME,
    QUEUE_NAME_RULE,
    STORE_KEY,
    Config,
    ConfigRefused,
    Fault,
    load_config,
)
from leaseway_server.config.table import unknown
from leaseway_server.config.values import Wrong, span
from leaseway_server.core.access import RIGHTS, Right, Token
from leaseway_server.core.errors import StoreError
from leaseway_server.core.members import is_name
from leaseway_server.described import as_json as described_as_json
from leaseway_server.described import in_lines
from leaseway_server.log import LogFormat
from leaseway_server.store.access import AccessStore
from leaseway_server.stores import kind_of
from leaseway_server.stores.base import Found

T = TypeVar("T")

ENDED_BADLY: Final = 1
WRONG_USAGE: Final = 2


def _lifetime(_context: click.Context, _option: click.Parameter, value: str | None) -> int | None:
    """A duration as the configuration writes it, in ms."""
    try:
        return None if value is None else span(value)
    except Wrong as wrong:
        raise click.BadParameter(str(wrong)) from None


_config_option = click.option(
    "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Read this instead of ./leaseway.toml."
)
_store_option = click.option(
    "--store", metavar="STORE", help='"sqlite:" and a folder, or "postgresql://…", instead of what the file says.'
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_open_option = click.option(
    "--open-to-the-network", is_flag=True, help="Let rights that are open to anyone be open to the network too."
)


@click.command()
@_config_option
@click.option("--listen", metavar="HOST:PORT", help="Listen here, instead of where the file says.")
@_store_option
@click.option("--queues", metavar="A,B", help="Serve only these queues of the file.")
@click.option(
    "--allow-origin",
    "allow_origins",
    multiple=True,
    metavar="ORIGIN",
    help='Let pages of this site use the server too, such as "https://app.example.com"; may be repeated.',
)
@click.option(
    "--log",
    type=click.Choice(get_args(LogFormat)),
    default=lambda: "terminal" if sys.stderr.isatty() else "json",
    help="How to write the log. Without this: for people on a terminal, else JSON.",
)
@_open_option
def serve(
    file: Path | None,
    listen: str | None,
    store: str | None,
    queues: str | None,
    allow_origins: Sequence[str],
    log: LogFormat,
    open_to_the_network: bool,
) -> None:
    """Run the server.

    Without a configuration it serves one open queue, demo, to this machine only. On SIGHUP it reads its file anew. It
    prints nothing; its log goes to standard error.

    \b
    Examples:
      leaseway serve
      leaseway serve --config leaseway.toml --log json
    """
    with _faults_told():
        config = load_config(
            file,
            environ=os.environ,
            listen=listen,
            store=store,
            queues=queues,
            allow_origins=allow_origins,
            log=log,
            open_to_the_network=open_to_the_network,
        )
    from leaseway_server.__main__ import run  # The other commands need none of it.

    raise SystemExit(run(config))


@click.command()
@click.argument("named", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@_config_option
@_open_option
@_json_option
def check(named: Path | None, file: Path | None, open_to_the_network: bool, as_json: bool) -> None:
    """Check a configuration, without starting.

    Says what serve would make of it, or all that is wrong with it. FILE is the same as --config FILE. A database is
    connected to, and nothing is changed in it.

    \b
    Example:
      leaseway check leaseway.toml
    """
    if named and file and named != file:
        raise click.UsageError(f"FILE is {named}, but --config says {file}: say one of them")
    try:
        config = load_config(named or file, environ=os.environ, open_to_the_network=open_to_the_network)
    except ConfigRefused as refused:
        if as_json:
            _print_json({"file": str(named or file or "") or None, "faults": [asdict(each) for each in refused.faults]})
        _fail(str(refused), WRONG_USAGE)
    found, fault = _look(config)
    if as_json:
        faults = [asdict(Fault(str(config.file or ""), STORE_KEY, fault))] if fault else []
        _print_json(described_as_json(config) | {"found": found and found.facts, "faults": faults})
    else:
        click.echo(in_lines(config))
        click.echo(found.text if found else "", nl=bool(found))
    if fault:
        _fail(f"Error: {fault}", ENDED_BADLY)


@click.group()
def token() -> None:
    """Make, list and revoke tokens, also while the server runs.

    \b
    Example:
      leaseway token new alice --queue resize --expires 30d
    """


@token.command("new")
@click.argument("user")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Only for this queue; may be repeated.")
@click.option("--right", "rights", multiple=True, type=click.Choice(RIGHTS), help="Only this right; may be repeated.")
@click.option("--expires", "lifetime", callback=_lifetime, metavar="DURATION", help="Ends after that, such as 30d.")
@_json_option
@_config_option
@_store_option
def new_token(
    user: str,
    queues: Sequence[str],
    rights: Sequence[Right],
    lifetime: int | None,
    as_json: bool,
    file: Path | None,
    store: str | None,
) -> None:
    """Make a token for USER.

    It has the rights that the configuration gives to USER, or fewer where options narrow it. Only the token itself is
    written to the standard output.

    \b
    Example:
      leaseway token new box --queue resize --right work
    """
    config = _load(file, store)
    _check_names(config, user, queues)
    now = _now()
    expires_at = now + lifetime if lifetime else 0
    narrowed = (frozenset(queues) or None, frozenset(rights) or None)
    made, secret = _with_tokens(config, lambda tokens: tokens.add(user, *narrowed, expires_at, now), make=True)
    if as_json:
        _print_json(_public(made) | {"token": secret})
    else:
        click.echo(secret)
        click.echo(_introduce(made, now), err=True)
    if not _has_rights(config, user):
        click.echo(f"Note: the configuration gives {user} no right on any queue so far.", err=True)


@token.command("list")
@_json_option
@_config_option
@_store_option
def list_tokens(as_json: bool, file: Path | None, store: str | None) -> None:
    """List the tokens that were not revoked: their ids, never what they are.

    \b
    Example:
      leaseway token list --json
    """
    config = _load(file, store)
    found = _with_tokens(config, lambda tokens: tokens.all())
    if as_json:
        _print_json([_public(each) for each in found])
    elif found:
        now = _now()
        _print_rows([("ID", "USER", "QUEUES", "RIGHTS", "ENDS", "LAST USED"), *(_row(each, now) for each in found)])
    else:
        click.echo(f"There are no tokens in {config.server.store}.", err=True)


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@_json_option
@_config_option
@_store_option
def revoke_token(token_id: str, as_json: bool, file: Path | None, store: str | None) -> None:
    """Revoke the token with this ID (see token list).

    A running server obeys within seconds.

    \b
    Example:
      leaseway token revoke 5f0c7e9a
    """
    config = _load(file, store)
    if not _with_tokens(config, lambda tokens: tokens.revoke(token_id)):
        # What was typed is not repeated: it may be a token instead of its id.
        _fail(f"Error: no token in {config.server.store} has this id; leaseway token list shows them.", ENDED_BADLY)
    if as_json:
        _print_json({"id": token_id, "revoked": True})
    click.echo(f"Token {token_id} is revoked.", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@_json_option
@_config_option
@_store_option
def backup(folder: Path, as_json: bool, file: Path | None, store: str | None) -> None:
    """Copy the store into FOLDER, also while the server runs.

    FOLDER is made, or must be empty. Each queue's file is copied as it stood at one moment, and so are the tokens.
    What was acknowledged before is in the copy.

    \b
    Example:
      leaseway backup /var/backups/leaseway/today
    """
    place = _load(file, store).server.store
    try:
        done = kind_of(place).back_up(folder)
    except FileExistsError as error:
        raise click.BadParameter(str(error), param_hint="FOLDER") from None
    except StoreError as error:
        _fail(f"Error: {error}", ENDED_BADLY)
    if as_json:
        copied = [{"name": each.name, "bytes": each.bytes} for each in done.files]
        _print_json({"from": str(done.source), "folder": str(folder), "files": copied})
    else:
        click.echo(f"Copied from {done.source} to {folder}:")
        _print_rows([(each.name, f"{each.bytes:>15,} bytes") for each in done.files])
    for name in done.left_out:
        click.echo(f"Note: {name} was left out: it is not one of Leaseway's files.", err=True)


# ── What was asked ──


def _load(file: Path | None, store: str | None) -> Config:
    with _faults_told():
        return load_config(file, environ=os.environ, store=store, open_to_the_network=True)


def _look(config: Config) -> tuple[Found | None, str]:
    """What is there already, as far as that is asked; or why it cannot be used."""
    try:
        return asyncio.run(kind_of(config.server.store).found()), ""
    except StoreError as error:
        return None, str(error)


@contextmanager
def _faults_told() -> Iterator[None]:
    try:
        yield
    except ConfigRefused as refused:
        _fail(str(refused), WRONG_USAGE)


def _check_names(config: Config, user: str, queues: Sequence[str]) -> None:
    if not is_name(user):
        raise click.BadParameter("expected 1 to 200 characters, none of them a control", param_hint="USER")
    for queue in queues:
        if not QUEUE_NAME.fullmatch(queue):
            raise click.BadParameter(QUEUE_NAME_RULE, param_hint="--queue")
        if config.file and queue not in config.queues:
            fault = unknown(queue, config.queues, "queue")
            raise click.BadParameter(f"{queue}: {fault} (in {config.file})", param_hint="--queue")


def _has_rights(config: Config, user: str) -> bool:
    granted = any(queue.grants.rights_of(user) for queue in config.queues.values())
    return granted or user in config.server.admins


def _with_tokens(config: Config, do: Callable[[AccessStore], Coroutine[Any, Any, T]], *, make: bool = False) -> T:
    """Does it to the configured store. Only where there is something to put in is one made that is not there."""

    async def done() -> T:
        async with kind_of(config.server.store).access(make=make) as tokens:
            return await do(tokens)

    try:
        return asyncio.run(done())
    except StoreError as error:
        _fail(f"Error: {error}", ENDED_BADLY)


def _now() -> int:
    return int(time.time() * 1000)


def _fail(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(status)


# ── What is said ──


def _introduce(made: Token, now: int) -> str:
    _, user, queues, rights, end, _ = _row(made, now)
    return (
        "This is shown only once; just its hash is kept. Put it now where it is needed.\n"
        f"Its id is {made.id}. User: {user}; queues: {queues}; rights: {rights}; ends: {end}."
    )


def _row(known: Token, now: int) -> tuple[str, str, str, str, str, str]:
    queues = "all" if known.queues is None else ", ".join(sorted(known.queues))
    rights = "all" if known.rights is None else ", ".join(right for right in RIGHTS if right in known.rights)
    used = _minute(known.used_at) if known.used_at else "never"
    return known.id, known.user, queues, rights, _end(known, now), used


def _end(known: Token, now: int) -> str:
    if not known.expires_at:
        return "never"
    end = _minute(known.expires_at)
    return f"{end} (over)" if known.expired(now) else end


def _minute(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _public(known: Token) -> dict[str, object]:
    return {
        "id": known.id,
        "user": known.user,
        "queues": None if known.queues is None else sorted(known.queues),
        "rights": None if known.rights is None else [right for right in RIGHTS if right in known.rights],
        "createdAt": known.created_at,
        "expiresAt": known.expires_at or None,
        "lastUsedAt": known.used_at or None,
    }


def _print_json(value: object) -> None:
    click.echo(orjson.dumps(value))


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
