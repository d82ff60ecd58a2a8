"""The house keeps its shape: who may import whom, what `core` may not know, and what an installation brings."""

import ast
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import leaseway

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "server" / "leaseway_server"
LAYERS = ["core", "store", "runtime", "web"]
"""From the inside out: a layer imports only itself and those before it."""

IMPURE = {
    "asyncio", "concurrent", "datetime", "http", "io", "logging", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "selectors", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading",
    "time", "urllib", "uuid", "httpx", "starlette", "uvicorn", "websockets", "aiosqlite",
}  # fmt: skip


def imports_of(path: Path) -> set[str]:
    """The modules that a file imports, with their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def python_files(folder: Path) -> list[Path]:
    """The Python files below a folder; never none, or a test over them could not fail."""
    files = sorted(folder.rglob("*.py"))
    assert files, folder
    return files


@pytest.mark.parametrize("path", python_files(SERVER), ids=lambda path: str(path.relative_to(SERVER)))
def test_a_layer_imports_only_what_lies_inside_it(path: Path) -> None:
    part = path.relative_to(SERVER).parts[0]
    if part not in LAYERS:
        return  # config, commands and __main__ compose the layers.
    outer = [f"leaseway_server.{layer}" for layer in LAYERS[LAYERS.index(part) + 1 :]]
    outer += [f"leaseway_server.{name}" for name in ("config", "commands", "testing", "__main__")] + ["leaseway."]
    wrong = sorted(name for name in imports_of(path) if name.startswith(tuple(outer)) or name == "leaseway")
    assert not wrong, f"{part} may not import {wrong}"


@pytest.mark.parametrize("path", python_files(SERVER / "core"), ids=lambda path: path.name)
def test_core_knows_no_io_no_clock_and_no_chance(path: Path) -> None:
    names = {name for name in imports_of(path) if not name.startswith("urllib.parse")}
    assert not {name.partition(".")[0] for name in names} & IMPURE
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]
    calls = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert not {"open", "print", "input", "exec", "eval", "__import__"} & set(calls)


@pytest.mark.parametrize("path", python_files(ROOT / "clients/python"), ids=lambda path: path.name)
def test_the_client_meets_the_server_only_in_the_schemas(path: Path) -> None:
    roots = {name.partition(".")[0] for name in imports_of(path)}
    assert not roots & {"leaseway_server", "starlette", "uvicorn", "httpx", "jsonschema", "jsonschema_rs"}


@pytest.mark.parametrize("path", python_files(ROOT / "clients/notify"), ids=lambda path: path.name)
def test_notifications_use_the_queue_as_any_user_of_it_would(path: Path) -> None:
    """The client as it shows itself, and no part of the server."""
    names = imports_of(path)
    shown = {f"leaseway.{name}" for name in leaseway.__all__}
    assert not [name for name in names if name.partition(".")[0] == "leaseway_server"]
    assert not [name for name in names if name.startswith("leaseway.") and name not in shown]


def test_an_import_of_the_client_stays_quick() -> None:
    """What takes long to import is loaded when it is first used."""
    code = "import leaseway, sys; print({'websockets', 'http.client', 'click', 'rich'} & sys.modules.keys())"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize("path", python_files(ROOT / "schemas"), ids=lambda path: path.name)
def test_the_schemas_know_nobody(path: Path) -> None:
    assert not [name for name in imports_of(path) if name.startswith("leaseway") and "schemas" not in name]


@pytest.mark.parametrize("name", ["server", "clients", "schemas", "tests"])
def test_no_folder_of_the_house_becomes_importable(name: str) -> None:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is not None)"
    assert subprocess.run([sys.executable, "-P", "-c", code], cwd="/", check=False).returncode == 0


def test_a_wheel_holds_what_the_checkout_holds(tmp_path: Path) -> None:
    """Code, typing marks and data files: the wheel has each of them, and nothing besides."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.fail("hatchling is missing: it belongs to the `dev` extra")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    packages = [
        "server/leaseway_server",
        "schemas/leaseway_schemas",
        "clients/python/leaseway",
        "clients/javascript/leaseway_javascript",
        "clients/notify/leaseway_notify",
    ]
    wanted = {
        str(path.relative_to((ROOT / package).parent))
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not {"__pycache__", "types"} & set(path.parts)
    }
    assert held == wanted
    assert any(name.endswith(".sql") for name in held)
    assert any(name.endswith("wire/defs.json") for name in held)
    assert "leaseway_javascript/client.js" in held
