"""The formats of JSON Schema by the grammars of their standards: a second opinion on each that the server asserts.

The grammars are those of the standards, written as regular expressions; what a grammar leaves to its text (how many
days a month has, when a leap second may be) is a function beside it.
"""

import ipaddress
import re
from calendar import monthrange
from collections.abc import Callable
from typing import Final

from jsonschema import FormatChecker  # type: ignore[import-untyped]  # it ships no types

# RFC 3339, section 5.6 and appendix A. T and Z may be small there; the letters of a duration are taken as ISO 8601's.
DATE: Final = r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>\d\d)"
OFFSET: Final = r"[Zz]|(?P<sign>[+-])(?P<offset_hour>[01]\d|2[0-3]):(?P<offset_minute>[0-5]\d)"
TIME: Final = rf"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d|60)(?:\.\d+)?(?:{OFFSET})"
CLOCK: Final = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
DAYS: Final = r"(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)"
DURATION: Final = rf"P(?:{DAYS}(?:{CLOCK})?|{CLOCK}|\d+W)"

# RFC 1123, section 2.1; RFC 5321, section 4.1.2, whose tag IPv6: may be written in small letters, as all of ABNF.
LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST: Final = rf"{LABEL}(?:\.{LABEL})*"
WORD: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
LOCAL: Final = rf'{WORD}(?:\.{WORD})*|"(?:[ !#-\[\]-~]|\\[ -~])*"'
MAILBOX: Final = (
    rf"(?P<local>{LOCAL})@(?:(?P<host>{HOST})|\[(?P<ipv4>[0-9.]+)\]|\[(?i:IPv6):(?P<ipv6>[0-9A-Fa-f:.]+)\])"
)

# RFC 3986, appendix A, and RFC 3987, section 2.2, which adds characters to it.
HEX: Final = "%[0-9A-Fa-f]{2}"
SIGNS: Final = "!$&'()*+,;="
BEYOND_ASCII: Final = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
PRIVATE: Final = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def reference(more: str = "", private: str = "", *, absolute: bool = False) -> str:
    """A URI reference, or only one with a scheme; of an IRI with the characters that it may hold besides."""
    plain = rf"A-Za-z0-9._~{more}{SIGNS}\-"
    step = f"(?:[{plain}:@]|{HEX})"
    literal = rf"\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~{SIGNS}:\-]+)\]"
    authority = rf"(?:(?:[{plain}:]|{HEX})*@)?(?:{literal}|(?:[{plain}]|{HEX})*)(?::[0-9]*)?"
    steps = f"{step}+(?:/{step}*)*"
    scheme, first = "[A-Za-z][A-Za-z0-9+.-]*:", f"(?:[{plain}@]|{HEX})+(?:/{step}*)*"
    start = f"(?P<scheme>{scheme})" if absolute else f"(?P<scheme>{scheme})?"
    way = f"//{authority}(?:/{step}*)*|/(?:{steps})?|(?(scheme){steps}|{first})|"
    return rf"{start}(?:{way})(?:\?(?:[{private}/?]|{step})*)?(?:\#(?:[/?]|{step})*)?"


def is_day(found: re.Match[str]) -> bool:
    """Whether the month has that day. The year 0 is one, and a leap year."""
    return 1 <= int(found["day"]) <= monthrange(int(found["year"]), int(found["month"]))[1]


def is_second(found: re.Match[str]) -> bool:
    """Whether the minute has that second: 60 is at the end of a day of UTC."""
    if found["second"] != "60":
        return True
    minutes = int(found["hour"]) * 60 + int(found["minute"])
    if found["sign"]:
        offset = int(found["offset_hour"]) * 60 + int(found["offset_minute"])
        minutes -= -offset if found["sign"] == "-" else offset
    return minutes % (24 * 60) == 24 * 60 - 1


def is_host(name: str) -> bool:
    """Whether a name is short enough. A label of two hyphens in the third place is one of IDNA (RFC 5891, 4.2.3.1)."""
    return len(name) <= 253 and not any(label[2:4] == "--" for label in name.split("."))


def is_address(kind: Callable[[str], object], text: str | None) -> bool:
    """Whether a text is an IP address of that kind, where there is one."""
    try:
        return text is None or bool(kind(text))
    except ValueError:
        return False


def has_ipv6(found: re.Match[str]) -> bool:
    """Whether the address between brackets is one, where there is any."""
    return is_address(ipaddress.IPv6Address, found["ipv6"])


def is_mailbox(found: re.Match[str]) -> bool:
    """Whether the part before the @ is short enough, and what follows is a host or an address."""
    short = len(found["local"]) <= 64 and is_host(found["host"] or "a")
    return short and is_address(ipaddress.IPv4Address, found["ipv4"]) and has_ipv6(found)


GRAMMARS: Final[dict[str, tuple[str, tuple[Callable[[re.Match[str]], bool], ...]]]] = {
    "date-time": (f"{DATE}[Tt]{TIME}", (is_day, is_second)),
    "date": (DATE, (is_day,)),
    "time": (TIME, (is_second,)),
    "duration": (DURATION, ()),
    "email": (MAILBOX, (is_mailbox,)),
    "hostname": (HOST, (lambda found: is_host(found[0]),)),
    "ipv4": ("[0-9.]+", (lambda found: is_address(ipaddress.IPv4Address, found[0]),)),
    "ipv6": ("[0-9A-Fa-f:.]+", (lambda found: is_address(ipaddress.IPv6Address, found[0]),)),
    "uri": (reference(absolute=True), (has_ipv6,)),
    "uri-reference": (reference(), (has_ipv6,)),
    "iri": (reference(BEYOND_ASCII, PRIVATE, absolute=True), (has_ipv6,)),
    "iri-reference": (reference(BEYOND_ASCII, PRIVATE), (has_ipv6,)),
    "uuid": ("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", ()),
    "json-pointer": (r"(?s:(?:/(?:[^~/]|~[01])*)*)", ()),
}
"""Each with what its grammar leaves open. `\\d` is 0 to 9."""


def has_format(name: str, value: object) -> bool:
    """Whether a value has a format: anything but a string has them all."""
    grammar, rules = GRAMMARS[name]
    if not isinstance(value, str):
        return True
    found = re.fullmatch(grammar, value, re.ASCII)
    return found is not None and all(rule(found) for rule in rules)


def _checker() -> FormatChecker:
    checker = FormatChecker(formats=())
    for name in GRAMMARS:
        checker.checks(name)(lambda value, name=name: has_format(name, value))
    return checker


CHECKER: Final = _checker()
"""For jsonschema, whose own checks are lax, or missing without further packages."""
