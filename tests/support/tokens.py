"""The file of tokens, for tests that are no coroutines: what SQLite does it does at once.

with TokenFile(folder) as tokens:
    token, secret = tokens.add("alice")
"""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from leaseway_server.core.access import Right, Token
from leaseway_server.store.access import SqliteAccess

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


class TokenFile:
    """The tokens of a data folder, as commands change them beside a server."""

    def __init__(self, data: Path, *, make: bool = True) -> None:
        self.access = SqliteAccess.open(data, make=make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        at_once(self.access.close())

    def add(
        self, user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
    ) -> tuple[Token, str]:
        """See `AccessStore.add`."""
        return at_once(self.access.add(user, queues, rights, expires_at, now))

    def all(self) -> list[Token]:
        """See `AccessStore.all`."""
        return at_once(self.access.all())

    def revoke(self, token_id: str) -> bool:
        """See `AccessStore.revoke`."""
        return at_once(self.access.revoke(token_id))

    def find(self, secret: str, now: int) -> Token | None:
        """See `AccessStore.find`."""
        return at_once(self.access.find(secret, now))
