"""Composes the real objects and runs them: stores, engines, the site, and uvicorn around it."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

import uvicorn
import uvloop

from leaseway_server.audit import audit_config
from leaseway_server.config import (
    Config,
    ConfigRefused,
    ServerConfig,
    differences,
    is_loopback,
    reload_config,
)
from leaseway_server.core.errors import StoreError, StoreGone
from leaseway_server.log import configure_logging, listing
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.cluster import Cluster
from leaseway_server.stores import Stores, kind_of
from leaseway_server.web.app import create_app
from leaseway_server.web.http_protocol import HttpProtocol
from leaseway_server.web.meters import TurnMeter
from leaseway_server.web.protocol import SocketProtocol
from leaseway_server.web.site import ServedQueue, Site
from leaseway_server.web.traced import Traced

STOP_SECONDS = 2
"""So long after the drain (3 s) a planned stop waits for clients that take or answer nothing: it is over within 6 s."""
GONE = 2
"""The exit status where a store is gone: another start would make a new one with nothing in it, or be refused where it
was moved, so a person decides. The unit does not start it again, as with a mistake in the configuration."""
REFRESH_SECONDS = 1.0
TICK_SECONDS = 1.0
"""So often uvicorn writes the date that its answers carry."""
MOMENT_SECONDS = 0.1
YOUNG_OBJECTS = 20_000
"""So many new objects, and Python looks for cycles among them. Nearly all of ours die before, by being let go of."""

_log = logging.getLogger("leaseway_server")


class WebServer(uvicorn.Server):
    """uvicorn, with our own planned stop: the signals are ours, and sockets are drained before it cuts them."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site
        self._stopping = asyncio.Event()

    def stop(self, *, force: bool = False) -> None:
        """From here on no connection is taken; `force`: those that are open are cut."""
        self.force_exit = self.force_exit or force
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to `Running`."""
        yield

    async def main_loop(self) -> None:
        """Serves until `stop`, which it sees at once; uvicorn's own loop looks for it ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening; drains, unless there is nothing left to promise; then closes what is left."""
        for listener in self.servers:
            listener.close()
        if self.force_exit:
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        else:
            await self._site.drain()
        if not await self._all_gone():
            await super().shutdown(sockets)

    async def _all_gone(self) -> bool:
        """Whether all clients have gone. Those just going get a moment; uvicorn would give all a longer one."""
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks, timeout=MOMENT_SECONDS)
        return not self.server_state.connections and not tasks


class Running:
    """A server at work, from its stores to its listener. `address` is known once `started` is set."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.started = asyncio.Event()
        self.address = ""
        self.site: Site | None = None
        self._config = config
        self._clock = clock or Clock()
        self._stopped = False
        self._fault: BaseException | None = None
        self._web: WebServer | None = None
        self._cluster = Cluster(None, self._clock)

    async def run(self) -> int:
        """Serves until `stop` (0), or until a store is lost (1) or gone (2): see `GONE`.

        Raises `StoreRefused` and `OSError` at the start.
        """
        with _listen(self._config.server.host, self._config.server.port) as listener:
            async with kind_of(self._config.server.store).stores(self._clock.now) as stores:
                self._cluster = Cluster(stores.sharing, self._clock)
                await self._cluster.join()
                meeting = self._watched(self._cluster.run())
                try:
                    await self._serve(await self._open_site(stores), listener, stores.facts)
                finally:
                    meeting.cancel()
                    await asyncio.gather(meeting, return_exceptions=True)
                    await self._cluster.leave()
        if isinstance(self._fault, StoreGone):
            return GONE
        return 1 if self._fault else 0

    def stop(self) -> None:
        """A planned stop (PROTOCOL.md §6)."""
        _log.info("stopping", extra={"event": "server.stopping"})
        self._stopped = True
        if self._web is not None:
            self._web.stop()

    def reload(self) -> None:
        """Reads the configuration anew, and takes of it what can change while it runs; all of it, or nothing."""
        try:
            changes = differences(self._config, reload_config(self._config))
        except ConfigRefused as refused:
            for fault in refused.faults:
                said = {"event": "config.refused", "file": fault.file, "key": fault.key or None, "fault": fault.message}
                _log.error("the configuration has errors; the one that runs stays", extra=said)
            return
        self._config = changes.config
        if self.site is not None:
            server = changes.config.server
            queues = {name: (each.queue, each.grants) for name, each in changes.config.queues.items()}
            self.site.reconfigure(server.limits, server.allowed_origins, server.trusted_proxies, queues, server.admins)
        audit_config(str(self._config.file), changes.now, changes.restart)

    async def _open_site(self, stores: Stores) -> Site:
        server = self._config.server
        tokens = await stores.access()
        self.site = Site(
            await self._open_queues(stores),
            tokens,
            self._clock,
            limits=server.limits,
            allowed_origins=server.allowed_origins,
            trusted_proxies=server.trusted_proxies,
            on_loopback=is_loopback(server.host),
            admins=server.admins,
        )
        return self.site

    async def _open_queues(self, stores: Stores) -> dict[str, ServedQueue]:
        server = self._config.server
        queues = {}
        for name, configured in self._config.queues.items():
            meter = TurnMeter()
            store = await stores.queue(name)
            if store.made:
                _log.info("the queue is new here, and empty", extra={"event": "store.made", "queue": name})
            engine = self._cluster.engine(
                configured.queue,
                store,
                resume_grace=server.resume_grace,
                ping_timeout=server.ping_timeout,
                on_lost=self._stop_at_once,
                observer=meter,
            )
            queues[name] = ServedQueue(configured.queue, configured.grants, engine, meter=meter)
        return queues

    async def _serve(self, site: Site, listener: socket.socket, facts: Mapping[str, str]) -> None:
        engines = [served.engine for served in site.queues.values()]
        for engine in engines:
            await engine.start()
        self._web = WebServer(_uvicorn_config(self._config.server, site), site)
        if self._stopped:
            self._web.stop()
        turning = [self._watched(engine.run()) for engine in engines]
        refreshing = self._watched(_refresh(site))
        self.address = _address(listener)
        said = {"address": self.address, "queues": listing(site.queues), **facts}
        _log.info("serving %s", self.address, extra={"event": "server.started", **said})
        self.started.set()
        await self._web.serve([listener])
        refreshing.cancel()
        for engine in engines:
            engine.stop()
        await asyncio.gather(*turning, refreshing, return_exceptions=True)
        _log.info("stopped", extra={"event": "server.stopped"})

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.critical("a part of the server failed", exc_info=task.exception(), extra={"event": "server.failed"})
            self._stop_at_once(task.exception())

    def _stop_at_once(self, fault: BaseException | None) -> None:
        assert self._web is not None
        self._fault = fault
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # What is cut off from here on is no news.
        self._web.stop(force=True)


def run(config: Config) -> int:
    """Serves `config` until a signal. Gives the exit status: 0, or 1 or `GONE` with the reason on standard error."""
    configure_logging(config.server.log)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config))
    except (StoreError, OSError) as refused:
        _log.critical("cannot start: %s", refused, extra={"event": "server.refused"})
        return 1


async def _run(config: Config) -> int:
    running = Running(config)
    gc.collect()
    gc.freeze()  # What is there by now stays: Python need not look through it for cycles again and again.
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, running.reload)
    return await running.run()


async def _refresh(site: Site) -> None:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        await site.refresh()


def _listen(host: str, port: int) -> socket.socket:
    # The protocol is named: event loops turn Nagle's delay off only on sockets that say that they are TCP.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def _uvicorn_config(server: ServerConfig, site: Site) -> uvicorn.Config:
    return uvicorn.Config(
        Traced(create_app(site), site),
        http=HttpProtocol.bounded(site),
        ws=SocketProtocol,
        ws_max_size=server.max_message_bytes,
        ws_ping_interval=server.ping_interval / 1000,
        ws_ping_timeout=server.ping_timeout / 1000,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,  # It prints the query string, where tokens travel.
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


if __name__ == "__main__":
    from leaseway_server.commands import serve

    serve()
