"""What a server knows of the tokens between two looks at the store, and when each was used.

Pure but for being kept; both stores of tokens have one.
"""

from collections.abc import Mapping
from typing import Final

from leaseway_server.core.access import Token

NOTED_EACH_MS: Final = 60_000
"""The times of use are written so often, all at once."""


class KnownTokens:
    """The tokens as they were last read."""

    def __init__(self) -> None:
        self.ids: Mapping[str, Token] = {}
        self._hashes: Mapping[str, Token] = {}
        self._used: dict[str, int] = {}
        self._newest = 0
        self._noted = 0

    def replace(self, by_hash: Mapping[str, Token]) -> None:
        """These are all that there are now."""
        self._hashes = by_hash
        self.ids = {token.id: token for token in by_hash.values()}

    def has(self, hashed: str) -> bool:
        """Whether there is one with this hash, valid or not."""
        return hashed in self._hashes

    def find(self, hashed: str, now: int) -> Token | None:
        """The valid token with this hash, which is used now."""
        return self._valid(self._hashes.get(hashed), now)

    def by_id(self, token_id: str, now: int) -> Token | None:
        """The valid token of this id, which is used now."""
        return self._valid(self.ids.get(token_id), now)

    def _valid(self, token: Token | None, now: int) -> Token | None:
        return token and self.use(token, now)

    def use(self, token: Token, now: int) -> Token | None:
        """The token, which is used now, where it is valid."""
        if token.expired(now):
            return None
        self._used[token.id] = self._newest = now
        return token

    # ── When they were used ──

    @property
    def due(self) -> bool:
        """Whether it is time to write what `take_used` gives."""
        return self._newest - self._noted >= NOTED_EACH_MS

    def take_used(self) -> dict[str, int]:
        """When each token was last used, in ms, of those that were since the last call."""
        used, self._used, self._noted = self._used, {}, self._newest
        return used
