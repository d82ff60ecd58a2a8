"""The form of preferences: what it shows of them, and what it makes of them. Pure.

Mutes that the form has no box for, of one context or for a time, are left alone unless their own box is cleared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leaseway_notify.errors import Refused
from leaseway_notify.policy import Policies, TypePolicy
from leaseway_notify.profile import CHANNELS, Channel, Mute, Preferences, QuietHours, time_of_day

Form = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Box:
    """Whether a type comes on a channel; `there` is False where it never does, `fixed` where nobody can refuse it."""

    channel: Channel
    on: bool
    there: bool
    fixed: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A type of notification."""

    type: str
    boxes: tuple[Box, ...]


def rows(preferences: Preferences, policies: Policies) -> list[Row]:
    """A row for each type, a box for each channel."""
    return [Row(kind, tuple(_box(kind, channel, preferences, policies) for channel in CHANNELS)) for kind in policies]


def _box(kind: str, channel: Channel, preferences: Preferences, policies: Policies) -> Box:
    policy = policies.of(kind)
    there = not isinstance(policy, TypePolicy) or channel in policy.channels
    fixed = policies.urgent(kind)
    muted = any(_covers(mute, kind, channel) for mute in preferences.mutes)
    return Box(channel, fixed or not muted, there, fixed)


def others(preferences: Preferences) -> list[Mute]:
    """The mutes that have no box in the table."""
    return [mute for mute in preferences.mutes if not _boxed(mute)]


def _boxed(mute: Mute) -> bool:
    return not mute.context and not mute.until and bool(mute.type)


def _covers(mute: Mute, kind: str, channel: Channel) -> bool:
    return _boxed(mute) and mute.type == kind and mute.channel in ("", channel)


def changed(before: Preferences, form: Form, policies: Policies) -> Preferences:
    """The preferences as the form says. Raises `Refused`."""
    muted = tuple(
        Mute(type=row.type, channel=box.channel)
        for row in rows(before, policies)
        for box in row.boxes
        if box.there and not box.fixed and f"{row.type}:{box.channel}" not in form
    )
    unknown = tuple(mute for mute in before.mutes if _boxed(mute) and mute.type not in set(policies))
    kept = tuple(mute for number, mute in enumerate(others(before)) if f"mute:{number}" in form)
    return replace(
        before,
        disabled=frozenset(channel for channel in CHANNELS if f"channel:{channel}" not in form),
        mutes=muted + unknown + kept,
        quiet_hours=_quiet_hours(form),
        collaborating="collaborating" in form,
    )


def _quiet_hours(form: Form) -> QuietHours | None:
    if "quiet" not in form:
        return None
    start, end = (form.get(name, [""])[0] for name in ("start", "end"))
    if not start or not end:
        raise Refused("quiet hours", "say when they begin and when they end")
    return QuietHours(time_of_day("quiet hours, from", start), time_of_day("quiet hours, to", end))
