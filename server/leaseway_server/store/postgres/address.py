"""The URL of a database: read strictly, and shown without its password. Connects to nothing.

What libpq takes is taken: no host at all, a socket's folder, several hosts, options behind the question mark. A
password that is not encoded as it must be would end up in another part; each such way leaves an `@` where there may be
none, so that nothing of it is ever shown.
"""

import re
from typing import Final
from urllib.parse import parse_qs, unquote

from leaseway_server.core.errors import StoreRefused

FORM: Final = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in a password as %XX"
_PORT: Final = "(?:[0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST: Final = rf"(?:[A-Za-z0-9._%-]*|\[[0-9A-Fa-f:.]+\])(?::{_PORT})?"
URL: Final = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^\s\0:@/?#]*)(?::[^\s\0@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<database>/[^\s\0@/?#]*)?"
    r"(?:\?(?P<options>[^\s\0@#]*))?"
)


class Address:
    """Where a database is. `url` is for the driver alone, `shown` for people; so is `str()`."""

    def __init__(self, url: str) -> None:
        """Raises `StoreRefused`, whose text has nothing of what could not be read."""
        found = URL.fullmatch(url)
        if found is None:
            raise StoreRefused(f"the URL of the database cannot be read; it must be {FORM}")
        self.url: Final = url
        self.shown: Final = _shown(found)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def __str__(self) -> str:
        return self.shown


def _shown(found: re.Match[str]) -> str:
    """Who, where and what."""
    user = f"{unquote(found['user'])}@" if found["user"] else ""
    elsewhere = parse_qs(found["options"] or "").get("host", [""])[0]
    return f"{user}{unquote(found['hosts'] or elsewhere) or 'localhost'}{unquote(found['database'] or '')}"
