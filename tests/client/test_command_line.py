"""The command line of the base install: it starts, and says what is missing, without the server."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from leaseway import cli


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(cli.main, ["--version"], prog_name="leaseway").output == "leaseway, version 0.1.0\n"
    told = runner.invoke(cli.main, ["--help"])
    assert told.exit_code == 0
    assert "serve" in told.output


def test_an_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(cli.main, ["nonsense"]).exit_code == 2


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
