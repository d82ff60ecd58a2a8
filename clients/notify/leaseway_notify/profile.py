"""Who is notified, and what they want: values, checked when they are made. Quiet hours are computed in `quiet.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from typing import Literal, TypeAlias, get_args

from leaseway_notify.checks import check_link, check_name, check_text, check_time, check_type
from leaseway_notify.errors import Refused
from leaseway_notify.zones import zone_of

Channel: TypeAlias = Literal["in_app", "push", "email"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `start` to `end` by the recipient's clock on the wall, every day; past midnight where `end` is not later.

    Equal times are the whole day.
    """

    start: time
    end: time

    def __post_init__(self) -> None:
        for name, at in (("start", self.start), ("end", self.end)):
            if not isinstance(at, time) or at.tzinfo is not None:
                raise Refused(f"quiet_hours.{name}", "expected a time of the day without a zone")


@dataclass(frozen=True, slots=True)
class Mute:
    """What is not wanted: of this type, about this context, on this channel; "" is any. `until` in ms, 0 for ever."""

    type: str = ""
    context: str = ""
    channel: Channel | Literal[""] = ""
    until: int = 0

    def __post_init__(self) -> None:
        if self.type:
            check_type("mutes.type", self.type)
        check_name("mutes.context", self.context, optional=True)
        if self.channel:
            check_channel("mutes.channel", self.channel)
        check_time("mutes.until", self.until)

    def holds(self, kind: str, context: str, channel: Channel, now: int) -> bool:
        """Whether it mutes such a delivery at this time."""
        said = ((self.type, kind), (self.context, context), (self.channel, channel))
        return all(mine in ("", theirs) for mine, theirs in said) and (not self.until or now < self.until)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a recipient wants. `collaborating`: what they are working on at the moment may wait a little."""

    disabled: frozenset[Channel] = frozenset()
    mutes: tuple[Mute, ...] = ()
    quiet_hours: QuietHours | None = None
    collaborating: bool = False

    def __post_init__(self) -> None:
        for channel in self.disabled:
            check_channel("disabled", channel)


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """Where a browser takes pushes. `p256dh` and `auth` are its keys, base64url as the browser gives them."""

    id: str
    endpoint: str
    p256dh: str
    auth: str

    def __post_init__(self) -> None:
        check_name("subscription.id", self.id)
        check_link("subscription.endpoint", self.endpoint)
        check_text("subscription.p256dh", self.p256dh, 200, least=1)
        check_text("subscription.auth", self.auth, 200, least=1)


@dataclass(frozen=True, slots=True)
class Profile:
    """A recipient. `address` is for email, "" where there is none; `zone` is an IANA name.

    `working_on`: until when (ms) they are at work on which contexts; the application says so (`ProfileStore`).
    """

    id: str
    address: str = ""
    name: str = ""
    zone: str = "UTC"
    preferences: Preferences = Preferences()
    subscriptions: tuple[PushSubscription, ...] = ()
    working_on: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("id", self.id)
        check_text("address", self.address, 254)
        check_text("name", self.name, 200)
        check_text("zone", self.zone, 200, least=1)
        zone_of(self.zone)
        for context, until in self.working_on.items():
            check_name("working_on", context)
            check_time(f"working_on.{context}", until)


def check_channel(path: str, channel: object) -> None:
    """Raises `Refused` for what is no channel."""
    if channel not in CHANNELS:
        raise Refused(path, f"expected one of {', '.join(CHANNELS)}")
