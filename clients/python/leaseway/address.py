"""A queue's address, its token, and the proxy on the way there: checked here, for HTTP and for sockets alike.

Opens no connection. No error repeats what was given: it may hold a secret.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

QUEUE: Final = re.compile(r"(/[!-.0-~]+)*/[a-z0-9][a-z0-9_-]{0,62}/?")
"""The path of a queue; behind a proxy it may be a long one."""
PORTS: Final = {"http": 80, "https": 443}
_SUCH_AS: Final = "a queue's address is such as https://task.example.com/resize"
_SECURE: Final = {"ws": "http", "wss": "https"}


def parted(url: str, given_as: str = "token=", paths: re.Pattern[str] = QUEUE) -> SplitResult:
    """The parts of an address, with http or https; `given_as` is where the token belongs. Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        known = _is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        known = False
    if known:
        parts = parts._replace(scheme=_SECURE.get(parts.scheme, parts.scheme))
    if (known and parts.scheme not in PORTS) or "://" not in url:
        raise ValueError(f"{_SUCH_AS}; this one does not begin with http:// or https://")
    if not known or not paths.fullmatch(parts.path):
        raise ValueError(_SUCH_AS)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError(f"a queue's address holds no query, fragment or user; give the token as {given_as}")
    return parts


def check_token(token: str | None) -> None:
    """Raises `ValueError` for what no header can carry."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("a token is printable ASCII without spaces")


def proxy_to(url: str) -> SplitResult | None:
    """The proxy that HTTP_PROXY or HTTPS_PROXY names for an address that was checked, if NO_PROXY does not except it.

    What is on this machine is asked directly: a proxy would look for it on its own. Raises `ValueError`.
    """
    import urllib.request  # It is large, and for connections alone.

    parts = urlsplit(url)
    host, scheme = parts.hostname or "", _SECURE.get(parts.scheme, parts.scheme)
    if _is_here(host) or urllib.request.proxy_bypass(f"{host}:{parts.port or PORTS[scheme]}"):
        return None
    named = urllib.request.getproxies().get(scheme)
    return _proxy(named if "://" in named else f"http://{named}") if named else None


def _proxy(named: str) -> SplitResult:
    parts = urlsplit(named)
    try:
        usable = parts.scheme == "http" and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("the proxy that the environment names is none of http://host:port")
    return parts


def _is_host(name: str) -> bool:
    """Whether a host can be called so. Raises `UnicodeError`, a `ValueError`, where a part is empty or too long."""
    return bool(name.encode("idna")) and name.isprintable() and " " not in name


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
