"""Formats in schemas: which are asserted, how, and which are refused and why.

Asserted are those of draft 2020-12 that one standard defines and that jsonschema-rs reads as it says: 0.61 was compared
with the standards' grammars on millions of texts. A format is about strings: any other value has every format. All of
jsonschema-rs's checks are linear, but none is tried on a text of more than 4,096 characters; such a text has no format.
"""

from collections.abc import Callable
from typing import Any, Final

from jsonschema_rs import EmailOptions

from leaseway_server.core import schema_pattern
from leaseway_server.core.schema_pattern import on_short_texts

ASSERTED: Final = {
    "date-time": "a date-time (RFC 3339), such as 2026-11-30T12:00:00Z",
    "date": "a date (RFC 3339), such as 2026-11-30",
    "time": "a time with its offset (RFC 3339), such as 12:00:00Z",
    "duration": "a duration (RFC 3339, appendix A), such as P1DT12H",
    "email": "an e-mail address (RFC 5321), such as ada@example.com",
    "hostname": "a host name (RFC 1123), such as www.example.com",
    "ipv4": "an IPv4 address (RFC 2673), such as 192.0.2.1",
    "ipv6": "an IPv6 address (RFC 4291), such as 2001:db8::1",
    "uri": "a URI (RFC 3986), such as https://example.com/a?b=c",
    "uri-reference": "a URI or a relative reference (RFC 3986), such as ../a?b=c",
    "iri": "an IRI (RFC 3987), such as https://example.com/à?b=c",
    "iri-reference": "an IRI or a relative reference (RFC 3987), such as ../à?b=c",
    "uuid": "a UUID (RFC 4122), such as 2eb8aa08-aa98-11ea-b4aa-73b441d16380",
    "json-pointer": "a JSON Pointer (RFC 6901), such as /a/0",
}
"""Each with what a text of it is, in words."""
REFUSED: Final = {
    "idn-email": "what it takes depends on a version of Unicode. Use email, or pattern",
    "idn-hostname": "what it takes depends on a version of Unicode. Use hostname, which has xn--… for it, or pattern",
    "uri-template": "libraries differ on what it takes outside ASCII, and on an erratum of RFC 6570. Use pattern",
    "relative-json-pointer": "its drafts differ on 0+1, and libraries with them. Use json-pointer, or pattern",
    "regex": "it is another language in each library, and slow to read. Use maxLength, and check it where it is used",
}
"""Each with why, and what to use instead."""
EMAIL: Final = EmailOptions(allow_display_text=False)
_MAILBOX: Final = "^[!-~][ -~]*$"
"""jsonschema-rs also takes a tab between quotes, and after a blank an address in angle brackets: neither is a mailbox.
The other way round it refuses two kinds that are: between quotes, a blank before `<` or after a backslash."""


def refusal(name: str) -> str:
    """Why a format is not accepted, or an empty text where it is."""
    if name in ASSERTED:
        return ""
    if name in REFUSED:
        return f"format {name} is not asserted: {REFUSED[name]}"
    cut = name if len(name) <= 40 else f"{name[:39]}…"
    return f"unknown format {cut!r}: use pattern, or one of {', '.join(ASSERTED)}"


def guarded(name: str) -> dict[str, Any]:
    """The schema of a string that has an asserted format, or of anything else but a string; nothing slow."""
    schema = {"format": name}
    return on_short_texts({**schema, "pattern": _MAILBOX} if name == "email" else schema)


GUARDS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {"pattern": schema_pattern.guarded, "format": guarded}
"""The keywords that read texts, each with what makes a schema of its content: with an `if` where long texts fail."""
