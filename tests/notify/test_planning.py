"""Planning: what becomes of an event on each channel, by tables and by properties. Pure: no store, no clock."""

import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaseway_notify.delivery import Delivery
from leaseway_notify.errors import Refused, UnknownType
from leaseway_notify.event import Event, Priority
from leaseway_notify.plan import Plan, plan
from leaseway_notify.policy import BUILT_IN, MINUTE, Action, Policies, Schedule, SendNow, Situation, Skip, TypePolicy
from leaseway_notify.profile import CHANNELS, Channel, Mute, Preferences, Profile, QuietHours
from leaseway_notify.quiet import quiet_until
from leaseway_notify.settings import EmailSettings, PushSettings, Settings
from leaseway_notify.zones import zone_of
from support.notify_stores import event, profile

NIGHT = QuietHours(time(22), time(7))


def at(text: str, zone: str = "Europe/Berlin") -> int:
    """ms of a time on the wall."""
    return round(datetime.fromisoformat(text).replace(tzinfo=zone_of(zone)).timestamp() * 1000)


NOON, LATE = at("2026-01-10T12:00"), at("2026-01-10T23:00")
SEVEN, EIGHT = at("2026-01-11T07:00"), at("2026-01-11T08:00")


def shown(delivery: Delivery) -> str:
    """`status reason`, and the minutes until it is due."""
    wait = (delivery.due_at - delivery.created_at) / MINUTE
    return " ".join(part for part in (delivery.status, delivery.reason, f"{wait:+g}" if wait else "") if part)


def planned(kind: str, now: int = NOON, **preferences: Any) -> dict[str, str]:
    return {one.channel: shown(one) for one in plan_of(kind, now, **preferences).deliveries}


def plan_of(kind: str, now: int = NOON, **preferences: Any) -> Plan:
    berliner = profile(
        zone="Europe/Berlin", preferences=Preferences(**preferences), working_on={"doc-1": NOON + MINUTE}
    )
    return plan(event(type=kind), berliner, now)


# ── The built-in types ──

BY_TYPE = [
    # type            in-app              push                 email
    ("mention", "pending", "pending", "scheduled batch +2"),
    ("chat", "pending", "pending", "scheduled batch +15"),
    ("comment", "pending", "skipped suppressed", "scheduled batch +30"),
    ("digest", "scheduled digest +1200", "skipped suppressed", "scheduled digest +1200"),
    ("security", "pending", "pending", "pending"),
    ("system", "pending", "skipped suppressed", "pending"),
]


@pytest.mark.parametrize(("kind", "in_app", "push", "email"), BY_TYPE)
def test_each_built_in_type_at_noon(kind: str, in_app: str, push: str, email: str) -> None:
    assert planned(kind) == {"in_app": in_app, "push": push, "email": email}


def test_the_built_in_types_are_these_and_show_every_action() -> None:
    assert list(BUILT_IN) == [kind for kind, *_ in BY_TYPE]
    actions = {
        type(BUILT_IN[kind].decide(Situation(event(type=kind), profile(), channel, NOON))).__name__
        for kind in BUILT_IN
        for channel in CHANNELS
    }
    assert actions == {"SendNow", "Schedule", "Batch", "Skip"}


# ── What a recipient wants ──


@pytest.mark.parametrize(
    ("kind", "preferences", "in_app", "push", "email"),
    [
        # Quiet hours hold back what is heard, each channel for itself; a batch waits for their end too.
        ("mention", {"quiet_hours": NIGHT}, "pending", "scheduled quiet_hours +480", "scheduled batch +480"),
        ("system", {"quiet_hours": NIGHT}, "pending", "skipped suppressed", "scheduled quiet_hours +480"),
        ("security", {"quiet_hours": NIGHT}, "pending", "pending", "pending"),
        ("digest", {"quiet_hours": QuietHours(time(22), time(9))}, "scheduled digest +540", "skipped suppressed",
         "scheduled digest +600"),
        ("mention", {"quiet_hours": QuietHours(time(3), time(3))}, "pending", "scheduled quiet_hours +240",
         "scheduled batch +240"),
        # Mutes.
        ("mention", {"mutes": (Mute(),)}, *["skipped muted"] * 3),
        ("mention", {"mutes": (Mute(type="mention"),)}, *["skipped muted"] * 3),
        ("mention", {"mutes": (Mute(context="doc-1"),)}, *["skipped muted"] * 3),
        ("mention", {"mutes": (Mute(context="doc-2"), Mute(type="chat"))}, "pending", "pending", "scheduled batch +2"),
        ("mention", {"mutes": (Mute(type="mention", channel="email"),)}, "pending", "pending", "skipped muted"),
        ("mention", {"mutes": (Mute(until=LATE + 1),)}, *["skipped muted"] * 3),
        ("mention", {"mutes": (Mute(until=LATE),)}, "pending", "pending", "scheduled batch +2"),
        ("security", {"mutes": (Mute(),)}, "pending", "pending", "pending"),
        # Channels that are turned off.
        ("security", {"disabled": frozenset({"push"})}, "pending", "skipped channel_disabled", "pending"),
        ("chat", {"disabled": frozenset(CHANNELS)}, *["skipped channel_disabled"] * 3),
    ],
)  # fmt: skip
def test_at_eleven_in_the_evening(kind: str, preferences: dict[str, Any], in_app: str, push: str, email: str) -> None:
    assert planned(kind, LATE, **preferences) == {"in_app": in_app, "push": push, "email": email}


def test_what_one_is_working_on_waits_a_little_where_one_wants_that() -> None:
    assert planned("security", collaborating=True)["push"] == "pending"
    assert planned("mention", collaborating=True) == {
        "in_app": "pending",
        "push": "scheduled collaboration +10",
        "email": "scheduled batch +2",
    }
    assert planned("mention", NOON + MINUTE, collaborating=True)["push"] == "pending"
    assert planned("mention", collaborating=False)["push"] == "pending"


def test_who_cannot_be_reached_and_ones_own_doing() -> None:
    nowhere = plan(event(), Profile("ada"), NOON)
    assert [shown(one) for one in nowhere.deliveries] == [
        "pending", "skipped no_push_subscription", "skipped no_address",
    ]  # fmt: skip
    assert {shown(one) for one in plan(event(actor="ada"), profile(), NOON).deliveries} == {"skipped suppressed"}
    own = plan(event(type="security", actor="ada"), profile(), NOON)
    assert {shown(one) for one in own.deliveries} == {"pending"}


def test_what_cannot_leave_is_skipped_and_what_nobody_wants_says_so_first() -> None:
    made = plan(event(), profile(), NOON, configured=Settings().channels)
    assert [shown(one) for one in made.deliveries] == ["pending", "skipped not_configured", "skipped not_configured"]
    nowhere = plan(event(), Profile("ada"), NOON, configured=["in_app"])
    assert [shown(one) for one in nowhere.deliveries] == [
        "pending", "skipped no_push_subscription", "skipped no_address",
    ]  # fmt: skip
    assert Settings(email=EmailSettings("provider"), push=PushSettings(Path("vapid.pem"))).channels == {*CHANNELS}


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-03-29T01:30", "2026-03-29T03:00"),  # Quiet from 1:15 to 2:30, which is 3 o'clock that night.
        ("2026-10-25T01:30", "2026-10-25T02:30"),  # And the second 2:30 of this one.
    ],
)
def test_on_the_days_on_which_clocks_change(now: str, until: str) -> None:
    berliner = profile(zone="Europe/Berlin", preferences=Preferences(quiet_hours=QuietHours(time(1, 15), time(2, 30))))
    made = plan(event(), berliner, at(now))
    due = datetime.fromisoformat(until).replace(tzinfo=zone_of("Europe/Berlin"), fold=1)
    assert {one.due_at for one in made.deliveries[1:]} == {round(due.timestamp() * 1000)}


# ── Policies ──


def test_a_policy_of_ones_own_decides() -> None:
    @dataclass(frozen=True)
    class Invoices:
        priority: Priority = "low"

        def decide(self, situation: Situation) -> Action:
            return SendNow() if situation.channel == "email" else Skip("suppressed")

    policies = Policies()
    policies.register("invoice", Invoices())
    made = plan(event(type="invoice"), profile(), NOON, policies)
    assert [(shown(one), one.priority) for one in made.deliveries] == [
        ("skipped suppressed", "low"), ("skipped suppressed", "low"), ("pending", "low"),
    ]  # fmt: skip
    assert policies.hourly("invoice", "email") is None
    assert (policies.hourly("chat", "email"), policies.hourly("chat", "push")) == (1, None)
    assert list(policies) == [*BUILT_IN, "invoice"]
    with pytest.raises(Refused, match=r"^type: expected a name such as mention"):
        policies.register("In voice", Invoices())
    with pytest.raises(UnknownType, match=r"^type: no policy is registered for 'invoice'; known here: mention, chat,"):
        plan(event(type="invoice"), profile(), NOON)


@pytest.mark.parametrize("at", [-1, 10**14 + 1, 1.5, True])
def test_a_policy_that_says_no_time_is_refused(at: Any) -> None:
    @dataclass(frozen=True)
    class Odd:
        priority: Priority = "normal"

        def decide(self, _: Situation) -> Action:
            return Schedule(at, "digest")

    with pytest.raises(Refused, match=r"^the policy of odd: expected a time in ms since the epoch"):
        plan(event(type="odd"), profile(), NOON, Policies({"odd": Odd()}))


def test_a_digest_leaves_out_what_is_sent_at_once() -> None:
    policies = Policies({"news": TypePolicy(digest=time(8), at_once=frozenset({"in_app"}))})
    made = plan(event(type="news"), profile(zone="Europe/Berlin"), NOON, policies)
    assert [shown(one) for one in made.deliveries] == ["pending", "scheduled digest +1200", "scheduled digest +1200"]
    other = plan(event(type="news", context="doc-2"), profile(zone="Europe/Berlin"), NOON, policies)
    assert [one.batch_key for one in other.deliveries] == [one.batch_key for one in made.deliveries]
    assert len({one.batch_key for one in made.deliveries}) == 3


def test_an_events_own_priority_comes_first() -> None:
    assert {one.priority for one in plan(event(priority="low"), profile(), NOON).deliveries} == {"low"}
    assert {one.priority for one in plan(event(type="security"), profile(), NOON).deliveries} == {"immediate"}


def test_ids_and_keys_follow_from_the_event() -> None:
    made = plan(event(id="event-7"), profile(), NOON)
    assert [one.id for one in made.deliveries] == ["event-7-in_app", "event-7-push", "event-7-email"]
    assert made == plan(event(id="event-7"), profile(), NOON)
    assert made.notification.url == ""
    assert plan(event(payload={"url": "/doc/1"}), profile(), NOON).notification.url == "/doc/1"
    assert [bool(one.batch_key) for one in made.deliveries] == [False, False, True]
    again = made.as_duplicate_of("event-6")
    assert {shown(one) for one in again.deliveries} == {"skipped deduplicated"}
    assert again.duplicate
    assert not made.duplicate
    assert again.notification == replace(made.notification, duplicate_of="event-6")


def test_to_plan_needs_nothing_of_what_sends() -> None:
    heavy = {"aiohttp", "aiosmtplib", "asyncpg", "jinja2", "pywebpush", "starlette", "uvicorn", "sqlite3", "asyncio"}
    code = f"import leaseway_notify.plan, sys; print({heavy!r} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


# ── Properties ──

channels = st.sampled_from(CHANNELS)
times = st.builds(time, st.integers(0, 23), st.integers(0, 59))
mutes = st.builds(
    Mute,
    type=st.sampled_from(["", "mention", "chat"]),
    context=st.sampled_from(["", "doc-1", "doc-2"]),
    channel=st.sampled_from(["", *CHANNELS]),
    until=st.sampled_from([0, NOON, LATE]),
)
profiles = st.builds(
    profile,
    zone=st.sampled_from(sorted(available_timezones() - {"localtime", "posixrules"})),
    address=st.sampled_from(["", "ada@example.com"]),
    preferences=st.builds(
        Preferences,
        disabled=st.frozensets(channels, max_size=1),
        mutes=st.lists(mutes, max_size=1).map(tuple),
        quiet_hours=st.none() | st.builds(QuietHours, times, times),
        collaborating=st.booleans(),
    ),
    working_on=st.sampled_from([{}, {"doc-1": LATE}]),
)
events = st.builds(event, type=st.sampled_from(list(BUILT_IN)), context=st.sampled_from(["", "doc-1"]))
moments = st.integers(NOON - 400 * 86_400_000, NOON + 400 * 86_400_000)
REASONS = {
    "pending": {""},
    "scheduled": {"quiet_hours", "digest", "collaboration", "batch"},
    "skipped": {"suppressed", "channel_disabled", "muted", "no_address", "no_push_subscription"},
}


@given(events, profiles, moments)
@settings(max_examples=300)
def test_every_channel_gets_a_delivery_that_says_why_and_disturbs_nobody(said: Event, who: Profile, now: int) -> None:
    made = plan(said, who, now)
    assert tuple(one.channel for one in made.deliveries) == CHANNELS
    for one in made.deliveries:
        assert one.reason in REASONS[one.status]
        assert one.due_at >= now
        assert (one.due_at > now) <= (one.status == "scheduled")
        assert bool(one.batch_key) == (one.reason in ("batch", "digest"))
        hours = who.preferences.quiet_hours
        if hours and one.status != "skipped" and one.channel != "in_app" and said.type != "security":
            all_day = hours.start == hours.end
            assert all_day or quiet_until(hours, zone_of(who.zone), one.due_at) is None


@given(events, profiles, moments, channels)
def test_each_channel_is_decided_on_its_own(said: Event, who: Profile, now: int, channel: Channel) -> None:
    """What is wanted on one channel changes nothing on the others."""
    wanted = who.preferences
    others = replace(
        who,
        preferences=replace(
            wanted,
            disabled=frozenset(CHANNELS) - {channel} | (wanted.disabled & {channel}),
            mutes=(*wanted.mutes, *(Mute(channel=other) for other in CHANNELS if other != channel)),
        ),
    )

    def of_channel(profile: Profile) -> Delivery:
        return next(one for one in plan(said, profile, now).deliveries if one.channel == channel)

    assert of_channel(who) == of_channel(others)
