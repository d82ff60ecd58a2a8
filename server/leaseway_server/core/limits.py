"""Limits that are counted: rates, failed attempts, what is given back when its user goes. Times come with the call."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

WINDOW_MS: Final = 10_000
"""Rates are averaged over so long: a burst may use up what was not used before."""
MINUTE_MS: Final = 60_000
MOST_ADDRESSES: Final = 10_000
"""So many addresses are remembered for their failures; past that, those whose last one is longest ago go first."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one client may ask of the server; `leaseway.toml`'s `[server.limits]`. `request_timeout` in ms."""

    connections_per_address: int = 1_000
    connections_per_token: int = 1_000
    messages_per_second: int = 50_000
    bytes_per_second: int = 64 * 1024 * 1024
    bad_messages: int = 20
    failed_tokens_per_minute: int = 30
    waiting_claims_per_token: int = 10_000
    request_timeout: int = 30_000


class Rate:
    """A bucket that holds `most`, and fills in 10 s. Whole numbers, so that what just fits does fit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._full = most * WINDOW_MS
        self._left = self._full
        self._at = 0

    def spend(self, amount: int, now: int) -> bool:
        """Takes so much out of the bucket; False where it holds less, and then it is empty."""
        self._left = min(self._full, self._left + (now - self._at) * self._most) - amount * WINDOW_MS
        self._at = now
        if self._left >= 0:
            return True
        self._left = 0
        return False


class Meter:
    """What one socket says, against the limits of its server. Gives the first limit that it passes, in words, or ""."""

    def __init__(self, limits: ServerLimits) -> None:
        self._messages = Rate(limits.messages_per_second * WINDOW_MS // 1000)
        self._bytes = Rate(limits.bytes_per_second * WINDOW_MS // 1000)
        self._bad = Rate(limits.bad_messages)

    def passed(self, messages: int, size: int, bad: int, now: int) -> str:
        """So many messages came, in so many bytes, and so many of them were bad."""
        if bad and not self._bad.spend(bad, now):
            return "too many bad messages"
        if not self._messages.spend(messages, now):
            return "too many messages a second"
        return "" if self._bytes.spend(size, now) else "too many bytes a second"


class Allowances:
    """How many of something each user has at the moment. Who has none is not remembered."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: dict[str, int] = {}

    def take(self, key: str, amount: int = 1) -> bool:
        """So many more for this user; False where that is more than it may have."""
        taken = self._taken.get(key, 0) + amount
        if taken > self.limit:
            return False
        self._taken[key] = taken
        return True

    def give(self, key: str, amount: int = 1) -> None:
        """Gives so many back."""
        left = self._taken[key] - amount
        if left:
            self._taken[key] = left
        else:
            del self._taken[key]

    def __len__(self) -> int:
        return len(self._taken)


@dataclass(slots=True)
class Allowance:
    """The allowance of one user."""

    of: Allowances
    key: str
    taken: int = 0

    def take(self, amount: int = 1) -> bool:
        """So many more; False where that is too many."""
        if not self.of.take(self.key, amount):
            return False
        self.taken += amount
        return True

    def give(self, amount: int = 1) -> None:
        """So many are given back; nothing, where all were."""
        if self.taken:
            self.of.give(self.key, amount)
            self.taken -= amount

    def give_all(self) -> None:
        """The user is gone."""
        if self.taken:
            self.of.give(self.key, self.taken)
            self.taken = 0


@dataclass(slots=True)
class FailedAttempts:
    """Tokens that were not valid, by address: `per_minute` of them, then none is looked at until some are forgiven."""

    per_minute: int
    _failures: OrderedDict[str, tuple[float, int]] = field(default_factory=OrderedDict)

    def too_many(self, address: str, now: int) -> bool:
        """Whether the address has to wait."""
        return address in self._failures and self._left(address, now) > self.per_minute - 1

    def failed(self, address: str, now: int) -> None:
        """One more failure."""
        failures = self._left(address, now) + 1
        self._failures[address] = (failures, now)
        self._failures.move_to_end(address)  # The first is the one whose last failure is oldest.
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def _left(self, address: str, now: int) -> float:
        failures, at = self._failures.get(address, (0.0, now))
        return max(0.0, failures - (now - at) * self.per_minute / MINUTE_MS)
