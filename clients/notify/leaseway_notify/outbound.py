"""Calls to addresses that a stranger may have given: HTTP without redirects, to public addresses only.

The address is looked at where the socket is made, after all names were resolved: what a name meant a moment before does
not count, so that no answer of a name server can lead a call into the network behind this machine. Which calls are
made, and what their answers mean, is for the channels.
"""

import errno
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver

from leaseway_notify.classify import Kind, NotSent
from leaseway_notify.names import OwnThreads

ANSWER_BYTES: Final = 4096
"""As much of an answer is read."""
KEPT_OPEN: Final = 4.0
"""Seconds that a connection is kept for the next call: less than any service keeps it, or a call would meet its end."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_GLOBAL: Final = IPv6Network("2000::/3")
"""All of IPv6 that is given out to anybody (RFC 4291 §2.4). What is beside it may lead to a private IPv4 address."""


class ForbiddenAddress(OSError):
    """A connection to an address that is not public was refused. All say the same, so that none hides another."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "the address is not public")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, the first bytes of the body, and `Retry-After` as it was said."""

    status: int
    body: bytes
    retry_after: str | None


class Outbound:
    """A client for HTTP; use it in an `async with`. `loopback` opens this machine, and plain HTTP, to it: for tests.

    `anywhere` is for an address that the operator said, such as a provider's in a private network: it is not looked at.
    """

    def __init__(
        self, *, loopback: bool = False, anywhere: bool = False, resolver: AbstractResolver | None = None
    ) -> None:
        self._loopback = loopback
        self._anywhere = anywhere
        self._resolver = resolver
        self._names: AbstractResolver
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """Nothing is connected yet."""
        self._names = self._resolver or OwnThreads()
        connector = aiohttp.TCPConnector(
            socket_factory=self._socket,
            resolver=self._names,
            limit=0,
            use_dns_cache=False,
            keepalive_timeout=KEPT_OPEN,
        )
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes all connections."""
        await self._session.close()
        await self._names.close()

    async def post(self, url: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
        """The answer to a POST, whatever it is, within so many seconds. Raises `NotSent` where there is none."""
        self.check(url)
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as answer:
                start = await _start(answer.content)
                return Answer(answer.status, start, answer.headers.get("Retry-After"))
        except TimeoutError:
            raise NotSent(Kind.TIMEOUT, f"no answer within {timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _not_sent(error) from error

    def check(self, url: str) -> None:
        """Raises `NotSent` for what is no address that may be called, as far as that can be seen without a call."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise NotSent(Kind.FORBIDDEN_ENDPOINT, "the endpoint is no address") from None
        schemes = ("https", "http") if self._loopback or self._anywhere else ("https",)
        if parts.scheme not in schemes or not host or parts.username is not None or parts.password is not None:
            raise NotSent(Kind.FORBIDDEN_ENDPOINT, "expected an https: address without a user")

    def _socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        if not self._anywhere and not is_open(str(address[0]), loopback=self._loopback):
            raise ForbiddenAddress
        return socket.socket(family, kind, protocol)


def is_open(address: str, *, loopback: bool) -> bool:
    """Whether an address may be called: a public one, or with `loopback` one of this machine."""
    try:
        found = _inner(ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    if loopback and found.is_loopback:
        return True
    return found.is_global and not found.is_multicast and (isinstance(found, IPv4Address) or found in _GLOBAL)


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that one of IPv6 leads to, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


async def _start(stream: aiohttp.StreamReader) -> bytes:
    """The first bytes of a body; the rest is not waited for."""
    start = b""
    while len(start) < ANSWER_BYTES and (more := await stream.read(ANSWER_BYTES - len(start))):
        start += more
    return start


def _not_sent(error: Exception) -> NotSent:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ForbiddenAddress):
        return NotSent(Kind.FORBIDDEN_ENDPOINT, error.os_error.strerror)
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return NotSent(Kind.FORBIDDEN_ENDPOINT, "the endpoint is no address")
    if isinstance(error, aiohttp.ClientResponseError):  # As a text it holds the whole address, which may be a secret.
        return NotSent(Kind.GARBAGE, f"{type(error).__name__}: {error.message}")
    garbage = isinstance(error, aiohttp.ClientPayloadError)
    return NotSent(Kind.GARBAGE if garbage else Kind.CONNECTION, f"{type(error).__name__}: {error}")
