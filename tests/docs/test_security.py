"""SECURITY.md names tests for what it says. Each exists, and runs: it is neither left out nor expected to fail."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| threat ")]
NAMED = sorted(set(re.findall(r"`(tests/\S+?\.py)::(\w+)`", TEXT)))
LEFT_OUT = re.compile(r"\b(xfail|skip|skipif|importorskip|campaign)\b")


@cache
def module(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def test_each_threat_names_a_test() -> None:
    assert len(ROWS) > 15
    assert [row for row in ROWS if not re.search(r"`tests/\S+\.py::test_\w+`", row.split("|")[3])] == []
    assert [row for row in ROWS if len(row.split("|")) != 5 or not all(map(str.strip, row.split("|")[1:4]))] == []


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_is_there_and_runs(path: str, name: str) -> None:
    assert (ROOT / path).is_file()
    found = [
        node
        for node in module(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    assert len(found) == 1, f"{path} has no {name}"
    assert not [mark for mark in map(ast.unparse, found[0].decorator_list) if LEFT_OUT.search(mark)]


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_a_named_file_is_not_left_out(path: str) -> None:
    """No mark on the whole module."""
    marks = [
        ast.unparse(node.value)
        for node in module(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert not [mark for mark in marks if LEFT_OUT.search(mark)]


def test_no_test_of_the_matrix_is_left_out() -> None:
    """The page says that the tables hold for everybody: none of their tests is left out either."""
    for path in sorted((ROOT / "tests/server").glob("test_matrix*.py")):
        assert not LEFT_OUT.search(path.read_text(encoding="utf-8")), path.name


def test_files_and_keys_that_it_speaks_of_are_there() -> None:
    for name in re.findall(r"`((?:docs/|schemas/|tests/)?[\w/]+\.(?:md|py)|Caddyfile)`", TEXT):
        assert (ROOT / name).is_file(), name
    for key in ("max_pending", "max_losses", "trusted_proxies", "visibility"):
        assert f"`{key}" in TEXT
        assert key in (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
