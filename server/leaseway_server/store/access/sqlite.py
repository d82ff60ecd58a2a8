"""Tokens, in `<data>/_access.db`: several processes write it, in short transactions, and see each other's changes.

A token's secret is given out once, by `add`, and kept nowhere. What a token allows is decided in `core/access.py`.
The file at the path is the truth: where another one takes its place, that one counts; where there is none, nobody does.
Tickets live for seconds, and a queue is served by one process: they are in memory. Nothing here ever waits but for the
file itself.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

from leaseway_server.core.access import Right, Tickets, Token, hash_token
from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.access.known import KnownTokens
from leaseway_server.store.access.rows import new_token, row_of, token_of
from leaseway_server.store.moved import refuse_moved
from leaseway_server.store.queries import load_migrations, load_queries
from leaseway_server.store.sqlite.files import check_owner, keep_private, make_file, make_folder, split

File: TypeAlias = tuple[int, int]
"""A device, and a file's number there."""

FILE_NAME: Final = "_access.db"
APPLICATION_ID: Final = 0x4C45_4143  # "LEAC"
WRITE_PATIENCE_MS: Final = 5_000
"""So long a change waits for another process that is writing."""
READ_PATIENCE_MS: Final = 50
"""So long a look at the file waits: the server's event loop waits with it."""
_NEVER: Final = -1
_PACKAGE: Final = "leaseway_server.store.access"
_SQL: Final = load_queries(_PACKAGE, "sqlite.sql")


class SqliteAccess:
    """The `AccessStore` of one data folder. Use `open`, then `close` or `async with`.

    Every verb raises `StoreRefused`, which names the file, where it cannot be read or written. `source` tells one file
    from another, whatever their names. `current`: what is known was read of the file that is at the path.
    """

    def __init__(self, path: Path, file: File | None, connection: sqlite3.Connection) -> None:
        self.path = path
        self.source = file
        self.current = True
        self._connection = connection
        self._seen = _NEVER
        self._tokens = KnownTokens()
        self._tickets: dict[str, Tickets] = {}

    @classmethod
    def open(cls, data: Path, *, make: bool = True) -> Self:
        """Opens the file in the folder `data`, and brings it to the newest version; `make`: makes what is missing.

        Raises `StoreRefused` where it is not ours, or a newer Leaseway's, or not there and not to be made.
        """
        path = data / FILE_NAME
        with _told(path):
            if make:
                make_folder(data)
                make_file(path)
                keep_private(path)
            elif _file_at(path) is None:
                raise StoreRefused(f"there is no store in {data}: it has no {FILE_NAME}")
            file = _file_at(path)  # Of another one that comes in between, the next `refresh` makes out that it is one.
            connection = _connect(path, WRITE_PATIENCE_MS, _prepare)
        return cls(path, file, connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Notes what was used, and lets go of the file."""
        self._note_used()
        self._connection.close()

    # ── What commands do ──

    async def add(
        self, user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
    ) -> tuple[Token, str]:
        """A new token and its secret, which cannot be had again. Times in ms; `expires_at` 0 is never."""
        token, secret = new_token(user, queues, rights, expires_at, now)
        with self._writing():
            self._connection.execute(_SQL["add"], (hash_token(secret), *row_of(token)))
        return token, secret

    async def all(self) -> list[Token]:
        """The tokens that were not revoked, oldest first; also those whose time is over."""
        with _told(self.path):
            return list(self._read().values())

    async def revoke(self, token_id: str) -> bool:
        """Ends the token at once. False where there is none of this id."""
        with self._writing():
            return self._connection.execute(_SQL["revoke"], (token_id,)).rowcount > 0

    # ── What the server asks ──

    @property
    def known(self) -> Mapping[str, Token]:
        """The tokens by id, as of the last look; another mapping after each change."""
        return self._tokens.ids

    def by_id(self, token_id: str, now: int) -> Token | None:
        """The valid token of this id, as it was last known; for sockets that are open."""
        return self._tokens.by_id(token_id, now)

    async def find(self, secret: str, now: int) -> Token | None:
        """The valid token with this secret. It is looked up by its hash, so that time tells nothing about others.

        One that was added by another process is found at once, one that was revoked there is gone after `refresh`.
        Raises `StoreRefused` where it is not known whether it is valid: while there is no file that can be used.
        """
        hashed = hash_token(secret)
        if not self.current or not self._tokens.has(hashed):
            await self.refresh()
        return self._tokens.find(hashed, now)

    async def issue(self, queue: str, secret: str, token: Token, now: int) -> int:
        """Keeps a new ticket, for this process. Gives when it ends. Raises `LimitReached`."""
        return self._tickets.setdefault(queue, Tickets()).issue(secret, token, now)

    async def redeem(self, queue: str, secret: str, now: int) -> Token | None:
        """The valid token whose ticket this is, once. Raises as `find`."""
        token = self._tickets[queue].redeem(secret, now) if queue in self._tickets else None
        if token and not self.current:
            await self.refresh()
        return token and self.by_id(token.id, now)

    async def refresh(self) -> bool:
        """Reads the tokens again where they have changed; call it each second. Says whether they had.

        While another process writes, what was read before stays; the next call sees the change. It stays too where this
        raises and the file is still the same. Of another file it stays for sockets that are open, and for nobody else.
        """
        with _told(self.path):
            self._follow()
            try:
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                changed = version != self._seen
                if changed:
                    self._tokens.replace(self._read())
            except sqlite3.OperationalError as error:
                if not self.current or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return False
        self.current = True
        self._seen = version
        if self._tokens.due:
            self._note_used()
        return bool(changed)

    def _note_used(self) -> None:
        """Writes when tokens were used. Where the file cannot be written now, or is not ours any more, that is lost."""
        used = [(at, token_id) for token_id, at in self._tokens.take_used().items()]
        if used and _file_at(self.path) == self.source:
            with suppress(sqlite3.Error), _transaction(self._connection, READ_PATIENCE_MS):
                self._connection.executemany(_SQL["used"], used)

    def _follow(self) -> None:
        """Turns to the file that is at the path, where that is another one by now."""
        file = _file_at(self.path)
        if file == self.source:
            return
        self.current = False
        if file is None:
            raise StoreRefused(f"{self.path} is gone")
        connection = _connect(self.path, READ_PATIENCE_MS, _check)
        self._connection.close()
        self.source, self._connection, self._seen = file, connection, _NEVER

    def _read(self) -> dict[str, Token]:
        return {row[0]: token_of(row[1:]) for row in self._connection.execute(_SQL["tokens"])}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction. The version that `data_version` tells does not count our own changes."""
        with _told(self.path), _transaction(self._connection):
            yield
        self._seen = _NEVER


def _file_at(path: Path) -> File | None:
    """Which file is at the path; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path, patience: int, check: Callable[[sqlite3.Connection, Path], None]) -> sqlite3.Connection:
    """A connection to the file, which is there and passes the check. `patience` in ms."""
    address = f"{path.absolute().as_uri()}?mode=rw"  # Without `mode` SQLite makes what is not there.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=patience / 1000)
    try:
        check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Names the file in what went wrong."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{path} cannot be used: {error}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection, patience: int = WRITE_PATIENCE_MS) -> Iterator[None]:
    connection.execute(f"PRAGMA busy_timeout = {patience}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_MS}")


def connect_to_move(path: Path) -> sqlite3.Connection:
    """A connection to the file of a store that is moved: also to one whose tokens were moved already.

    Raises `StoreRefused` where it is not ours, `sqlite3.Error` and `OSError` where it cannot be opened.
    """
    return _connect(path, WRITE_PATIENCE_MS, _bring_up_to_date)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Checks and migrates the file, whose tokens are in use."""
    _bring_up_to_date(connection, path)
    _refuse_moved(connection, path)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Checks and migrates the file, all steps in one transaction: several processes may open it at once."""
    connection.execute("PRAGMA synchronous = FULL")
    with _transaction(connection):
        version = _version(connection, path)
        for number, script in load_migrations(_PACKAGE):
            if number > version:
                for statement in split(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("PRAGMA journal_mode = DELETE")  # Several processes write: a write-ahead log is not for that.


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """As `_prepare`, and writes nothing: a file that is being copied here must not be written meanwhile."""
    if _version(connection, path) < load_migrations(_PACKAGE)[-1][0]:
        raise StoreRefused(f"{path} is empty, or an older Leaseway's, which a start of the server brings up to date")
    _refuse_moved(connection, path)


def _refuse_moved(connection: sqlite3.Connection, path: Path) -> None:
    for (moved,) in connection.execute(_SQL["moved"]):
        refuse_moved(moved, str(path))


def _version(connection: sqlite3.Connection, path: Path) -> int:
    return check_owner(connection, path, _PACKAGE, APPLICATION_ID, "Leaseway's file of tokens")
