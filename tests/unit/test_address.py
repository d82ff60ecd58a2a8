"""Where a request comes from: the peer's word for itself counts for nothing, a trusted proxy's does."""

from ipaddress import ip_network

import pytest
from starlette.types import Scope

from leaseway_server.web.address import Networks, client_address, is_trusted

LOOPBACK: Networks = (ip_network("127.0.0.1"), ip_network("::1"))
OFFICE: Networks = (*LOOPBACK, ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def scope(peer: str | None, *forwarded: str) -> Scope:
    headers = [(b"host", b"x"), *((b"x-forwarded-for", line.encode("latin-1")) for line in forwarded)]
    return {"type": "http", "client": (peer, 1) if peer is not None else None, "headers": headers}


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:127.0.0.2", False),
        ("10.255.0.1", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("2001:db8:1::5", True),
        ("2001:db9::5", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1:8080", False),
        ("[::1]", False),
        ("localhost", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_who_is_trusted(address: str, trusted: bool) -> None:
    assert is_trusted(address, OFFICE) is trusted


def test_nobody_is_trusted_where_nobody_is_named() -> None:
    assert not is_trusted("127.0.0.1", ())


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        # Nothing was forwarded.
        ("127.0.0.1", [], "127.0.0.1"),
        ("192.0.2.7", [], "192.0.2.7"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", [" , ,"], "127.0.0.1"),
        # By somebody who is not trusted.
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),
        ("192.0.2.7", ["198.51.100.1, 127.0.0.1"], "192.0.2.7"),
        # By a proxy.
        ("127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::1", ["2001:db9::1"], "2001:db9::1"),
        ("::ffff:127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["  198.51.100.1  "], "198.51.100.1"),
        # What the client wrote itself stands at the left, and does not count.
        ("127.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["nonsense, 198.51.100.1"], "198.51.100.1"),
        # Two proxies, one behind the other.
        ("127.0.0.1", ["198.51.100.1, 10.0.0.5"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.1, 10.0.0.5, 10.0.0.6"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.1", "10.0.0.5"], "198.51.100.1"),
        # A client within the trusted network.
        ("127.0.0.1", ["10.0.0.5"], "10.0.0.5"),
        ("127.0.0.1", ["10.0.0.5, 10.0.0.6"], "10.0.0.5"),
        # No peer: a socket of the file system.
        (None, ["198.51.100.1"], ""),
    ],
)
def test_where_a_request_comes_from(peer: str | None, forwarded: list[str], address: str) -> None:
    assert client_address(scope(peer, *forwarded), OFFICE) == address
