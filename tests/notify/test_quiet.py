"""Quiet hours in every zone of the world, on ordinary days and on those on which clocks change."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaseway_notify.errors import Refused
from leaseway_notify.profile import QuietHours
from leaseway_notify.quiet import moment, next_time, quiet_until
from leaseway_notify.zones import zone_of

ZONES = sorted(available_timezones() - {"localtime", "posixrules"})
YEAR = 2026
STEP = timedelta(minutes=15)
AROUND = timedelta(days=2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def at(zone: str, text: str, fold: int = 0) -> int:
    """A time on the wall."""
    return ms(datetime.fromisoformat(text).replace(tzinfo=zone_of(zone), fold=fold))


def hours(text: str) -> QuietHours:
    start, end = map(time.fromisoformat, text.split("-"))
    return QuietHours(start, end)


# ── By hand ──

ORDINARY = [
    # quiet hours, now, until when it is quiet
    ("22:00-07:00", "2026-01-10T21:59", None),
    ("22:00-07:00", "2026-01-10T22:00", "2026-01-11T07:00"),
    ("22:00-07:00", "2026-01-11T06:59:59.999", "2026-01-11T07:00"),
    ("22:00-07:00", "2026-01-11T07:00", None),
    ("12:00-13:30", "2026-01-10T12:30", "2026-01-10T13:30"),
    ("12:00-13:30", "2026-01-10T13:30", None),
    ("00:00-08:00", "2026-01-10T00:00", "2026-01-10T08:00"),
    ("23:59-00:00", "2026-01-10T23:59:30", "2026-01-11T00:00"),
    ("00:00-00:00", "2026-01-10T12:00", "2026-01-11T00:00"),
    ("09:00-09:00", "2026-01-10T08:59", "2026-01-10T09:00"),
    ("09:00-09:00", "2026-01-10T09:00", "2026-01-11T09:00"),
]
CHANGES = [
    # Clocks are set forward: the hour from 2 to 3 is missing, and everything in it is 3 o'clock.
    ("Europe/Berlin", "02:30-06:00", ("2026-03-29T01:59", 0), None),
    ("Europe/Berlin", "02:30-06:00", ("2026-03-29T03:00", 0), ("2026-03-29T06:00", 0)),
    ("Europe/Berlin", "22:00-02:30", ("2026-03-29T01:59", 0), ("2026-03-29T03:00", 0)),
    ("Europe/Berlin", "22:00-02:30", ("2026-03-29T03:00", 0), None),
    ("Europe/Berlin", "02:10-02:50", ("2026-03-29T01:59", 0), None),
    ("Europe/Berlin", "02:10-02:50", ("2026-03-29T03:00", 0), None),
    ("Europe/Berlin", "02:30-02:30", ("2026-03-28T12:00", 0), ("2026-03-29T03:00", 0)),
    # Clocks are set back: the hour from 2 to 3 comes twice; quiet begins in the first and ends in the second.
    ("Europe/Berlin", "02:30-06:00", ("2026-10-25T02:30", 0), ("2026-10-25T06:00", 0)),
    ("Europe/Berlin", "02:30-06:00", ("2026-10-25T02:00", 1), ("2026-10-25T06:00", 0)),
    ("Europe/Berlin", "22:00-02:30", ("2026-10-25T02:45", 0), ("2026-10-25T02:30", 1)),
    ("Europe/Berlin", "22:00-02:30", ("2026-10-25T02:30", 1), None),
    ("Europe/Berlin", "22:00-07:00", ("2026-10-24T23:00", 0), ("2026-10-25T07:00", 0)),
    # Half an hour, two hours, and at a minute past midnight, so that yesterday comes again.
    ("Australia/Lord_Howe", "02:15-06:00", ("2026-10-04T02:30", 0), ("2026-10-04T06:00", 0)),
    ("Antarctica/Troll", "02:00-06:00", ("2026-03-29T03:00", 0), ("2026-03-29T06:00", 0)),
    ("America/St_Johns", "00:00-06:00", ("2010-11-06T23:30", 1), ("2010-11-07T06:00", 0)),
    ("America/Havana", "00:30-06:00", ("2026-03-08T01:00", 0), ("2026-03-08T06:00", 0)),
    # A whole day is missing: the 30th of December 2011 never was.
    ("Pacific/Apia", "22:00-07:00", ("2011-12-29T23:00", 0), ("2011-12-31T07:00", 0)),
    ("Pacific/Apia", "12:00-13:00", ("2011-12-31T00:00", 0), None),
]


@pytest.mark.parametrize(("quiet", "now", "until"), ORDINARY)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/Los_Angeles"])
def test_an_ordinary_day(zone: str, quiet: str, now: str, until: str | None) -> None:
    assert quiet_until(hours(quiet), zone_of(zone), at(zone, now)) == (until and at(zone, until))


@pytest.mark.parametrize(("zone", "quiet", "now", "until"), CHANGES)
def test_a_day_on_which_clocks_change(
    zone: str, quiet: str, now: tuple[str, int], until: tuple[str, int] | None
) -> None:
    assert quiet_until(hours(quiet), zone_of(zone), at(zone, *now)) == (until and at(zone, *until))


def test_without_quiet_hours_it_is_never_quiet() -> None:
    assert quiet_until(None, UTC, 0) is None


@pytest.mark.parametrize(
    ("zone", "of_day", "now", "then"),
    [
        ("Europe/Berlin", "08:00", "2026-01-10T07:59", "2026-01-10T08:00"),
        ("Europe/Berlin", "08:00", "2026-01-10T08:00", "2026-01-11T08:00"),
        ("Europe/Berlin", "02:30", "2026-03-29T01:00", "2026-03-29T03:00"),
        ("Europe/Berlin", "02:30", "2026-10-25T02:31", "2026-10-26T02:30"),
        ("Pacific/Apia", "12:00", "2011-12-29T13:00", "2011-12-31T00:00"),
    ],
)
def test_the_next_time_of_the_day(zone: str, of_day: str, now: str, then: str) -> None:
    assert next_time(time.fromisoformat(of_day), zone_of(zone), at(zone, now)) == at(zone, then)


@pytest.mark.parametrize(
    "name",
    ["Europe/Berlim", "", "localtime", "America", "../etc/passwd", "/etc/localtime", "a\0b", "Mars/Base", "x" * 300],
)
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=r"^zone: there is no time zone .* expected an IANA name") as refused:
        zone_of(name)
    assert ('did you mean "Europe/Berlin"?' in str(refused.value)) == (name == "Europe/Berlim")


# ── Every zone, around both changes ──


@lru_cache(1)
def transitions() -> dict[tuple[int, timedelta, timedelta], str]:
    """All changes of clocks in the year, each once: when, the offsets before and after, and one of the zones."""
    found: dict[tuple[int, timedelta, timedelta], str] = {}
    for name in ZONES:
        zone = ZoneInfo(name)
        days = [datetime(YEAR, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(366)]
        offsets = [offset(zone, day) for day in days]
        for day, (before, after) in zip(days, pairwise(offsets), strict=False):
            if before != after:
                found.setdefault((ms(change_between(zone, day, before)), before, after), name)
    return found


def offset(zone: tzinfo, instant: datetime) -> timedelta:
    found = instant.astimezone(zone).utcoffset()
    assert found is not None
    return found


def change_between(zone: tzinfo, day: datetime, before: timedelta) -> datetime:
    return next(
        instant for minute in range(0, 1441, 15) if offset(zone, instant := day + timedelta(minutes=minute)) != before
    )


def patterns(changed: int, before: timedelta, after: timedelta) -> Iterator[QuietHours]:
    """Quiet hours that have their beginning, their end, or both within what is missing or comes twice; and others."""
    wall = (EPOCH + timedelta(milliseconds=changed) + min(before, after)).replace(tzinfo=None)
    middle = wall + abs(after - before) / 2
    for start, end in (
        (middle, middle + timedelta(hours=8)),
        (middle - timedelta(hours=8), middle),
        (wall, middle),
        (middle - STEP, middle + STEP),
        (middle, middle),
        (middle + STEP, middle),
    ):
        yield QuietHours(start.time(), end.time())
    yield from map(hours, ("22:00-07:00", "00:00-00:00", "00:00-23:45", "12:00-12:15"))


def by_looking(quiet: QuietHours, walls: list[datetime], instants: list[datetime]) -> list[int | None]:
    """The same as `quiet_until`, by looking at the clock on the wall every quarter of an hour."""
    untils: list[int | None] = [None] * (len(instants) + 1)
    days = sorted({wall.date() for wall in walls})
    for day in [days[0] - timedelta(days=1), *days]:
        start, end = wall_times(quiet, day)
        begins = next((at for at, wall in enumerate(walls) if wall >= start), len(walls))
        ends = next((at + 1 for at in range(len(walls) - 1, -1, -1) if walls[at] < end), 0)
        for at in range(begins, ends):
            untils[at] = ends
    # Where a clock jumps over an end and the next beginning, quiet hours meet.
    chained = [until if until is None or untils[until] is None else untils[until] for until in untils]
    return [ms(instants[until]) if until is not None and until < len(instants) else None for until in chained]


def wall_times(quiet: QuietHours, day: date) -> tuple[datetime, datetime]:
    over = timedelta(days=quiet.end <= quiet.start)
    return datetime.combine(day, quiet.start), datetime.combine(day + over, quiet.end)


def test_every_zone_around_every_change_of_the_year() -> None:
    assert len(transitions()) > 30
    for (changed, before, after), name in transitions().items():
        zone = ZoneInfo(name)
        middle = EPOCH + timedelta(milliseconds=changed)
        instants = [middle - AROUND + STEP * number for number in range(2 * AROUND // STEP)]
        walls = [instant.astimezone(zone).replace(tzinfo=None, fold=0) for instant in instants]
        looked_at = range(AROUND // STEP - 72, AROUND // STEP + 72)
        for quiet in patterns(changed, before, after):
            seen = by_looking(quiet, walls, instants)
            # The first and the last moment of each stretch; what is between, the property below holds.
            edges = [at for at in looked_at if seen[at - 1] != seen[at] or seen[at] != seen[at + 1]]
            found = {at: quiet_until(quiet, zone, ms(instants[at])) for at in edges}
            if quiet.start == quiet.end:  # Where quiet hours meet, the end of the first counts.
                assert all(found.values()), (name, quiet)
                continue
            assert found == {at: seen[at] for at in edges}, (name, quiet)


# ── Properties ──

moments = st.integers(0, 4_102_444_800_000)  # To the year 2100.
times = st.builds(time, st.integers(0, 23), st.integers(0, 59))
quiets = st.builds(QuietHours, times, times)
zones = st.sampled_from(ZONES).map(ZoneInfo)


@given(quiets, zones, moments)
@settings(max_examples=300)
def test_quiet_hours_end_later_and_then_it_is_not_quiet(quiet: QuietHours, zone: ZoneInfo, now: int) -> None:
    until = quiet_until(quiet, zone, now)
    if quiet.start == quiet.end:
        assert until is not None
        assert now < until <= now + 50 * 3_600_000
    elif until is not None:
        assert now < until
        assert quiet_until(quiet, zone, until) is None
        assert quiet_until(quiet, zone, until - 1) == until
        assert quiet_until(quiet, zone, (now + until) // 2) == until


@given(quiets, moments)
def test_where_clocks_never_change_it_is_a_matter_of_the_wall(quiet: QuietHours, now: int) -> None:
    wall = (EPOCH + timedelta(milliseconds=now)).time()
    over = quiet.end <= quiet.start
    is_quiet = (wall >= quiet.start or wall < quiet.end) if over else quiet.start <= wall < quiet.end
    assert (quiet_until(quiet, UTC, now) is not None) == is_quiet


@given(times, zones, moments)
def test_a_time_of_the_day_comes_within_two_days_and_shows_on_the_wall(of: time, zone: ZoneInfo, now: int) -> None:
    then = next_time(of, zone, now)
    assert now < then <= now + 50 * 3_600_000
    shown = (EPOCH + timedelta(milliseconds=then)).astimezone(zone)
    assert shown.time() == of or moment(shown.date(), of, zone, 0) == then or shown.time() > of
