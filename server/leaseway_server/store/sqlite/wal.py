"""What an unclean stop left behind, looked at before the store opens it: whether committed work cannot be read.

SQLite takes a damaged write-ahead log for a torn one, and drops its end in silence. The formats are those of SQLite's
page "WAL-mode File Format". Nothing here may run while the store is open: to close a file of it drops SQLite's locks.
"""

import os
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leaseway_server.core.errors import StoreRefused

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
_CHECKSUMS: Final = {0x377F_0682: "<", 0x377F_0683: ">"}
"""The header's first number says in which order of bytes checksums are made; all that is stored is big-endian."""
_INDEX_COPY: Final = 48
_INDEX: Final = struct.Struct("=16xI12x8s8x48xI")


@dataclass(frozen=True, slots=True)
class WalIndex:
    """What a `-shm` says of the log with these salts: how many frames are committed, and how many written back."""

    committed: int
    salts: bytes
    written_back: int


def check_after_kill(path: Path) -> str:
    """What committed work cannot be read, in words; "" where all can.

    Raises `StoreRefused` where a file is gone, or where what can be read does not fit together.
    """
    wal = beside(path, "-wal")
    for file in (path, wal):
        if not file.exists():
            raise StoreRefused(
                f"{file} is gone, though the server did not stop cleanly: acknowledged work may be lost with it; put "
                f"it back, or restore a backup; or, to go on with what is left, remove {path.with_suffix('.lock')}"
            )
    header = read_header(wal)
    if header is None:
        return f"{wal}: the header of the write-ahead log cannot be read, nor any commit in it; {_BLAME}"
    page_size, salts = header
    index = read_index(path)
    return _judge(path, read_commits(wal, page_size, salts), index if index and index.salts == salts else None)


def _judge(path: Path, commits: Sequence[int], index: WalIndex | None) -> str:
    readable = _recover(path)
    lost = [frame for frame in commits if frame > readable]
    if index is not None:
        # A kill between a frame and its page, or between a commit and the index, is no loss: nobody was answered yet.
        if index.committed in [0, *(frame for frame in commits if frame <= readable)][-2:]:
            return ""
        if index.committed > readable:
            lost = lost or [index.committed]
    if not lost:
        return ""
    if index is not None and index.written_back > readable:
        _refuse_a_mixture(path, whole=index.written_back >= lost[-1])
    commits_lost = f"{len(lost)} commit{'s' * (len(lost) > 1)} or more"
    return f"{beside(path, '-wal')}: {commits_lost} at the end of the write-ahead log cannot be read; {_BLAME}"


_BLAME: Final = (
    "after a loss of power they had not been acknowledged, "
    "otherwise the file was damaged and what they held is lost, but for what the database has already"
)


def _refuse_a_mixture(path: Path, *, whole: bool) -> None:
    """The log's start is older than the database: SQLite would lay old pages over newer ones."""
    wal = beside(path, "-wal")
    remedy = f"it is needed no longer, remove it and {path.with_suffix('.lock')}" if whole else "restore a backup"
    raise StoreRefused(f"{wal} is damaged, and what can be read of it is older than {path}; {remedy}")


def beside(path: Path, ending: str) -> Path:
    """The file that SQLite has beside a database: its log, or the log's index."""
    return path.with_name(path.name + ending)


def read_header(wal: Path) -> tuple[int, bytes] | None:
    """The size of a page and the salts of the log; None where its header is not sound."""
    with wal.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    magic, page_size, salts, *sums = struct.unpack(">I4xI4x8s2I", header)
    order = _CHECKSUMS.get(magic)
    if order is None or checksum(header[:24], order) != sums:
        return None
    return page_size, salts


def checksum(data: bytes, order: str) -> list[int]:
    """SQLite's checksum of a header."""
    first = second = 0
    for left, right in struct.iter_unpack(f"{order}2I", data):
        first = (first + left + second) & 0xFFFF_FFFF
        second = (second + right + first) & 0xFFFF_FFFF
    return [first, second]


def read_commits(wal: Path, page_size: int, salts: bytes) -> list[int]:
    """The frames, counted from 1, that say that they end a transaction of this log, wherever they stand.

    Behind them are zeros, or frames of logs before, with other salts.
    """
    with wal.open("rb") as file:
        step = FRAME_HEADER_BYTES + page_size
        places = range(HEADER_BYTES, os.fstat(file.fileno()).st_size - step + 1, step)
        headers = (os.pread(file.fileno(), 16, place) for place in places)
        return [number for number, header in enumerate(headers, 1) if header[8:] == salts and header[4:8] != bytes(4)]


def read_index(path: Path) -> WalIndex | None:
    """The log's index, in this machine's order of bytes; None where there is none, or where a kill cut its writing."""
    try:
        with beside(path, "-shm").open("rb") as file:
            data = file.read(_INDEX.size)
    except FileNotFoundError:
        return None
    if len(data) < _INDEX.size or data[:_INDEX_COPY] != data[_INDEX_COPY : 2 * _INDEX_COPY]:
        return None
    return WalIndex(*_INDEX.unpack(data))


def _recover(path: Path) -> int:
    """How many frames SQLite takes for sound. A connection that cannot write changes neither database nor log."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("PRAGMA schema_version").fetchone()
    index = read_index(path)
    return index.committed if index else 0
