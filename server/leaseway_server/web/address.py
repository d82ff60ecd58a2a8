"""Where a request comes from: its peer, or behind a proxy that is trusted what that proxy says."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from starlette.types import Scope

Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]


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
