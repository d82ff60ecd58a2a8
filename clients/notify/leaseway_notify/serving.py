"""Puts the real parts of the service together, and serves it: `serving`. Nothing is decided here.

Beside the requests it keeps the outbox and the house: what was committed comes into the queue, what is old goes.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn

from leaseway import Client
from leaseway_notify.clock import now_ms
from leaseway_notify.housekeeping import Housekeeper
from leaseway_notify.notifier import Notifier
from leaseway_notify.outbox import Outbox, keep_posting
from leaseway_notify.policy import Policies
from leaseway_notify.rounds import beside
from leaseway_notify.service.app import create_app
from leaseway_notify.service.live import Live
from leaseway_notify.service.site import Site
from leaseway_notify.settings import Settings, http_url
from leaseway_notify.stores.base import Store
from leaseway_notify.toml import SettingsRefused

STOP_SECONDS: Final = 3
"""So long a stop waits for requests that are under way."""
MOST_MESSAGE: Final = 16_384
"""Bytes of what a page says on its socket."""


class WebServer(uvicorn.Server):
    """uvicorn, without its signals: those are the command's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """From here on no connection is taken."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves them alone."""
        yield

    async def main_loop(self) -> None:
        """Serves until `stop`."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stopping.wait()


@dataclass(frozen=True, slots=True)
class Served:
    """A service that serves. `url` has no slash at its end."""

    url: str
    site: Site
    queue: Client[Any, Any]
    web: WebServer
    ended: asyncio.Task[None]


def check_served(settings: Settings) -> None:
    """Raises `SettingsRefused` where the service would know nobody."""
    missing = [name for name in ("token", "secret") if getattr(settings.service, name) is None]
    if missing:
        how = "is needed by the service: at least 32 characters such as `openssl rand -hex 32` prints"
        raise SettingsRefused(
            [f"service.{one}: {how}; in notify.toml, or as LEASEWAY_NOTIFY_SERVICE_{one.upper()}" for one in missing]
        )


@asynccontextmanager
async def serving(
    store: Store, settings: Settings, *, policies: Policies | None = None, clock: Callable[[], int] = now_ms
) -> AsyncIterator[Served]:
    """Serves while it is entered, or until something beside it fails; on a free port where `service.port` is 0.

    Raises `SettingsRefused`, `BadKey`, `ValueError` for keys, `OSError` where the address cannot be listened on, and at
    its end what failed beside it.
    """
    check_served(settings)
    queue: Client[Any, Any] = Client(settings.queue.url, settings.queue.token)
    outbox = Outbox(store, queue, settings.outbox, clock)
    policies = policies or settings.policies()
    site = Site(
        settings=settings,
        store=store,
        notifier=Notifier(store, queue, settings, policies, clock),
        outbox=outbox,
        policies=policies,
        live=Live(),
        secret=await store.secret(),
        push_key=_push_key(settings),
        clock=clock,
    )
    listener = listen(settings.service.host, settings.service.port)
    web = WebServer(_uvicorn_config(site))
    url = http_url(settings.service.host, listener.getsockname()[1])
    async with beside(web.stop, keep_posting(queue, outbox), Housekeeper(store, settings.keep, clock).run()):
        ended = asyncio.create_task(web.serve([listener]))
        try:
            yield Served(url, site, queue, web, ended)
        finally:
            web.stop()
            await asyncio.wait({ended})


def _push_key(settings: Settings) -> str:
    if settings.push.keys is None:
        return ""
    from leaseway_notify.vapid import VapidKey

    return VapidKey.read(settings.push.keys, settings.push.subject).public


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `OSError`, which names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio sends small answers at once (TCP_NODELAY) only where it reads that there.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def _uvicorn_config(site: Site) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(site),
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE,
        lifespan="off",
        log_config=None,
        access_log=False,  # It prints paths, where tokens of mails travel.
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
