"""What a provider's answer means: the table of transient and permanent faults, and how far a `Retry-After` counts.

Pure: no I/O, no clock. That a transient fault is retried, and when, is `execute.py`'s and the queue's; which errors of
a library stand for which kind is said where that library is used, in `channels/`.
"""

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

MESSAGE_LENGTH: Final = 300
"""Characters of a provider's own words that are kept."""
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_ADDRESSEE: Final = re.compile(r"[^\s<>()\[\]\"',;:]+@(?=\w)")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


class Kind(StrEnum):
    """Why a message was not sent, as it is kept with the delivery."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CONFLICT = "conflict"
    GARBAGE = "garbage"
    BAD_ADDRESS = "bad_address"
    BAD_MESSAGE = "bad_message"
    BROKEN_TEMPLATE = "broken_template"
    BAD_CONFIGURATION = "bad_configuration"
    FORBIDDEN_ENDPOINT = "forbidden_endpoint"
    REFUSED = "refused"
    UNSUPPORTED_TYPE = "unsupported_type"


TRANSIENT: Final = frozenset(
    {Kind.TIMEOUT, Kind.CONNECTION, Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.CONFLICT, Kind.GARBAGE}
)
"""Another attempt may succeed; no other attempt at any other kind can."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A message was not sent, or is not known to be: `retry_after` is what the provider asked for, seconds."""

    kind: Kind
    message: str
    retry_after: float | None = None

    @property
    def transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in TRANSIENT

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else str(self.kind)


class NotSent(Exception):
    """Raised by a channel: `fault` says why the message was not sent, or is not known to be."""

    def __init__(self, kind: Kind, message: object = "", retry_after: float | None = None) -> None:
        self.fault = Fault(kind, told(message), retry_after)
        super().__init__(str(self.fault))


_HTTP: Final = {
    401: Kind.BAD_CONFIGURATION,
    402: Kind.BAD_CONFIGURATION,
    403: Kind.BAD_CONFIGURATION,
    407: Kind.BAD_CONFIGURATION,
    408: Kind.TIMEOUT,
    409: Kind.CONFLICT,  # A call with the same idempotency key is under way.
    425: Kind.UNAVAILABLE,
    429: Kind.RATE_LIMITED,
}
_SMTP: Final = {
    501: Kind.BAD_ADDRESS,
    510: Kind.BAD_ADDRESS,
    511: Kind.BAD_ADDRESS,
    513: Kind.BAD_ADDRESS,
    550: Kind.BAD_ADDRESS,
    551: Kind.BAD_ADDRESS,
    553: Kind.BAD_ADDRESS,
    530: Kind.BAD_CONFIGURATION,
    534: Kind.BAD_CONFIGURATION,
    535: Kind.BAD_CONFIGURATION,
    538: Kind.BAD_CONFIGURATION,
}


def http_kind(status: int) -> Kind | None:
    """What a status of HTTP means; None where the message was taken."""
    if 200 <= status < 300:
        return None
    if status in _HTTP:
        return _HTTP[status]
    if 300 <= status < 400:
        return Kind.BAD_CONFIGURATION  # No redirect is followed: the message would go where nobody said it should.
    if 500 <= status < 600:
        return Kind.UNAVAILABLE
    return Kind.REFUSED if 400 <= status < 500 else Kind.GARBAGE


def smtp_kind(code: int) -> Kind:
    """What a reply of SMTP means that is no success; codes outside of SMTP's are no reply at all."""
    if 400 <= code < 500:
        return Kind.RATE_LIMITED if code in (450, 452) else Kind.UNAVAILABLE
    if 500 <= code < 600:
        return _SMTP.get(code, Kind.REFUSED)
    return Kind.GARBAGE


def retry_after(header: str | None, now: float, cap: float) -> float | None:
    """The seconds that a `Retry-After` asks for (RFC 9110 §10.2.3), at most `cap`; None where it says nothing usable.

    `now` is seconds since the epoch. A date that has passed is 0.
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), cap) if _SECONDS.fullmatch(text) else cap
    try:
        date = parsedate_to_datetime(text)
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(moment - now, 0.0), cap)


def told(message: object) -> str:
    """A provider's words, on one line, not too many of them, and without the names in mail addresses: they go into the
    log and the queue, and are kept for months."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    line = _UNPRINTABLE.sub(" ", text[: 2 * MESSAGE_LENGTH]).strip()
    return _ADDRESSEE.sub("…@", line)[:MESSAGE_LENGTH]
