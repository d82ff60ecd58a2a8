"""The example programs, as tests load them: they are scripts, and import each other from their own folder."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "clients" / "examples"


def load_example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example of that name, as a module."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)
