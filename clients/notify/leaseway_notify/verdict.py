"""What may become of a delivery before it is sent. Values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from leaseway_notify.delivery import Reason, Sending
from leaseway_notify.profile import Profile


@dataclass(frozen=True, slots=True)
class Go:
    """To be sent now. `members` are what the message holds, oldest first; `dropped` are those it does not, and why."""

    profile: Profile
    members: tuple[Sending, ...]
    dropped: Mapping[str, Reason]


@dataclass(frozen=True, slots=True)
class Drop:
    """Never to be sent: why not, by delivery, its own among them."""

    reasons: Mapping[str, Reason]


@dataclass(frozen=True, slots=True)
class PutOff:
    """To be looked at again, at a time in ms; with `batch_key`, together with others that have it."""

    until: int
    reason: Reason
    batch_key: str | None = None


Verdict: TypeAlias = Go | Drop | PutOff
