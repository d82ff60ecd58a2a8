"""Tokens, in `<data>/_access.db`: several processes write it, in short transactions, and see each other's changes.

A token's secret is given out once, by `add`, and kept nowhere. What a token allows is decided in `core/access.py`.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import orjson

from leaseway_server.core.access import Right, Token, hash_token
from leaseway_server.core.errors import StoreRefused
from leaseway_server.store.queries import load_migrations, load_queries
from leaseway_server.store.sqlite.files import split

FILE_NAME: Final = "_access.db"
PREFIX: Final = "lw_"
"""Tokens begin so, that people and secret scanners know them at sight."""
APPLICATION_ID: Final = 0x4C45_4143  # "LEAC"
WRITE_PATIENCE_MS: Final = 5_000
"""So long a change waits for another process that is writing."""
READ_PATIENCE_MS: Final = 50
"""So long a look at the file waits: the server's event loop waits with it."""
_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 6
_PACKAGE: Final = "leaseway_server.store.access"
_SQL: Final = load_queries(_PACKAGE, "queries.sql")


class AccessStore:
    """The tokens of one data folder. Use `open`, then `close` or `with`.

    Every verb raises `StoreRefused`, which names the file, where it cannot be read or written.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._seen = -1
        self._by_hash: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}

    @classmethod
    def open(cls, data: Path) -> Self:
        """Opens or makes the file in the folder `data`, and brings it to the newest version.

        Raises `StoreRefused` where it is not ours, or a newer Leaseway's.
        """
        path = data / FILE_NAME
        with _told(path):
            data.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(path, isolation_level=None, timeout=WRITE_PATIENCE_MS / 1000)
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    # ── What commands do ──

    def add(
        self, user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
    ) -> tuple[Token, str]:
        """A new token and its secret, which cannot be had again. Times in ms; `expires_at` 0 is never."""
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        token = Token(secrets.token_hex(_ID_BYTES), user, queues, rights, now, expires_at)
        with self._writing():
            row = (hash_token(secret), token.id, user, _array(queues), _array(rights), now, expires_at)
            self._connection.execute(_SQL["add"], row)
        return token, secret

    def all(self) -> list[Token]:
        """The tokens that were not revoked, oldest first; also those whose time is over."""
        with _told(self.path):
            return list(self._read().values())

    def revoke(self, token_id: str) -> bool:
        """Ends the token at once. False where there is none of this id."""
        with self._writing():
            return self._connection.execute(_SQL["revoke"], (token_id,)).rowcount > 0

    # ── What the server asks ──

    def find(self, secret: str, now: int) -> Token | None:
        """The valid token with this secret. It is looked up by its hash, so that time tells nothing about others.

        One that was added by another process is found at once, one that was revoked there is gone after `refresh`.
        """
        hashed = hash_token(secret)
        if hashed not in self._by_hash:
            self.refresh()
        return _valid(self._by_hash.get(hashed), now)

    @property
    def known(self) -> Mapping[str, Token]:
        """The tokens by id, as of the last look; another mapping after each change."""
        return self._by_id

    def by_id(self, token_id: str, now: int) -> Token | None:
        """The valid token of this id, as of the last `refresh`."""
        return _valid(self._by_id.get(token_id), now)

    def still_valid(self, token_id: str, now: int) -> bool:
        """Whether the token is neither revoked, as of the last `refresh`, nor expired; for sockets that are open."""
        return _valid(self._by_id.get(token_id), now) is not None

    def refresh(self) -> bool:
        """Reads the tokens again where they have changed; call it each second. Says whether they had.

        While another process writes, what was read before stays; the next call sees the change.
        """
        with _told(self.path):
            try:
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version == self._seen:
                    return False
                self._by_hash = self._read()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return False
        self._by_id = {token.id: token for token in self._by_hash.values()}
        self._seen = version
        return True

    def _read(self) -> dict[str, Token]:
        return {row[0]: _token(row[1:]) for row in self._connection.execute(_SQL["tokens"])}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction. The version that `data_version` tells does not count our own changes."""
        with _told(self.path), _transaction(self._connection):
            yield
        self._seen = -1


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Names the file in what went wrong."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{path} cannot be used: {error}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute(f"PRAGMA busy_timeout = {WRITE_PATIENCE_MS}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_MS}")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
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


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's version (0 for a new one). Raises `StoreRefused` for a file of others or of a newer server."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreRefused(f"{path} is a SQLite file, but not Leaseway's file of tokens")
    newest = load_migrations(_PACKAGE)[-1][0]
    if version > newest:
        raise StoreRefused(
            f"{path} was written by a newer Leaseway (version {version} of the file; this one knows {newest}); "
            "run the newer one, or restore a backup made before the upgrade"
        )
    return int(version)


def _valid(token: Token | None, now: int) -> Token | None:
    return None if token is None or token.expired(now) else token


def _array(names: frozenset[str] | frozenset[Right] | None) -> str | None:
    return None if names is None else orjson.dumps(sorted(names)).decode()


def _names(array: str | None) -> frozenset[Any] | None:
    return None if array is None else frozenset(orjson.loads(array))


def _token(row: tuple[str, str, str | None, str | None, int, int]) -> Token:
    token_id, user, queues, rights, created_at, expires_at = row
    return Token(token_id, user, _names(queues), _names(rights), created_at, expires_at)
