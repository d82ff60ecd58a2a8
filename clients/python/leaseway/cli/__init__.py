"""The command line: `leaseway`, whose commands are found through the entry-point group `leaseway.commands`.

Holds no command of its own, and stands in for those whose dependencies are not installed, so that the base
install works without the server's.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

import click

GROUP = "leaseway.commands"


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
    """A work queue that speaks WebSocket."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # What others wrote may not fit into a terminal's encoding.
