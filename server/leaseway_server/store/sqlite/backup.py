"""A copy of a folder of SQLite files, made while servers write them: each file as it stood at one moment.

A file is read by a connection that cannot write, within one read transaction. So the log is neither written back nor
begun anew from here, which SQLite before 3.51.3 does not survive where two connections do it at once; and what is
committed meanwhile does not make the copy begin again. The log cannot begin anew so long, and grows by what is written.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.access import sqlite as access
from leaseway_server.store.sqlite.files import APPLICATION_ID, was_abandoned

STEP_PAGES: Final = 256
"""So many pages are copied at a time: 1 MiB."""
PATIENCE_SECONDS: Final = 5.0
"""So long the copy waits for a process that writes the tokens."""
_PARTIAL: Final = ".part"
_OURS: Final = frozenset({APPLICATION_ID, access.APPLICATION_ID})


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of the copy, and its size."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Backup:
    """What was copied from where, and the names of databases that are in the folder and not Leaseway's."""

    source: Path
    files: tuple[Copied, ...]
    left_out: tuple[str, ...]


def back_up(data: Path, target: Path) -> Backup:
    """Copies the store in the folder `data` into `target`, which is made, or is there and empty. All of it, or nothing.

    On return the files are on disk, for their owner's eyes only, and SQLite's quick check found them sound.
    Raises `FileExistsError` where `target` holds something, `StoreRefused` for all else that hinders it.
    """
    found = sorted(data.glob("*.db"))
    with _told(f"{data} cannot be copied"):
        ours = [path for path in found if _is_ours(path)]
    if not ours:
        raise StoreRefused(f"there is no store of Leaseway in {data}")
    with _told(f"a backup cannot be made in {target}"), _new_folder(target) as folder:
        for path in ours:
            with _told(f"{path} cannot be copied"):
                _copy(path, folder / f"{path.name}{_PARTIAL}")
        for path in ours:
            (folder / f"{path.name}{_PARTIAL}").rename(folder / path.name)
        _sync(folder)
        _sync(folder.absolute().parent)
    copied = (Copied(path.name, (target / path.name).stat().st_size) for path in ours)
    return Backup(data, tuple(copied), tuple(path.name for path in found if path not in ours))


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Says what cannot be done in what went wrong."""
    try:
        yield
    except FileExistsError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{what}: {error}") from error


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """The empty folder. Where the copy fails, it is as it was."""
    made = not target.exists()
    if not made and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty; a backup needs a folder of its own")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield target
    except BaseException:
        for path in target.iterdir():
            path.unlink()
        if made:
            target.rmdir()
        raise


def _is_ours(path: Path) -> bool:
    """Whether Leaseway made it. What a kill left is not even opened: the next start has to see it as it is."""
    if was_abandoned(path):
        raise StoreRefused(
            f"{path} was not stopped cleanly, and nobody serves it; start the server once, which looks after what was "
            "left, and back up then; or copy the folder as it is, with all its files"
        )
    with closing(_reader(path)) as source:
        try:
            (application,) = source.execute("PRAGMA application_id").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            return False
    return application in _OURS


def _reader(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE_SECONDS)


def _copy(path: Path, partial: Path) -> None:
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(_reader(path)) as source, closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # There is nothing to go back to, and one sync at the end.
        copy.execute("PRAGMA synchronous = OFF")
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()  # From here on it stands still.
        source.backup(copy, pages=STEP_PAGES, progress=_listen)
    _check(path, partial)
    _sync(partial)


def _listen(_status: int, _left: int, _pages: int) -> None:
    """Python hears signals only where some of it runs: an interrupted copy ends here, between two steps."""


def _check(path: Path, partial: Path) -> None:
    """`immutable`: nothing appears beside it."""
    uri = f"{partial.absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as copy:
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreRefused(
            f"{path} is damaged ({verdict.splitlines()[-1]}), and so its copy would be; nothing was kept"
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
