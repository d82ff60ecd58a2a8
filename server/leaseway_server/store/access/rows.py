"""A token as both stores keep it: a row, whose lists of names are JSON; and what is made anew for each."""

import secrets
from collections.abc import Sequence
from typing import Any, Final

import orjson

from leaseway_server.core.access import PREFIX, Right, Token

_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 6


def new_token(
    user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
) -> tuple[Token, str]:
    """A token that is kept nowhere yet, and its secret."""
    secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    return Token(secrets.token_hex(_ID_BYTES), user, queues, rights, now, expires_at), secret


def row_of(token: Token) -> tuple[str, str, str | None, str | None, int, int]:
    """What is kept of a token beside its hash: id, user, queues, rights, created_at, expires_at."""
    return token.id, token.user, _array(token.queues), _array(token.rights), token.created_at, token.expires_at


def token_of(row: Sequence[Any]) -> Token:
    """The token of such a row, which has `used_at` at its end."""
    token_id, user, queues, rights, created_at, expires_at, used_at = row
    return Token(token_id, user, _names(queues), _names(rights), created_at, expires_at, used_at)


def _array(names: frozenset[str] | frozenset[Right] | None) -> str | None:
    return None if names is None else orjson.dumps(sorted(names)).decode()


def _names(array: str | None) -> frozenset[Any] | None:
    return None if array is None else frozenset(orjson.loads(array))
