"""Times of the day in IANA zones: when quiet hours end, when a time of the day comes next. Pure, in ms since the epoch.

Quiet hours are an interval of each day: they begin when the clock on the wall first shows `start` and end when it last
shows `end`, so that an hour that comes twice does not end them twice. Where a clock jumps over a time, that moment is
the jump (PEP 495 calls these fold and gap).
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal

from leaseway_notify.profile import QuietHours

_SECOND: Final = 1_000
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def quiet_until(hours: QuietHours | None, zone: tzinfo, now: int) -> int | None:
    """When the quiet hours end that now is in; None where it is not quiet.

    Where the whole day is quiet, it is their next `end`: then it is asked again.
    """
    if hours is None:
        return None
    until = now
    for begin, end in _intervals(hours, zone, now):
        if begin <= until < end:
            until = end
            if hours.start == hours.end:
                break
    return until if until > now else None


def next_time(of_day: time, zone: tzinfo, now: int) -> int:
    """When the clock on the wall next comes to this time of the day, after now."""
    return min(at for day in _days(zone, now) if (at := moment(day, of_day, zone, 0)) > now)


def moment(day: date, of_day: time, zone: tzinfo, fold: Literal[0, 1]) -> int:
    """When a clock shows this; the first or second time (`fold`) where it does twice, the jump where it never does."""
    there = datetime.combine(day, of_day, zone).replace(fold=fold)
    at = _ms(there)
    if _local(at, zone).replace(tzinfo=None, fold=0) == there.replace(tzinfo=None, fold=0):
        return at
    return _jump(there, zone)


def _intervals(hours: QuietHours, zone: tzinfo, now: int) -> Iterator[tuple[int, int]]:
    """The quiet hours around now, in order."""
    later = _DAY if hours.end <= hours.start else timedelta()
    for day in _days(zone, now):
        yield moment(day, hours.start, zone, 0), moment(day + later, hours.end, zone, 1)


def _days(zone: tzinfo, now: int) -> list[date]:
    """The days around now: a clock that is set back may show yesterday again, and a day may be missing."""
    today = _local(now, zone).date()
    return [today + timedelta(days=days) for days in (-2, -1, 0, 1, 2)]


def _jump(missing: datetime, zone: tzinfo) -> int:
    """When the clock jumps over what it never shows."""
    after, before = _ms(missing.replace(fold=0)), _ms(missing.replace(fold=1))
    offset = _local(before, zone).utcoffset()
    while after - before > _SECOND:
        middle = (before + after) // 2 // _SECOND * _SECOND
        if _local(middle, zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _local(at: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(milliseconds=at)).astimezone(zone)


def _ms(at: datetime) -> int:
    """ms since the epoch."""
    return (at.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
