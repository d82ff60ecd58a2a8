"""What is an address that mails can go to. Pure; asked when somebody says one, and again before each mail."""

import re
from typing import Final

import idna

from leaseway_notify.errors import Refused

ADDRESS_LENGTH: Final = 254
"""Characters of an address (RFC 5321 §4.5.3.1)."""
_ATOM: Final = r"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[^\x00-\xa0])+"
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")
"""A dot-atom before the @, also in other letters than ASCII's (RFC 6531 §3.3), and a domain behind it."""


def check_mail_address(address: str) -> None:
    """What somebody says of a recipient: an address that mails can go to, or "" for none. Raises `Refused`."""
    if address:
        mail_address(address)


def mail_address(address: str) -> str:
    """The address with its domain in ASCII. Raises `Refused` where no mail can go to it.

    By the rules of 2008 (RFC 5891): by the older ones, which Python has, some domains are somebody else's.
    """
    local, _, domain = address.rpartition("@")
    try:
        found = f"{local}@{domain if domain.isascii() else idna.encode(domain, uts46=True).decode()}"
    except ValueError:
        found = ""
    if not _ADDRESS.fullmatch(found) or not found.isprintable():
        raise Refused("address", "expected an address that mails can go to, such as ada@example.com")
    if len(found) > ADDRESS_LENGTH:
        raise Refused("address", f"expected at most {ADDRESS_LENGTH} characters, with the domain in ASCII")
    return found
