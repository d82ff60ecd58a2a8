"""The wire schemas, example queues and transcripts of the Leaseway protocol, as package data.

This module only finds and reads the files: what they mean is in PROTOCOL.md, how they are written in
schemas/README.md. Nothing here validates, and nothing here knows the server or a client. Each call reads
anew, so that a caller may change what it got. A name that no file bears raises `FileNotFoundError`.
"""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = ["example", "example_folder", "transcript_names", "transcripts", "wire", "wire_names"]

JsonObject = dict[str, Any]

# `str` and back: the package is always installed as plain files, and a configuration wants a real folder.
_ROOT = Path(str(files(__name__)))


def wire_names() -> tuple[str, ...]:
    """The names of all wire schemas, sorted: `work-client-claim`, …, and `defs`, which they share."""
    return _names("wire", ".json")


def wire(name: str) -> JsonObject:
    """The wire schema of that name, a JSON Schema of draft 2020-12."""
    return _read_object(_ROOT / "wire" / f"{name}.json")


def example_folder(queue: str) -> Path:
    """The folder of an example queue's schemas, as `schemas` in leaseway.toml wants it."""
    folder = _ROOT / "examples" / queue
    if not folder.is_dir():
        raise FileNotFoundError(f"no example queue {queue!r}")
    return folder


def example(queue: str, kind: str) -> JsonObject:
    """The schema of an example queue; `kind` is `item`, `progress` or `result`."""
    return _read_object(example_folder(queue) / f"{kind}.json")


def transcript_names() -> tuple[str, ...]:
    """The names of all transcripts, sorted."""
    return _names("transcripts", ".jsonl")


def transcripts() -> dict[str, list[JsonObject]]:
    """All transcripts by name; of each the lines in order, the head first (schemas/README.md)."""
    return {name: _read_lines(_ROOT / "transcripts" / f"{name}.jsonl") for name in transcript_names()}


def _names(folder: str, ending: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (_ROOT / folder).iterdir() if path.suffix == ending))


def _read_object(path: Path) -> JsonObject:
    value: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return value


def _read_lines(path: Path) -> list[JsonObject]:
    # Not `splitlines`: JSON strings may hold U+2028, which is no end of a line here.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
