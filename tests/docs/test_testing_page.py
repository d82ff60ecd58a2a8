"""docs/testing.md: its tests are run as a user runs them, installed, and pytest finds the fixture by itself."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from docs.snippets import Snippet, snippets, started
from leaseway import claims
from leaseway_server.core.policy import Policy

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
BLOCKS: Final = list(snippets(PAGE))
INSTALLED: Final = """
import sys

sys.modules["uvloop"] = None  # As if it were not installed.

def test_nothing_is_imported_before_it_is_used(pytestconfig):
    assert not {"leaseway_server", "leaseway.testing", "uvicorn"} & sys.modules.keys()
    plugin = pytestconfig.pluginmanager.get_plugin("leaseway")
    imported = {"annotations", "Iterator", "TYPE_CHECKING", "pytest"}
    defined = {name for name in vars(plugin) if name.isidentifier() and not name.startswith("_")}
    assert defined - imported == {"leaseway_server"}

def test_the_server_is_missing(leaseway_server):
    pass
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which Leaseway was installed as the page says, from here; the packages that it needs are here."""
    folder = tmp_path_factory.mktemp("packages")
    alone = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "install", *alone, "--target", folder, ROOT], check=True)
    return folder


async def pytest_on(folder: Path, packages: Path) -> tuple[int | None, str]:
    """What pytest says of the files in the folder, without other plugins' words; every warning is an error."""
    command = (sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio")
    async with started(*command, folder=folder, PYTHONPATH=str(packages)) as process:
        output, errors = await process.communicate()
    return process.returncode, (output + errors).decode()


def the(marker: str) -> Snippet:
    """The block of that marker."""
    (snippet,) = (each for each in BLOCKS if each.marker == marker)
    return snippet


@pytest.mark.timeout(120)
async def test_the_pages_tests_pass_as_they_stand_there(packages: Path, tmp_path: Path) -> None:
    for snippet in BLOCKS[1:]:
        (tmp_path / f"{snippet.marker.replace('-', '_')}.py").write_text(snippet.text)
    status, said = await pytest_on(tmp_path, packages)
    assert status == 0, said
    assert f"{len(re.findall('^def test_', PAGE, re.MULTILINE))} passed" in said


async def test_pytest_has_the_fixture_which_imports_the_server_when_it_is_used(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "test_installed.py").write_text(INSTALLED)
    status, said = await pytest_on(tmp_path, packages)
    assert status == 1
    assert "1 passed, 1 error" in said
    assert the("install").commands[0] in said
    assert "there is no module uvloop" in said


def test_the_page_has_the_figures_of_the_code() -> None:
    assert BLOCKS[0] is the("install")
    assert f"advance({Policy().lease // 1000})  # the lease of the queue" in PAGE
    assert claims.CLAIM_WAIT_MS == 60_000
    assert "Waiting claims end with the clock after a minute" in PAGE
    assert claims.PAUSE == 1
