"""The lines of a file as posts in slices: read in constant memory, each with a key of its own.

Pure but for the stream that it reads; what is sent, and when, is `bulk.py`'s.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

import click
import orjson

from leaseway.cli.given import BOM, post_body

SLICE_BYTES: Final = 512 * 1024
"""What one request carries at most, but for a single line: below what proxies usually let through."""
_CHUNK: Final = 64 * 1024


class Keys(Protocol):
    """Gives lines their keys: the same file read again gives the same ones."""

    def key(self, text: bytes, item: Any) -> str:
        """The key of the next line. Raises `ValueError` where it has none."""


class ContentKeys:
    """Keys by what a line says, and how often it was there before: equal lines are so many items.

    A line keeps its key where others were added, mended or taken out. `run` makes the keys of a run its own. What was
    seen is in a nameless file on disk, so that a million lines take no memory. Raises `ClickException` where that is
    full.
    """

    def __init__(self, run: str) -> None:
        self._run = run.encode()
        self._seen = sqlite3.connect("", isolation_level=None)
        self._seen.execute("PRAGMA journal_mode = OFF")
        self._seen.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID")
        self._seen.execute("BEGIN")

    def key(self, text: bytes, item: Any) -> str:
        """A digest and a number."""
        digest = hashlib.blake2b(text, digest_size=16, key=hashlib.sha256(self._run).digest())
        return f"line-{digest.hexdigest()}-{self._times(digest.digest())}"

    def _times(self, digest: bytes) -> int:
        """How often it was there, this time included."""
        statement = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"
        try:
            (times,) = self._seen.execute(statement, (digest,)).fetchone()
        except sqlite3.OperationalError as full:
            told = "cannot note which lines were there"
            raise click.ClickException(f"{told}: {full}; SQLITE_TMPDIR can name a folder with more room") from None
        return int(times)


class MemberKeys:
    """A member of each item is its key: a text or an integer, `path` with dots between the names."""

    def __init__(self, path: str) -> None:
        self._path = path

    def key(self, text: bytes, item: Any) -> str:
        """What the member says."""
        for name in self._path.split("."):
            item = item.get(name) if isinstance(item, dict) else None
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise ValueError(f"it has no text or integer {self._path!r}, which is to be its key")  # noqa: TRY004
        return str(item)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file, counted from 1, as the body of a post; or `fault`, for which it cannot be posted."""

    number: int
    body: bytes
    fault: str = ""


def posts(stream: IO[bytes], keys: Keys, options: dict[str, Any], max_bytes: int) -> Iterator[Line]:
    """The lines of a stream but the empty ones; one of more than `max_bytes` is not kept in memory."""
    for number, text in enumerate(_lines(stream, max_bytes), 1):
        if number == 1 and text is not None:
            text = text.removeprefix(BOM)
        if text is None:
            yield Line(number, b"", f"it has more than {max_bytes:,} bytes, which is all that the server takes")
        elif text := text.strip():
            yield _post(number, text, keys, options)


def slices(lines: Iterator[Line], most: int) -> Iterator[list[Line]]:
    """As many as go into one request, in their order; a faulty line is a slice of its own."""
    gathered: list[Line] = []
    size = 0
    for line in lines:
        if gathered and (line.fault or len(gathered) == most or size + len(line.body) > SLICE_BYTES):
            yield gathered
            gathered, size = [], 0
        if line.fault:
            yield [line]
        else:
            gathered.append(line)
            size += len(line.body) + 1
    if gathered:
        yield gathered


def _post(number: int, text: bytes, keys: Keys, options: dict[str, Any]) -> Line:
    try:
        key = keys.key(text, orjson.loads(text))
    except orjson.JSONDecodeError as error:
        return Line(number, b"", f"it is not JSON: {error}")
    except ValueError as error:
        return Line(number, b"", str(error))
    return Line(number, post_body(text, {**options, "key": key}))


def _lines(stream: IO[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Each line; None for one that is too long, of which no more than that was ever held."""
    while line := stream.readline(max_bytes + 1):
        if len(line) <= max_bytes or line.endswith(b"\n"):
            yield line
            continue
        while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
            pass
        yield None
