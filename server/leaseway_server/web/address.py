"""Where a request comes from: its peer, or behind a proxy that is trusted what that proxy says."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.types import Scope

Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]
LOOPBACK: Final[Networks] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_PROXIES_SAY: Final = frozenset({b"forwarded", b"via", b"x-real-ip"})


def is_trusted(address: str, trusted: Networks) -> bool:
    """Whether it is one of the proxies that are trusted."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:  # How a socket for both kinds tells the older one.
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in trusted)


def client_address(scope: Scope, trusted: Networks) -> str:
    """The client's address. `X-Forwarded-For` counts as far as trusted proxies wrote it: from its right end."""
    peer = scope["client"][0] if scope.get("client") else ""
    if not is_trusted(peer, trusted):
        return str(peer)
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    for hop in reversed([hop.strip() for line in forwarded for hop in line.split(",")]):
        if not hop:
            continue
        peer = hop
        if not is_trusted(hop, trusted):
            break
    return str(peer)


def names_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine whatever DNS says."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False  # Brackets that do not close.
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_from_this_machine(scope: Scope) -> bool:
    """Whether a program of this machine asks: no proxy for another, nor a page that calls itself by another name."""
    headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    forwarded = any(name in _PROXIES_SAY or name.startswith(b"x-forwarded-") for name, _ in headers)
    hosts = [value for name, value in headers if name == b"host"]
    peer = scope["client"][0] if scope.get("client") else ""
    return not forwarded and is_trusted(peer, LOOPBACK) and len(hosts) == 1 and names_loopback(hosts[0])
