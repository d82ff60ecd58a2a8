"""Policies: what becomes of an event of a type on one channel. Pure; `plan.py` asks them.

A policy is registered by its type, in code or in `notify.toml`. `TypePolicy` is what can be said there; a program may
register whatever else has a `decide`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import time
from typing import Final, Protocol, TypeAlias

from leaseway_notify.checks import check_type
from leaseway_notify.delivery import Reason
from leaseway_notify.errors import UnknownType
from leaseway_notify.event import Event, Priority
from leaseway_notify.profile import CHANNELS, Channel, Profile
from leaseway_notify.quiet import next_time, quiet_until
from leaseway_notify.zones import zone_of

MINUTE: Final = 60_000
HEARD: Final = frozenset[Channel]({"push", "email"})
"""What disturbs. What appears in an open page does not, and what waits in an inbox neither."""


@dataclass(frozen=True, slots=True)
class SendNow:
    """At once."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Later, at a time in ms."""

    at: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Batch:
    """Together with related ones, at a time in ms or when the first of them comes due."""

    at: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Not at all."""

    reason: Reason


Action: TypeAlias = SendNow | Schedule | Batch | Skip


@dataclass(frozen=True, slots=True)
class Situation:
    """What a policy decides on. `now` in ms."""

    event: Event
    profile: Profile
    channel: Channel
    now: int

    @property
    def muted(self) -> bool:
        """Whether the recipient does not want such things for now."""
        event, mutes = self.event, self.profile.preferences.mutes
        return any(mute.holds(event.type, event.context, self.channel, self.now) for mute in mutes)

    @property
    def unreachable(self) -> Reason:
        """Why the channel leads nowhere; "" where it leads to the recipient."""
        if self.channel == "email" and not self.profile.address:
            return "no_address"
        return "no_push_subscription" if self.channel == "push" and not self.profile.subscriptions else ""

    @property
    def at_work(self) -> bool:
        """Whether the recipient is working on this, and wants to be left alone with it for a while."""
        profile = self.profile
        return profile.preferences.collaborating and self.now < profile.working_on.get(self.event.context, 0)

    def after_quiet_hours(self, at: int) -> int:
        """The same time, or the end of the quiet hours that it is in."""
        if self.channel not in HEARD:
            return at
        return quiet_until(self.profile.preferences.quiet_hours, zone_of(self.profile.zone), at) or at

    def next_time(self, of_day: time) -> int:
        """When it is next this time of the day where the recipient is."""
        return next_time(of_day, zone_of(self.profile.zone), self.now)


class Policy(Protocol):
    """What becomes of events of one type."""

    @property
    def priority(self) -> Priority:
        """The priority of an event that has none of its own."""

    def decide(self, situation: Situation) -> Action:
        """What becomes of it on this channel. Pure."""


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """What `[types.<name>]` says. Durations in ms.

    `channels`: on all others such events are skipped. `urgent`: neither mutes nor quiet hours nor collaboration hold it
    back, and one's own doing is told too. `batch`: how long the first of a message waits for others, by channel.
    `digest`: one message of all since the last, at this time of the day, on channels that do not batch and are not in
    `at_once`.
    `collaboration_delay`: how long what the recipient is working on waits. `hourly`: so many an hour, by channel.
    """

    channels: frozenset[Channel] = frozenset(CHANNELS)
    priority: Priority = "normal"
    urgent: bool = False
    batch: Mapping[Channel, int] = field(default_factory=dict)
    digest: time | None = None
    at_once: frozenset[Channel] = frozenset()
    collaboration_delay: int = 10 * MINUTE
    hourly: Mapping[Channel, int] = field(default_factory=dict)

    def decide(self, situation: Situation) -> Action:
        """What becomes of it on this channel."""
        reason = self._unwanted(situation)
        return Skip(reason) if reason else self._when(situation)

    def _unwanted(self, situation: Situation) -> Reason:
        event, channel = situation.event, situation.channel
        if channel not in self.channels or (event.actor == event.recipient and not self.urgent):
            return "suppressed"
        if channel in situation.profile.preferences.disabled:
            return "channel_disabled"
        if situation.muted and not self.urgent:
            return "muted"
        return situation.unreachable

    def _when(self, situation: Situation) -> Action:
        now, channel = situation.now, situation.channel
        if self.urgent:
            return SendNow()
        if channel in self.batch:
            return Batch(situation.after_quiet_hours(now + self.batch[channel]))
        if self.digest and channel not in self.at_once:
            return Schedule(situation.after_quiet_hours(situation.next_time(self.digest)), "digest")
        if (quiet := situation.after_quiet_hours(now)) > now:
            return Schedule(quiet, "quiet_hours")
        if situation.at_work and channel in HEARD:
            return Schedule(situation.after_quiet_hours(now + self.collaboration_delay), "collaboration")
        return SendNow()


BUILT_IN: Final[Mapping[str, TypePolicy]] = {
    "mention": TypePolicy(batch={"email": 2 * MINUTE}),
    "chat": TypePolicy(batch={"email": 15 * MINUTE}, hourly={"email": 1}),
    "comment": TypePolicy(channels=frozenset({"in_app", "email"}), batch={"email": 30 * MINUTE}),
    "digest": TypePolicy(channels=frozenset({"in_app", "email"}), priority="low", digest=time(8)),
    "security": TypePolicy(priority="immediate", urgent=True),
    "system": TypePolicy(channels=frozenset({"in_app", "email"}), priority="low"),
}
"""The types that are there from the start. Between them they show every action."""


class Policies:
    """The policies by type: the built-in ones, and those that are registered besides or in their place."""

    def __init__(self, policies: Mapping[str, Policy] = BUILT_IN) -> None:
        self._policies: dict[str, Policy] = dict(policies)

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def register(self, name: str, policy: Policy) -> None:
        """From now on this policy decides on events of this type. Raises `Refused` for a name that no type has."""
        check_type("type", name)
        self._policies[name] = policy

    def of(self, name: str) -> Policy:
        """The policy of a type. Raises `UnknownType`."""
        if name not in self._policies:
            known = ", ".join(self._policies)
            raise UnknownType("type", f"no policy is registered for {name!r}; known here: {known}")
        return self._policies[name]

    def urgent(self, name: str) -> bool:
        """Whether events of a type come whatever their recipients want, so that nobody can unsubscribe from them."""
        policy = self._policies.get(name)
        return isinstance(policy, TypePolicy) and policy.urgent

    def hourly(self, name: str, channel: Channel) -> int | None:
        """How many messages of a type go to a recipient on a channel in an hour at most; None where that is open."""
        policy = self._policies.get(name)
        return policy.hourly.get(channel) if isinstance(policy, TypePolicy) else None
