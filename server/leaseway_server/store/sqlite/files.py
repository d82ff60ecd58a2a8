"""The files of a SQLite store: locked against a second server, checked, migrated, and opened for one writer."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.queries import load_migrations

APPLICATION_ID: Final = 0x4C45_4153  # "LEAS"
PACKAGE: Final = "leaseway_server.store.sqlite"
CHECK_SECONDS: Final = 0.5
WAL_BYTES: Final = 16 * 1024 * 1024
"""The write-ahead log's size, made at the start and kept: a commit to a file that grows costs twice."""
MOST_WAL_BYTES: Final = 64 * 1024 * 1024
"""A log that grew past this while it could not begin anew, as during a long backup, is cut to it when it does."""
_CHECK_STEPS: Final = 20_000
_MOVING: Final = "moving"
_OWN: Final = 0o600
"""Items are for nobody but the owner, whatever the umask says. SQLite gives its log and index the database's mode."""


def make_folder(folder: Path) -> None:
    """Makes the folder of a store, its owner's alone. One that is there stays as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Makes the file of a database, its owner's alone, where there is none."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, _OWN))


def keep_private(path: Path) -> None:
    """Takes from others what they may do with a database and the files beside it, where these are there and ours."""
    for file in (path, path.with_suffix(".lock"), *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(FileNotFoundError, PermissionError):
            file.chmod(file.stat().st_mode & 0o700)


class FileLock:
    """An exclusive lock on a file of its own, held until `release` or the end of the process.

    In the file stands who serves the store, or moves it. `was_serving`: the last who served never said that it stopped.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _OWN)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refusal = self._refusal(path.with_suffix(".db"))
            os.close(self._descriptor)
            raise refusal from None
        self.was_serving = self._holder().isdigit()

    def _refusal(self, path: Path) -> StoreRefused:
        holder = self._holder()
        if holder == _MOVING:
            return StoreRefused(f"{path} is being moved by another process; wait until that is done")
        return StoreRefused(
            f"{path} is served by another process (id {holder if holder.isdigit() else 'unknown'}); "
            "stop that one, or give this server a folder of its own"
        )

    def _holder(self) -> str:
        return os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()

    def mark_serving(self) -> None:
        """From here on a stop without `mark_stopped` is an unclean one, which may have left work in the log."""
        self._write(f"{os.getpid()}\n")

    def mark_moving(self) -> None:
        """Nobody serves the store; its items are copied to or from another one."""
        self._write(f"{_MOVING}\n")

    def mark_stopped(self) -> None:
        """What the log holds is safe, or is about to be written back by SQLite's own close."""
        self._write("stopped\n")

    def _write(self, text: str) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Gives the lock up."""
        os.close(self._descriptor)


def was_abandoned(path: Path) -> bool:
    """Whether who served this database last never said that it stopped, and serves it no more."""
    try:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if not os.pread(descriptor, 32, 0).strip().isdigit():
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # For an instant, until the end of this function.
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Whatever keeps the file from being opened comes out as `StoreRefused`, which names it."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:  # Before the check came to it.
            raise _damaged(path, str(error)) from error
        raise StoreRefused(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}") from error


def _damaged(path: Path, how: str) -> StoreRefused:
    return StoreRefused(f"{path} is damaged ({how}); restore a backup, or salvage it with sqlite3's .recover")


def connect(path: Path) -> sqlite3.Connection:
    """The one connection that writes and checkpoints; on the event loop or on the store's thread, never on both.

    Raises `StoreRefused` where the file cannot be served.
    """
    with refusals(path):
        make_file(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
        try:
            prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Checks and migrates the file, then sets how it is written."""
    version = check_owner(connection, path, PACKAGE, APPLICATION_ID, "one of Leaseway's")
    check_pages(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # The store checkpoints between turns, on its thread.
    connection.execute(f"PRAGMA journal_size_limit = {MOST_WAL_BYTES}")
    connection.execute("PRAGMA cache_size = -65536")
    # What is deleted is overwritten only where that costs nothing. Some builds of SQLite write zeros over each page of
    # a large body, which fills the log and holds up the next turns.
    connection.execute("PRAGMA secure_delete = FAST")
    migrate(connection, version)
    presize_wal(path)


def check_owner(connection: sqlite3.Connection, path: Path, package: str, application_id: int, what: str) -> int:
    """The file's version (0 for a new one). `package` has its migrations, `what` says whose it should be.

    Raises `StoreRefused` for a file of others or of a newer server.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != application_id and (application or version or tables):
        raise StoreRefused(f"{path} is a SQLite file, but not {what}")
    newest = load_migrations(package)[-1][0]
    if version > newest:
        raise StoreRefused(
            f"{path} was written by a newer Leaseway (version {version} of the file; this one knows {newest}); "
            "run the newer one, or restore a backup made before the upgrade"
        )
    return int(version)


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite's quick check, for at most `CHECK_SECONDS`. Raises `StoreRefused` where the file is damaged."""
    give_up = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > give_up), _CHECK_STEPS)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return  # A large file: what was looked at in that time was sound.
    finally:
        connection.set_progress_handler(None, 0)
    if verdict != "ok":
        raise _damaged(path, verdict.splitlines()[-1])


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Brings the file to the newest version: each step in one transaction with its number."""
    for number, script in load_migrations(PACKAGE):
        if number <= version:
            continue
        connection.execute("BEGIN IMMEDIATE")
        for statement in split(script):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


def split(script: str) -> list[str]:
    """The statements of a script, since `executescript` would commit before the first."""
    statements, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def presize_wal(path: Path) -> None:
    """Writes zeros behind the log's end. SQLite reads a frame only where its salt and checksum are right."""
    wal = path.with_name(path.name + "-wal")
    with open(wal, "ab", opener=partial(os.open, mode=_OWN)) as file:
        missing = WAL_BYTES - file.tell()
        if missing > 0:
            file.write(bytes(missing))
            os.fsync(file.fileno())
