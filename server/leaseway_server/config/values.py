"""The kinds of values that a configuration holds: each is read from what TOML gives, or refused with what was expected.

No key is known here. `schemas/leaseway_schemas/config.json` says the same in JSON Schema, for editors.
"""

import json
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from leaseway_server.core.access import Grant
from leaseway_server.core.match import MOST_MATCHES
from leaseway_server.core.members import is_name
from leaseway_server.store.place import Place, PostgresUrl, SqliteFolder
from leaseway_server.store.postgres.address import URL

T = TypeVar("T")
Network: TypeAlias = IPv4Network | IPv6Network

UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST: Final = 36_500 * UNITS["d"]
"""No duration is longer: the end of it is still a time that everybody can keep."""
LAST_PORT: Final = 65_535
_DURATION: Final = re.compile(r"(0|[1-9][0-9]{0,15})(ms|s|m|h|d)")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOLDER: Final = re.compile(r"sqlite:(/?[^/\0][^\0]*)")
_PASSWORD: Final = re.compile(r"(?<=://)[^\s\"]*@")
"""Who one is to a database, in its address, which may stand at a wrong key."""
_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://([a-z0-9_-][a-z0-9._-]*|\[[0-9a-f:.]+\])(:(?P<port>[1-9][0-9]{0,4}))?"
)
_WEB_PORTS: Final = {"http": 80, "https": 443}
"""What browsers leave out."""
_NETWORK: Final = re.compile(r"[0-9A-Fa-f.:]+(/(0|[1-9][0-9]{0,2}))?")
_SHOWN: Final = 60


class Wrong(ValueError):
    """A value cannot be taken; each argument says what was expected of it, or of a part of it."""


def expected(what: str, value: object) -> Wrong:
    """The complaint that something else was expected."""
    shown = _PASSWORD.sub("…@", json.dumps(value, ensure_ascii=False, default=str))
    return Wrong(f"expected {what}, found {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}")


def _each(read: Callable[[object], T], values: list[object]) -> list[T]:
    """What `read` makes of each; raises what is wrong with any of them, all at once."""
    taken: list[T] = []
    wrong: list[str] = []
    for value in values:
        try:
            taken.append(read(value))
        except Wrong as one:
            wrong += one.args
    if wrong:
        raise Wrong(*dict.fromkeys(wrong))
    return taken


# ── Durations, in ms ──


def duration(value: object) -> int:
    """A duration of 0 or more."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise expected('a duration such as "90s", "5m", "7d" or "500ms"', value)
    length = int(found[1]) * UNITS[found[2]]
    if length > LONGEST:
        raise expected(f"a duration of at most {spell(LONGEST)}", value)
    return length


def span(value: object) -> int:
    """A duration longer than 0."""
    length = duration(value)
    if not length:
        raise expected("a duration longer than 0", value)
    return length


def span_or_off(value: object) -> int:
    """As `span`, or 0 for "off"."""
    if value != "off" and not isinstance(value, str):
        raise expected('"off" or a duration such as "10m"', value)
    return 0 if value == "off" else span(value)


def durations(value: object) -> tuple[int, ...]:
    """Durations, at least one."""
    if not isinstance(value, list) or not value:
        raise expected('a list of durations such as ["30s", "2m"]', value)
    return tuple(_each(duration, value))


def spell(length: int) -> str:
    """A duration as the configuration writes it, in the largest unit that fits."""
    unit = next((unit for unit in "dhms" if length and length % UNITS[unit] == 0), "ms")
    return f"{length // UNITS[unit]}{unit}"


# ── Numbers and texts ──


def whole(least: int, most: int) -> Callable[[object], int]:
    """An integer within these bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise expected(f"a whole number from {least:_} to {most:_}", value)
        return value

    return read


def share(value: object) -> float:
    """A number from 0 to below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise expected("a number from 0 to below 1, such as 0.15", value)
    return float(value)


def folder(value: object) -> Path:
    """A folder; whether there is one is not asked here."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise expected("a folder, as a text", value)
    return Path(value)


def shows_own(value: object) -> bool:
    """Who sees what: "own" or "all"."""
    if value not in ("all", "own"):
        raise expected('"all" or "own"', value)
    return value == "own"


def paths(value: object) -> tuple[str, ...]:
    """Members of an item, as dotted paths."""
    if not isinstance(value, list) or len(value) > MOST_MATCHES:
        raise expected(f'a list of at most {MOST_MATCHES} members such as ["format", "size.width"]', value)
    found = tuple(_each(_path, value))
    if len(set(found)) < len(found):
        raise expected("each member once", value)
    return found


def names(value: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(filter(None, map(str.strip, value.split(","))))
    if not found:
        raise expected("names of queues such as resize,mail", value)
    return found


def _path(value: object) -> str:
    if not isinstance(value, str) or not all(is_name(part) and not part.startswith("$") for part in value.split(".")):
        raise expected('a member such as "format" or "size.width"', value)
    return value


# ── Who ──


def users(value: object) -> frozenset[str]:
    """Names of users, or none."""
    if not isinstance(value, list):
        raise expected('a list of users such as ["alice"]', value)
    return frozenset(_each(_user, value))


def grant(value: object) -> Grant:
    """To whom a right is given."""
    if value == "open" or value == "users":
        return value
    if not isinstance(value, list):
        raise expected('"open", "users" or a list of users such as ["alice"]', value)
    return users(value)


def _user(value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise expected("a user's name of 1 to 200 characters, none of them a control", value)
    return value


# ── Where ──


def address(value: object) -> tuple[str, int]:
    """A host and a port, of this machine."""
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else ""
    if not (_is_ipv6(bare) if bare else _is_host(host)) or not re.fullmatch("[0-9]{1,5}", port):
        raise expected('a host and a port such as "127.0.0.1:8787" or "[::1]:8787"', value)
    if int(port) > LAST_PORT:
        raise expected(f"a port of at most {LAST_PORT}", value)
    return bare or host, int(port)


def store(value: object) -> Place:
    """Where the data is. What was found is not repeated: the address of a database may hold a password."""
    if isinstance(value, str) and re.match("postgres(ql)?:", value):
        return PostgresUrl(database_url(value))
    found = _FOLDER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Wrong(
            'expected "sqlite:" and a folder, such as "sqlite:leaseway-data" or "sqlite:/var/lib/leaseway", '
            'or the URL of a database, such as "postgresql://leaseway@db.example.com/leaseway"'
        )
    return SqliteFolder(Path(found[1]))


def database_url(value: object) -> str:
    """The URL of a database of PostgreSQL. It is not repeated either."""
    if not isinstance(value, str) or not URL.fullmatch(value):
        raise Wrong(
            'expected the URL of a database, such as "postgresql://leaseway@db.example.com:5432/leaseway"; '
            "in a password @ is written %40, / %2F, : %3A, ? %3F, # %23 and % %25"
        )
    return value


def origins(value: object) -> frozenset[str]:
    """Origins of pages."""
    if not isinstance(value, list):
        raise expected('a list of origins such as ["https://app.example.com"]', value)
    return frozenset(_each(_origin, value))


def networks(value: object) -> tuple[Network, ...]:
    """Addresses and networks; a single address is a network of one."""
    if not isinstance(value, list):
        raise expected('a list of addresses and networks such as ["127.0.0.1", "10.0.0.0/8"]', value)
    return tuple(_each(_network, value))


def _is_host(text: str) -> bool:
    if re.fullmatch("[0-9.]+", text):
        return _is_ip(text)
    return bool(_HOST.fullmatch(text))


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    return ":" in text and _is_ip(text)


def _origin(value: object) -> str:
    if isinstance(value, str) and _is_origin(value):
        return value
    wrong = expected(
        'an origin as browsers send it, such as "https://app.example.com" (no path, no *), or "null"', value
    )
    meant = _as_sent(value) if isinstance(value, str) else ""
    raise Wrong(f'{wrong}; did you mean "{meant}"?') if meant else wrong


def _is_origin(text: str) -> bool:
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return text == "null"
    port = int(found["port"] or 0)
    return found["scheme"] not in ("ws", "wss") and port <= LAST_PORT and port != _WEB_PORTS.get(found["scheme"])


def _as_sent(text: str) -> str:
    """The origin that was probably meant, as a browser sends it; "" where none can be made out."""
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
        host = (url.hostname or "").encode("idna").decode()
        port = "" if url.port in (None, _WEB_PORTS.get(scheme)) else f":{url.port}"
    except ValueError:
        return ""
    meant = f"{scheme}://[{host}]{port}" if ":" in host else f"{scheme}://{host}{port}"
    return meant if _is_origin(meant) else ""


def _network(value: object) -> Network:
    wrong = expected('an IP address or a network such as "127.0.0.1" or "10.0.0.0/8"', value)
    if not isinstance(value, str) or not _NETWORK.fullmatch(value):
        raise wrong
    try:
        found = ip_network(value, strict=False)
    except ValueError:
        raise wrong from None
    if "/" in value and found.network_address != ip_address(value.partition("/")[0]):
        raise Wrong(f'{wrong}; did you mean "{found}"?')
    return found
