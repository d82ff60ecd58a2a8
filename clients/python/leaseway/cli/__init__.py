"""The command line: `leaseway`, whose commands are found through the entry-point group `leaseway.commands`.

Holds no command of its own. It stands in for those whose dependencies are not installed, so that the base install
works without the server's, and ends in order where the output cannot be written.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NoReturn

import click

GROUP = "leaseway.commands"
ENDED_BADLY: Final = 1
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing meets on a disk that is full or broken. Of a pipe that was closed click takes care: status 1."""

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class _Commands(click.Group):
    """The commands of all installed parts, by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, without importing one."""
        return sorted(entry_points(group=GROUP).names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loads a command, or stands in for one whose dependencies are not installed."""
        for found in entry_points(group=GROUP, name=cmd_name):
            return _load(found)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and for a name that there is not, the one that is most like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as unknown:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            if not close:
                raise
            raise click.UsageError(f"{unknown.message} Did you mean {close[0]!r}?", ctx) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs a command. Where its output cannot be written, says so in a line and ends with status 1."""
        _fill_closed_descriptors()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            _give_up_writing(error)


def _fill_closed_descriptors() -> None:
    """What was closed before us (`<&-`) leads nowhere, or what is opened next would stand in its place."""
    while (number := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        os.set_inheritable(number, True)
    os.close(number)
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  as Python has its own


def _give_up_writing(error: OSError) -> NoReturn:
    """What is still in a buffer goes nowhere, or Python would try it again at its end, and complain."""
    with suppress(OSError):
        click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    raise SystemExit(ENDED_BADLY)


def _load(found: EntryPoint) -> click.Command:
    try:
        command = found.load()
    except ModuleNotFoundError as missing:
        return _missing(found.name, missing.name or str(missing))
    if not isinstance(command, click.Command):
        raise TypeError(f"{found.value} is no command")
    return command


def _missing(name: str, module: str) -> click.Command:
    text = f"needs the module {module!r}, which is not installed: pip install 'leaseway[server]'"

    def explain() -> NoReturn:
        raise click.UsageError(f"{name} {text}")

    return click.Command(
        name,
        callback=explain,
        short_help=f"({text})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(cls=_Commands)
@click.version_option(package_name="leaseway")
def main() -> None:
    """A work queue that speaks WebSocket.

    Each command has its own --help. Exit status: 0 done, 1 it ended badly, 2 wrong usage, 3 cannot reach the server or
    not allowed.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # What others wrote may not fit into a terminal's encoding.
