"""The command line `leaseway-notify`: what it is given, what it prints, and with which status it ends.

What programs read goes to the standard output, what is said to people beside it to standard error. No work is done
here.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from leaseway import AccessRefused, LeasewayError
from leaseway_notify.delivery import ATTENTION, Delivery
from leaseway_notify.errors import NotifyError, Refused
from leaseway_notify.notify_toml import DEFAULT_FILE, VARIABLES, load_settings
from leaseway_notify.settings import Settings
from leaseway_notify.signals import until_signal
from leaseway_notify.toml import SettingsRefused

ENDED_BADLY: Final = 1
WRONG_USAGE: Final = 2
CANNOT_REACH: Final = 3
INTERRUPTED: Final = 130

_config_option = click.option(
    "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Read this instead of ./notify.toml."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
@click.version_option(package_name="leaseway")
def main() -> None:
    """Notifications on a Leaseway queue: in an inbox, by email and by push.

    Each command has its own --help. Exit status: 0 done, 1 it ended badly, 2 wrong usage or configuration, 3 cannot
    reach the database or the queue, 130 interrupted.
    """


@main.command(short_help="Run the service: events, inboxes, links of mails, pages.")
@_config_option
@click.option("--listen", metavar="HOST:PORT", help="Listen here, instead of where the file says.")
def serve(file: Path | None, listen: str | None) -> None:
    """Run the service: events of other programs, inboxes, links of mails, and the pages.

    It prints nothing; its log goes to standard error.

    \b
    Example:
      leaseway-notify serve --config notify.toml
    """
    with _faults_told():
        settings = _settings(file, listen=listen)
        from leaseway_notify.commands import run_service
        from leaseway_notify.serving import check_served

        check_served(settings)
        _run(lambda stop: run_service(settings, stop))


@main.command()
@_config_option
@click.option("--drain", is_flag=True, help="End when nothing is due any more, for a timer to start it again.")
def worker(file: Path | None, drain: bool) -> None:
    """Deliver: claim deliveries from the queue, and send them.

    \b
    Examples:
      leaseway-notify worker
      leaseway-notify worker --drain
    """
    with _faults_told():
        settings = _settings(file)
        from leaseway_notify.working import work

        _run(lambda stop: work(settings, stop, drain=drain))


@main.command()
@click.argument("event")
@_config_option
@_json_option
def send(event: str, file: Path | None, as_json: bool) -> None:
    """Notify of an event, and say what becomes of it.

    EVENT is a JSON object with type, recipient and title, and perhaps body, actor, context, payload, priority and id;
    - reads it from the standard input. Where the queue is away, deliveries wait in the outbox.

    \b
    Example:
      leaseway-notify send '{"type": "system", "recipient": "ada", "title": "Hello"}'
    """
    with _faults_told():
        settings = _settings(file)
        said = _event(sys.stdin.read() if event == "-" else event)
        from leaseway_notify.commands import send_event
        from leaseway_notify.service.shown import plan_shown

        plan, posted = asyncio.run(send_event(settings, said))
    if as_json:
        click.echo(json.dumps(plan_shown(plan)))
    else:
        click.echo(plan.notification.id)
        for one in plan.deliveries:
            click.echo(f"  {one.channel:<8} {one.label}{f' ({one.reason})' if one.reason else ''}")
    if not posted:
        click.echo("The queue cannot be reached; the deliveries wait in the outbox.", err=True)


def _event(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"EVENT is no JSON: {error}") from None


@main.command()
def queue() -> None:
    """Print what the server's leaseway.toml should say of the queue.

    \b
    Example:
      leaseway-notify queue >> leaseway.toml
    """
    from leaseway_notify.queue import configuration

    click.echo(configuration(), nl=False)


@main.command(short_help="Say who a recipient is.")
@click.argument("recipient")
@click.option("--address", help="For mails; without one there are none.")
@click.option("--name", help="What mails call them.")
@click.option("--zone", help="Their time zone, such as Europe/Berlin; UTC until it is said.")
@_config_option
def profile(recipient: str, address: str | None, name: str | None, zone: str | None, file: Path | None) -> None:
    """Say who a recipient is, before anything can be sent to them. What is not said stays as it is.

    \b
    Example:
      leaseway-notify profile ada --address ada@example.com --zone Europe/Berlin
    """
    with _faults_told():
        settings = _settings(file)
        from leaseway_notify.commands import save_contact

        asyncio.run(save_contact(settings, recipient, address, name, zone))


@main.command()
@click.argument("recipient")
@_config_option
def forget(recipient: str, file: Path | None) -> None:
    """Drop everything that is kept of a recipient, and send them nothing more.

    \b
    Example:
      leaseway-notify forget ada

    Exit status: 1 where there is no such recipient.
    """
    with _faults_told():
        settings = _settings(file)
        from leaseway_notify.commands import forget_recipient

        if not asyncio.run(forget_recipient(settings, recipient)):
            _fail(f"there is no profile of {recipient!r}", ENDED_BADLY)


@main.group()
def vapid() -> None:
    """The key that pushes are signed with."""


@vapid.command("new")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
def vapid_new(path: Path) -> None:
    """Write a new key to FILE, and print its public half. A file that is there is left alone.

    \b
    Example:
      leaseway-notify vapid new vapid.pem
    """
    with _faults_told():
        from leaseway_notify.vapid import BadKey, VapidKey, new_key

        try:
            new_key(path)
        except BadKey as bad:
            _fail(str(bad), ENDED_BADLY)
        click.echo(VapidKey.read(path, "mailto:nobody@example.com").public)


@main.command()
@click.argument("recipient")
@click.option("--minutes", type=click.IntRange(1, 60), default=15, show_default=True, help="So long it holds.")
@_config_option
def token(recipient: str, minutes: int, file: Path | None) -> None:
    """Print a token of a recipient, to try an inbox. Applications make them by themselves: docs/notify.md says how.

    \b
    Example:
      leaseway-notify token ada
    """
    with _faults_told():
        settings = _settings(file)
        from leaseway_notify.commands import is_known
        from leaseway_notify.recipient_token import recipient_token
        from leaseway_notify.serving import check_served

        check_served(settings)
        click.echo(recipient_token(settings.service.secret or "", recipient, minutes * 60))
        if not asyncio.run(is_known(settings, recipient)):
            click.echo(f"There is no profile of {recipient!r} yet, so that nothing comes into this inbox.", err=True)


@main.command(short_help="Show what needs a person, and begin it anew.")
@_config_option
@click.option("--retry", "retried", multiple=True, metavar="ID", help="Begin this delivery anew; may be repeated.")
@click.option("--retry-all", type=click.Choice(ATTENTION), help="Begin all of these anew.")
@_json_option
def attention(file: Path | None, retried: tuple[str, ...], retry_all: str | None, as_json: bool) -> None:
    """Show what needs a person: failed deliveries, which cannot succeed as they are, and dead ones, out of tries.

    \b
    Examples:
      leaseway-notify attention
      leaseway-notify attention --retry-all dead

    Exit status: 1 where a delivery to be begun anew is not one of these.
    """
    with _faults_told():
        settings = _settings(file)
        from leaseway_notify.commands import MOST, look, reopen

        if retried or retry_all:
            begun: list[str] = []

            def told(one: Delivery) -> None:
                begun.append(one.id)
                click.echo(one.id)

            missing = asyncio.run(reopen(settings, retried, retry_all or "", told))
            if retry_all and not begun:
                click.echo(f"Nothing is {retry_all}.", err=True)
            if missing:
                _fail(f"neither failed nor dead: {', '.join(missing)}", ENDED_BADLY)
            return
        found = asyncio.run(look(settings))
    from leaseway_notify.service.shown import sending_shown

    if len(found) == MOST:
        click.echo(f"These are the newest {MOST:,}; there may be more.", err=True)
    if as_json:
        for one in found:
            click.echo(json.dumps(sending_shown(one)))
        return
    for status in ATTENTION:
        of_it = [one for one in found if one.delivery.status == status]
        click.echo(f"{status}: {len(of_it)}")
        for one in of_it:
            click.echo(
                f"  {one.delivery.id}  {_printable(one.notification.recipient)}  {_printable(one.delivery.error)}"
            )


@main.command(short_help="Show it all on this machine, and leave nothing behind.")
@click.option("--once", is_flag=True, help="End after the show: with status 0, or 1 where something went otherwise.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Of the demo's page; else one that is free.")
def demo(once: bool, port: int) -> None:
    """Show it all on this machine: events, a bell, mails, pushes, a provider that fails, and what becomes of it.

    Starts a queue, the service and a worker, each a real process. Leaves nothing behind.

    \b
    Example:
      leaseway-notify demo
    """
    with _faults_told():
        from leaseway_notify.demo.processes import DemoFailed
        from leaseway_notify.demo.show import run

        try:
            raise SystemExit(asyncio.run(run(once=once, port=port, say=click.echo)))
        except DemoFailed as failed:
            _fail(f"the demo failed: {failed}", ENDED_BADLY)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None


# ── What they have in common ──


def _settings(file: Path | None, *, listen: str | None = None) -> Settings:
    """Without a file and without a variable this is most likely the wrong folder: nothing is made in it."""
    if file is None and not DEFAULT_FILE.exists() and not any(map(os.environ.get, VARIABLES)):
        raise SettingsRefused([f"there is no {DEFAULT_FILE} in this folder; --config says where it is"])
    return load_settings(file, os.environ, listen)


def _run(work: Callable[[asyncio.Event], Coroutine[Any, Any, int | None]]) -> NoReturn:
    """Works until the first SIGINT or SIGTERM, and then to an end in order; the second one ends at once."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # It tells of each socket, as uvicorn.error.
    raise SystemExit(until_signal(work))


@contextmanager
def _faults_told() -> Iterator[None]:
    """Each kind of fault with its status, in one line or one for each."""
    try:
        yield
    except ModuleNotFoundError as missing:
        _fail(f"the module {missing.name!r} is not installed: pip install 'leaseway[notify]'", WRONG_USAGE)
    except SettingsRefused as refused:
        _fail(str(refused), WRONG_USAGE)
    except Refused as refused:
        _fail(str(refused), ENDED_BADLY)
    except AccessRefused as refused:
        _fail(f"{refused}; the queue is queue.url of the settings, the token queue.token", CANNOT_REACH)
    except (NotifyError, LeasewayError, OSError) as error:
        _fail(str(error), CANNOT_REACH)
    except ValueError as error:  # Keys, and a lease that is too short.
        _fail(str(error), WRONG_USAGE)


def _fail(text: str, status: int) -> NoReturn:
    click.echo(f"Error: {text}", err=True)
    raise SystemExit(status)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)
