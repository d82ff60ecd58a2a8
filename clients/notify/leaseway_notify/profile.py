"""Who is notified, and what they want: values, checked when they are made. Quiet hours are computed in `quiet.py`."""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import time
from typing import Any, Final, Literal, TypeAlias, get_args

from leaseway_notify.checks import check_name, check_text, check_time, check_type, check_url
from leaseway_notify.errors import Refused
from leaseway_notify.zones import zone_of

Channel: TypeAlias = Literal["in_app", "push", "email"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


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
        if self.type != "":
            check_type("mutes.type", self.type)
        check_name("mutes.context", self.context, optional=True)
        if self.channel != "":
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

    def as_json(self) -> dict[str, Any]:
        """As JSON says it; what is not said is as it is by default."""
        hours = self.quiet_hours
        return {
            "disabled": sorted(self.disabled),
            "mutes": [asdict(mute) for mute in self.mutes],
            "quietHours": hours and {"start": f"{hours.start:%H:%M}", "end": f"{hours.end:%H:%M}"},
            "collaborating": self.collaborating,
        }

    @classmethod
    def of(cls, said: object) -> "Preferences":
        """What a JSON object says. Raises `Refused`."""
        members = _members("", said, {"disabled", "mutes", "quietHours", "collaborating"})
        hours = members.get("quietHours")
        collaborating = members.get("collaborating", False)
        if not isinstance(collaborating, bool):
            raise Refused("collaborating", "expected true or false")
        return cls(
            disabled=frozenset(check_channel("disabled", one) for one in _list("disabled", members)),
            mutes=tuple(_mute(mute) for mute in _list("mutes", members)),
            quiet_hours=None if hours is None else _quiet_hours(hours),
            collaborating=collaborating,
        )


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """Where a browser takes pushes. `p256dh` and `auth` are its keys, base64url as the browser gives them."""

    id: str
    endpoint: str
    p256dh: str
    auth: str

    def __post_init__(self) -> None:
        check_name("subscription.id", self.id)
        check_url("subscription.endpoint", self.endpoint)
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


def time_of_day(path: str, said: object) -> time:
    """A time such as 22:00. Raises `Refused`."""
    if not isinstance(said, str) or not _TIME.fullmatch(said):
        raise Refused(path, 'expected a time of the day such as "22:00"')
    return time(int(said[:2]), int(said[3:]))


def _quiet_hours(said: object) -> QuietHours:
    members = _members("quietHours", said, {"start", "end"})
    return QuietHours(*(time_of_day(f"quietHours.{name}", members.get(name)) for name in ("start", "end")))


def _mute(said: object) -> Mute:
    return Mute(**_members("mutes", said, {of.name for of in fields(Mute)}))


def _members(path: str, said: object, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise Refused(path, "expected an object")
    for name in said:
        if name not in known:
            raise Refused(f"{path}.{name}" if path else str(name), f"unknown; known here: {', '.join(sorted(known))}")
    return said


def _list(name: str, members: Mapping[str, Any]) -> list[Any]:
    said = members.get(name, [])
    if not isinstance(said, list):
        raise Refused(name, "expected a list")
    return said


def check_channel(path: str, channel: object) -> Channel:
    """The channel of this name. Raises `Refused`."""
    for known in CHANNELS:
        if known == channel:
            return known
    raise Refused(path, f"expected one of {', '.join(CHANNELS)}")
