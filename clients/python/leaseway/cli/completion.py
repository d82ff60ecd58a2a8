"""`leaseway completion`: the script by which a shell completes commands and options. The script is click's."""

from __future__ import annotations

from typing import Final, get_args
from typing import Literal as Either

import click
from click.shell_completion import get_completion_class

Shell = Either["bash", "zsh", "fish"]
VARIABLE: Final = "_LEASEWAY_COMPLETE"
"""In it the script asks the command, which answers before it does anything else."""


@click.command()
@click.argument("shell", type=click.Choice(get_args(Shell)))
@click.pass_context
def completion(context: click.Context, shell: Shell) -> None:
    """Print what makes a shell complete leaseway's commands and options.

    \b
    Examples:
      leaseway completion bash > ~/.local/share/bash-completion/completions/leaseway
      leaseway completion zsh > ~/.zfunc/_leaseway     # with ~/.zfunc in fpath, before compinit
      leaseway completion fish > ~/.config/fish/completions/leaseway.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "leaseway", VARIABLE).source())
