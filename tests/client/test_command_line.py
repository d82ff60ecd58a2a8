"""The command line of the base install: it starts, and says what is missing, without the server."""

import errno
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from leaseway import cli

PATH = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)  # noqa: PTH100  Of what runs elsewhere.


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(cli.main, ["--version"], prog_name="leaseway").output == "leaseway, version 0.1.0\n"
    told = runner.invoke(cli.main, ["--help"])
    assert told.exit_code == 0
    assert "serve" in told.output


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nonsense", "No such command 'nonsense'.\n"),
        ("itms", "No such command 'itms'. Did you mean 'items'?\n"),
        ("Pause", "No such command 'Pause'. Did you mean 'pause'?\n"),
    ],
)
def test_an_unknown_command_is_wrong_usage(word: str, said: str) -> None:
    told = CliRunner().invoke(cli.main, [word])
    assert told.exit_code == 2
    assert told.stderr.endswith(said)


@pytest.fixture
def shells(tmp_path: Path) -> dict[str, str]:
    """An environment in which `leaseway` is this command line."""
    command = tmp_path / "leaseway"
    command.write_text(f"#!{sys.executable}\nfrom leaseway.cli import main\nmain()\n")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("shell", "ask"),
    [
        ("bash", "COMP_WORDS=(leaseway {}); COMP_CWORD=$1; _leaseway_completion leaseway; echo ${{COMPREPLY[@]}}"),
        ("fish", "complete -C 'leaseway {}'"),
    ],
)
def test_a_shell_completes_commands_and_options(shell: str, ask: str, shells: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    sourced = {"bash": "source <(leaseway completion bash)", "fish": "leaseway completion fish | source"}[shell]
    for words, answer in (("uni", ""), ("unp", "unpause"), ("items --js", "--json"), ("items --status pen", "pending")):
        script = f"{sourced}\n{ask.format(words)}"
        number = str(len(words.split()))
        told = subprocess.run([shell, "-c", script, shell, number], env=shells, capture_output=True, text=True)
        assert [line.split()[0] for line in told.stdout.splitlines() if line] == ([answer] if answer else []), told


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("post @pic", ["plain,@picture.json", "plain,@pictures/"]),
        ("post @pictures/", ["plain,@pictures/one.json"]),
        ("post @nowhere/", []),
        ("post pic", []),
        ("work --exec pi", ["file,pi"]),
    ],
)
def test_a_shell_completes_files_where_they_are_wanted(
    words: str, answer: list[str], shells: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "picture.json").touch()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.json").touch()
    given = {"_LEASEWAY_COMPLETE": "bash_complete", "COMP_WORDS": f"leaseway {words}", "PYTHONPATH": PATH}
    given["COMP_CWORD"] = str(len(words.split()))
    told = subprocess.run([tmp_path / "leaseway"], env=shells | given, cwd=tmp_path, capture_output=True, text=True)
    assert told.stdout.split() == answer, told.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(shell: str) -> None:
    told = CliRunner().invoke(cli.main, ["completion", shell])
    assert told.exit_code == 0
    assert "_LEASEWAY_COMPLETE" in told.stdout
    assert CliRunner().invoke(cli.main, ["completion", "csh"]).exit_code == 2


def test_other_faults_of_the_system_are_not_taken_for_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise OSError(errno.EACCES, "not here")

    monkeypatch.setattr(cli, "_load", lambda _: broken)
    told = CliRunner().invoke(cli.main, ["items"])
    assert isinstance(told.exception, PermissionError)


def test_a_command_whose_dependencies_are_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = EntryPoint("serve", "leaseway_absent:serve", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda **_: [absent])
    told = CliRunner().invoke(cli.main, ["serve", "--config", "x.toml"])
    assert told.exit_code == 2
    assert "'leaseway_absent', which is not installed: pip install 'leaseway[server]'" in told.output


def test_a_command_is_loaded_from_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint("main", "leaseway.cli:main", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda **_: [found])
    context = click.Context(cli.main)
    assert cli.main.get_command(context, "main") is cli.main


def test_an_entry_point_that_is_no_command_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint("group", "leaseway.cli:GROUP", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda **_: [found])
    with pytest.raises(TypeError, match="no command"):
        cli.main.get_command(click.Context(cli.main), "group")


def test_importing_the_library_loads_no_websocket_library_and_no_server() -> None:
    names = "import sys, leaseway, leaseway.cli; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True).stdout
    assert not {"websockets", "starlette", "uvicorn", "leaseway_server", "rich"} & set(loaded.split())
