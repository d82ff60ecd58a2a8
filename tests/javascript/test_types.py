"""The types of the JavaScript client and of the pages: checked, and declared to whoever uses the published package."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from support.node import CLIENT, ROOT, SCRIPTS, find_node, missing

TSC = CLIENT / "node_modules/typescript/bin/tsc"
PACKAGE = CLIENT / "leaseway_javascript"
FACTS = json.loads((PACKAGE / "package.json").read_text())


def tsc(*arguments: str | Path) -> None:
    """Runs TypeScript, which must find nothing wrong."""
    if not TSC.exists():
        missing("TypeScript is not there: `make types` fetches it with npm")
    told = subprocess.run([find_node(), TSC, *arguments], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed, as npm would lay it: its sources and the types made of them."""
    folder = tmp_path_factory.mktemp("consumer")
    package = folder / "node_modules/leaseway"
    tsc("--project", CLIENT / "tsconfig.types.json", "--outDir", package / "types")
    for source in [*PACKAGE.glob("*.js"), PACKAGE / "package.json"]:
        shutil.copy(source, package)
    shutil.copy(SCRIPTS / "consumer.ts", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@pytest.mark.timeout(120)
def test_the_pages_have_no_fault_in_their_types() -> None:
    tsc("--project", CLIENT / "tsconfig.pages.json")


def test_all_that_is_exported_is_there_and_has_types(published: Path) -> None:
    package = published / "node_modules/leaseway"
    named = [FACTS["types"]]
    for target in FACTS["exports"].values():
        named += [target] if isinstance(target, str) else target.values()
    assert not [name for name in named if not (package / name).is_file()]


def test_a_consumer_in_typescript_is_helped(published: Path) -> None:
    options = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2023,dom")
    tsc(*options, published / "consumer.ts")


def test_a_consumer_in_node_gets_all_of_it(published: Path) -> None:
    code = 'import * as all from "leaseway"; console.log(Object.keys(all).join(" "))'
    command = [find_node(), "--input-type=module", "--eval", code]
    told = subprocess.run(command, cwd=published, capture_output=True, text=True, check=True).stdout.split()
    assert {"Queue", "Job", "Worker", "hostInWebWorker", "Permanent", "Rejected"} <= set(told)


def test_it_has_the_version_of_all_and_needs_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert FACTS["version"] == project["version"]
    assert f'"leaseway-javascript/{FACTS["version"].rpartition(".")[0]}"' in (PACKAGE / "protocol.js").read_text()
    assert not [name for name in FACTS if "ependencies" in name]
    assert FACTS["license"] == project["license"]
