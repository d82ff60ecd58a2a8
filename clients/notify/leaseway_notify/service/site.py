"""What all requests and sockets of the service share. Values; nothing is answered here."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox
from leaseway_notify.policy import Policies
from leaseway_notify.service.live import Live
from leaseway_notify.settings import Settings
from leaseway_notify.stores.base import Store


@dataclass(frozen=True, slots=True)
class Site:
    """`secret` is the store's, with which links of mails are signed; `push_key` is what browsers subscribe with, ""
    where there are no pushes. `clock` gives ms since the epoch."""

    settings: Settings
    store: Store
    notifier: Notifier
    outbox: Outbox
    policies: Policies
    live: Live
    secret: bytes
    push_key: str
    clock: Callable[[], int]


def site_of(connection: HTTPConnection) -> Site:
    """The site that a request or a socket came to."""
    site = connection.app.state.site
    assert isinstance(site, Site)
    return site
