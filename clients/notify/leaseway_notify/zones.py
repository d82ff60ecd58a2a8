"""IANA time zones by name. What a name means comes from the system's data, else from the package tzdata."""

from difflib import get_close_matches
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from leaseway_notify.errors import Refused

_OF_THE_MACHINE: Final = frozenset({"localtime", "posixrules"})
"""These are files beside the zones, and differ from machine to machine."""


@lru_cache(1024)
def zone_of(name: str) -> ZoneInfo:
    """The zone of this name. Raises `Refused`."""
    try:
        if name not in _OF_THE_MACHINE:
            return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # A folder, a path that leads out, no such zone.
        pass
    shown = name[:60]
    near = get_close_matches(shown, _names(), n=1, cutoff=0.7)
    meant = f'; did you mean "{near[0]}"?' if near else ""
    raise Refused("zone", f"there is no time zone {shown!r}; expected an IANA name such as Europe/Berlin{meant}")


@lru_cache(1)
def _names() -> list[str]:
    return sorted(available_timezones() - _OF_THE_MACHINE)
