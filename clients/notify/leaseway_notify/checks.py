"""What the members of events and profiles may be. Pure; each check raises `Refused` with the path that it was given."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from leaseway_notify.errors import Refused

MOST_PAYLOAD: Final = 65_536
"""Bytes of a payload as JSON."""
LATEST: Final = 10**14
"""In the year 5138: who says more says another unit."""
_TYPE: Final = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENDS: Final = re.compile(r"[\t\r\n\u2028\u2029]")
"""What may stand in a text of several lines."""
_CONTACT: Final = re.compile(r"mailto:[^\s@]+@[^\s@]+\.[^\s@.]+|https://[^\s/]+\.[^\s/.]+(/\S*)?")
_LONE: Final = re.compile(r"[\ud800-\udfff]")


def check_text(path: str, text: object, most: int, *, least: int = 0, lines: bool = False) -> None:
    """A text of `least` to `most` characters; controls only as tabs and ends of lines, and only where `lines`."""
    if not isinstance(text, str):
        raise Refused(path, f"expected a text, found {type(text).__name__}")
    if not least <= len(text) <= most:
        raise Refused(path, f"expected {least} to {most} characters, found {len(text)}")
    if _LONE.search(text):
        raise Refused(path, "half of a surrogate pair is no character")
    if _CONTROL.search(_ENDS.sub("", text) if lines else text):
        raise Refused(path, "expected no control characters")


def check_name(path: str, text: object, *, optional: bool = False) -> None:
    """A recipient, an actor or a context: 1 to 200 characters on one line; none where it is optional."""
    check_text(path, text, 200, least=0 if optional else 1)


def check_type(path: str, text: object) -> None:
    """The name of a type of event."""
    if not isinstance(text, str) or not _TYPE.fullmatch(text):
        raise Refused(path, "expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63")


def check_id(path: str, text: object) -> None:
    """An id that a caller may choose."""
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise Refused(path, "expected 1 to 64 of A-Z, a-z, 0-9, _ and -")


def check_time(path: str, at: object) -> None:
    """A time in ms since the epoch, which the queue can keep too."""
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= LATEST:
        raise Refused(path, "expected a time in ms since the epoch")


def check_url(path: str, text: object) -> None:
    """An http or https URL."""
    check_text(path, text, 2_000, least=1)
    if not _is_url(str(text)):
        raise Refused(path, "expected an http or https URL")


def check_link(path: str, text: object) -> None:
    """Where a click leads: an http or https URL, or a path on the application's own site."""
    check_text(path, text, 2_000, least=1)
    own = re.fullmatch(r"/(?![/\\])[^ ]*", str(text))  # What begins with two slashes names another site.
    if not own and not _is_url(str(text)):
        raise Refused(path, "expected an http or https URL, or a path that begins with one slash")


def is_contact(text: str) -> bool:
    """Whether push services can write to whom it names: a mailto: or https: address (RFC 8292 §2.1)."""
    return _CONTACT.fullmatch(text) is not None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:
        return False


def plain_payload(path: str, payload: object) -> dict[str, Any]:
    """A copy of an object, as JSON says it."""
    if not isinstance(payload, Mapping):
        raise Refused(path, f"expected an object, found {type(payload).__name__}")
    try:
        _check_numbers(path, payload)
        data = orjson.dumps(dict(payload))
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise Refused(path, f"cannot be written as JSON: {error}") from None
    if len(data) > MOST_PAYLOAD:
        raise Refused(
            path, f"has {len(data):,} bytes as JSON, and at most {MOST_PAYLOAD:,} are taken; refer to it instead"
        )
    plain: dict[str, Any] = orjson.loads(data)
    return plain


def _check_numbers(path: str, value: object) -> None:
    """orjson writes NaN and the infinities as null."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused(path, "a number is not finite")
    if isinstance(value, Mapping):
        for member in value.values():
            _check_numbers(path, member)
    elif isinstance(value, list | tuple):
        for member in value:
            _check_numbers(path, member)
