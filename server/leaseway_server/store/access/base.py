"""What a store of tokens and tickets can do; the rules for both are in `core/access.py`.

It is shared by servers and commands, which see each other's changes. Every verb that waits raises `StoreError` where
the store cannot be read or written.
"""

from collections.abc import Mapping
from typing import Protocol

from leaseway_server.core.access import Right, Token


class AccessStore(Protocol):
    """The tokens of one installation, and the tickets that were made with them."""

    current: bool
    """Whether what is known can be checked at the moment; where not, nobody is found."""

    # ── What commands do ──

    async def add(
        self, user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
    ) -> tuple[Token, str]:
        """A new token and its secret, which cannot be had again. Times in ms; `expires_at` 0 is never."""
        ...

    async def all(self) -> list[Token]:
        """The tokens that were not revoked, oldest first; also those whose time is over."""
        ...

    async def revoke(self, token_id: str) -> bool:
        """Ends the token at once. False where there is none of this id."""
        ...

    # ── What the server asks ──

    @property
    def source(self) -> object:
        """Tells one store from another that took its place."""
        ...

    @property
    def known(self) -> Mapping[str, Token]:
        """The tokens by id, as of the last look; another mapping after each change."""
        ...

    def by_id(self, token_id: str, now: int) -> Token | None:
        """The valid token of this id, as it was last known; for sockets that are open. It counts as used."""
        ...

    async def find(self, secret: str, now: int) -> Token | None:
        """The valid token with this secret. It counts as used.

        One that was added elsewhere is found at once, one that was revoked there is gone after `refresh`. Raises where
        it cannot be known whether it is valid.
        """
        ...

    async def refresh(self) -> bool:
        """Reads the tokens again where they have changed; call it each second. Says whether they had."""
        ...

    async def issue(self, queue: str, secret: str, token: Token, now: int) -> int:
        """Keeps a new ticket of this token for the queue. Gives when it ends, ms since the epoch.

        Raises `LimitReached` where the token has as many as it may have.
        """
        ...

    async def redeem(self, queue: str, secret: str, now: int) -> Token | None:
        """The valid token whose ticket this is, once; None afterwards, and where its time is over. Raises as `find`."""
        ...

    async def close(self) -> None:
        """Notes what was used, and lets go of the store."""
        ...
