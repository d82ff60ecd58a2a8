"""The name that a request was sent to, its `Host`: whether it is one of this server's (PROTOCOL.md §2).

A page whose name an attacker's DNS points to loopback is of our own site to the browser, which sends no `Origin` with
its GETs: only the name tells. `X-Forwarded-Host` and its like tell nothing, since a page writes them by itself.
"""

from urllib.parse import urlsplit

from starlette.types import Scope

from leaseway_server.core.errors import Misdirected
from leaseway_server.web.address import names_loopback
from leaseway_server.web.site import Site


def check_host(scope: Scope, site: Site) -> None:
    """Of a request without a token, where it may get what is open to anyone.

    Raises `Misdirected` where it may be that of a page by another name. One with an `Origin` was judged by that before.
    """
    if site.on_loopback and not _is_ours(scope, site.allowed_origins) and site.open_to_anyone:
        raise Misdirected(
            "this is no name of this server (the header Host): use localhost or a token, or list it in allowed_origins"
        )


def hosts(scope: Scope) -> list[str]:
    """What stands in `Host`, in lower case; there should be one."""
    return [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]


def _is_ours(scope: Scope, origins: frozenset[str]) -> bool:
    found = hosts(scope)
    if len(found) == 1 and (names_loopback(found[0]) or _is_listed(found[0], origins)):
        return True
    return any(name == b"origin" for name, _ in scope["headers"])


def _is_listed(host: str, origins: frozenset[str]) -> bool:
    """Whether it has the name of one of the sites, whatever their ports."""
    name = _name(host)
    return name != "" and any(name == _name(origin.partition("://")[2]) for origin in origins)


def _name(host: str) -> str:
    """The name in a host with or without a port; "" where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # Brackets that do not close.
