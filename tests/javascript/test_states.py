"""The JavaScript client's pure parts, and its connections against a peer and a clock in the tests' hands."""

import subprocess
from pathlib import Path

import pytest

from support.node import SCRIPTS, find_node

FILES = sorted(SCRIPTS.glob("*.test.js"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".test.js"))
def test_in_node(path: Path) -> None:
    command = [find_node(), "--test-reporter=tap", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "# pass " in told.stdout
    assert "# pass 0\n" not in told.stdout, "no test ran"


def test_every_part_is_there() -> None:
    assert len(FILES) >= 6
