"""The URL of a database: checked, and shown without its password. Connects to nothing."""

from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from leaseway_server.core.errors import StoreRefused

SCHEMES: Final = frozenset({"postgresql", "postgres"})
FORM: Final = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in a password as %XX"


class Address:
    """Where a database is. `url` is for the driver alone, `shown` for people; so is `str()`."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.shown: Final = _shown(url)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def __str__(self) -> str:
        return self.shown


def _shown(url: str) -> str:
    """What of it is no secret. Raises `StoreRefused`, whose text has nothing of what could not be read."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _unreadable() from None
    # A password that is not encoded may end up in any part: then none is shown.
    if parts.scheme not in SCHEMES or "@" in parts.path + parts.query or parts.fragment:
        raise _unreadable()
    user = f"{unquote(parts.username)}@" if parts.username else ""
    return f"{user}{_host(parts)}{f':{port}' if port else ''}{parts.path}"


def _host(parts: SplitResult) -> str:
    """The host, or the folder of a socket, which may stand behind the question mark."""
    named = parse_qs(parts.query).get("host", [""])
    return unquote(parts.hostname or named[0]) or "localhost"


def _unreadable() -> StoreRefused:
    return StoreRefused(f"the URL of the database cannot be read; it must be {FORM}")
