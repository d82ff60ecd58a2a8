"""What all requests and sockets share: the queues that are served, who may use them, and the planned stop."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from leaseway_server.audit import RefusedAccess, audit_tokens
from leaseway_server.core.access import Caller, Grants, Right, authorize
from leaseway_server.core.commands import Read
from leaseway_server.core.errors import Deserted, Refused, StoreError
from leaseway_server.core.limits import Allowances, FailedAttempts, ServerLimits
from leaseway_server.core.queue import Queue
from leaseway_server.log import LimitedEvent
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.engine import Engine
from leaseway_server.runtime.stats import Stats
from leaseway_server.store.access import AccessStore
from leaseway_server.web.address import Networks
from leaseway_server.web.meters import Door, Talk, Traffic, TurnMeter

_log = logging.getLogger(__name__)

RESTART: Final = 1012
DESERTED: Final = "the server cannot reach its database; another may"
DRAIN_SECONDS: Final = 3.0
"""So long a planned stop waits for what is under way on the sockets."""


class OpenSocket(Protocol):
    """A socket that is open."""

    kind: ClassVar[Door]
    right: ClassVar[Right]
    """The right that it needs."""

    @property
    def talk(self) -> Talk:
        """What passed through it so far."""
        ...

    @property
    def admission(self) -> tuple[str, frozenset[Right]]:
        """The id of its token ("" for none), and the rights that it was admitted with."""
        ...

    def expel(self, code: int, reason: str) -> None:
        """It is closed."""
        ...

    def reconfigure(self, queue: Queue) -> None:
        """Its queue is configured so from now on."""
        ...

    async def drain(self) -> None:
        """Sends what is still to be sent, and closes with 1012."""
        ...


@dataclass(slots=True)
class ServedQueue:
    """One queue at work: its engine, measured by `meter`, who may do what, and the sockets that are open on it."""

    queue: Queue
    grants: Grants
    engine: Engine
    sockets: set[OpenSocket] = field(default_factory=set)
    meter: TurnMeter = field(default_factory=TurnMeter)
    stats: Stats = field(init=False)

    def __post_init__(self) -> None:
        self.stats = Stats(self.engine.clock, self._facts)

    def _facts(self) -> dict[str, object]:
        engine = self.engine
        return {"queue": self.queue.name, "workers": engine.workers, **engine.tally.figures(engine.clock.now())}

    def reconfigure(self, queue: Queue, grants: Grants) -> None:
        """From now on the queue is configured so, for the sockets that are open too."""
        self.queue, self.grants = queue, grants
        self.engine.reconfigure(queue)
        for socket in self.sockets:
            socket.reconfigure(queue)


class Site:
    """One server. `stopping` is set when the planned stop begins: whoever waits for something answers at once.

    `tokens` were refreshed. `on_loopback`: it listens where only this machine can reach it. `admins` are users who may
    see how it is.
    """

    def __init__(
        self,
        queues: dict[str, ServedQueue],
        tokens: AccessStore,
        clock: Clock,
        *,
        limits: ServerLimits | None = None,
        allowed_origins: frozenset[str] = frozenset(),
        trusted_proxies: Networks = (),
        on_loopback: bool = True,
        admins: frozenset[str] = frozenset(),
    ) -> None:
        self.queues = queues
        self.tokens = tokens
        self.clock = clock
        self.limits = limits = limits or ServerLimits()
        self.allowed_origins = allowed_origins
        self.trusted_proxies = trusted_proxies
        self.on_loopback = on_loopback
        self.admins = admins
        self.traffic = Traffic()
        self.stopping = asyncio.Event()
        self.failures = FailedAttempts(limits.failed_tokens_per_minute)
        self.connections_of_address = Allowances(limits.connections_per_address)
        self.connections_of_token = Allowances(limits.connections_per_token)
        self.waiting_claims = Allowances(limits.waiting_claims_per_token)
        self.refused_access = RefusedAccess(clock.steady)
        refused = ("request.refused", "a request was refused")
        self.refused_requests = LimitedEvent(_log, logging.INFO, *refused, clock.steady)
        self._known_tokens = tokens.known  # Those that are there at the start are no news.
        self._token_source = tokens.source
        self._token_fault = ""

    @property
    def grants(self) -> dict[str, Grants]:
        """To whom each queue gives which right."""
        return {name: served.grants for name, served in self.queues.items()}

    @property
    def open_to_anyone(self) -> bool:
        """Whether there is anything that one may do without a token."""
        return any(grants.open_rights() for grants in self.grants.values())

    @property
    def unready(self) -> str:
        """Why no work can be taken in; "" where nothing is stopping, every store can be written, and tokens can be
        looked up."""
        if self.stopping.is_set():
            return "the server stops"
        engines = [served.engine for served in self.queues.values()]
        if any(engine.away for engine in engines):
            return "the server cannot reach its database at the moment"
        if not all(engine.writable for engine in engines):
            return "the server cannot write at the moment"
        return "" if self.tokens.current else "the server cannot look up tokens at the moment"

    def reconfigure(
        self,
        limits: ServerLimits,
        allowed_origins: frozenset[str],
        trusted_proxies: Networks,
        queues: Mapping[str, tuple[Queue, Grants]],
        admins: frozenset[str],
    ) -> None:
        """Takes what can change while it runs; sockets whose rights change are closed, the rates of open ones stay."""
        self.limits, self.allowed_origins, self.trusted_proxies = limits, allowed_origins, trusted_proxies
        self.admins = admins
        self.failures.per_minute = limits.failed_tokens_per_minute
        self.connections_of_address.limit = limits.connections_per_address
        self.connections_of_token.limit = limits.connections_per_token
        self.waiting_claims.limit = limits.waiting_claims_per_token
        for name, (queue, grants) in queues.items():
            self.queues[name].reconfigure(queue, grants)
        self._look_after_all()

    async def refresh(self) -> None:
        """Reads the tokens again, and closes the sockets of those that are revoked or expired; call it each second."""
        for served in self.queues.values():
            served.engine.check_store()
        self.refused_access.refresh()
        self.refused_requests.refresh()
        await self._refresh_tokens()
        if self.tokens.known is not self._known_tokens:
            audit_tokens(self._known_tokens.values(), self.tokens.known.values())
            self._known_tokens = self.tokens.known
        self._look_after_all()

    def _look_after_all(self) -> None:
        for served in self.queues.values():
            for socket in list(served.sockets):
                self._look_after(served, socket)
                if served.engine.deserted:
                    socket.expel(Deserted.close, DESERTED)

    async def _refresh_tokens(self) -> None:
        """Tells what is new about their store: each change once."""
        fault = ""
        try:
            await self.tokens.refresh()
        except StoreError as error:
            fault = str(error)
        if self.tokens.source != self._token_source:
            _log.warning("the file of tokens is another one, which counts now", extra={"event": "tokens.replaced"})
            self._token_source = self.tokens.source
        if fault != self._token_fault:
            self._tell_fault(fault)
            self._token_fault = fault

    def _tell_fault(self, fault: str) -> None:
        if not fault:
            _log.info("the tokens can be read again", extra={"event": "tokens.readable"})
        elif self.tokens.current:
            said = {"event": "tokens.unreadable", "fault": fault}
            _log.error("the tokens cannot be read; those that are known still count", extra=said)
        else:
            said = {"event": "tokens.lost", "fault": fault}
            _log.error("the tokens cannot be looked up; who comes with one has to wait", extra=said)

    def _look_after(self, served: ServedQueue, socket: OpenSocket) -> None:
        """Closes the socket as a new one would be refused now; or for it to come again, where its rights are others."""
        now = self.clock.now()
        token_id, had = socket.admission
        caller = Caller(bool(token_id), self.tokens.by_id(token_id, now))
        try:
            has = authorize(self.grants, served.queue.name, socket.right, caller, now)
        except Refused as refused:
            socket.expel(refused.close, str(refused))
        else:
            if has != had:
                socket.expel(RESTART, "its rights are others now")

    async def drain(self) -> None:
        """The planned stop (PROTOCOL.md §6): claims end, reports under way are let in, sockets close with 1012."""
        self.stopping.set()
        for served in self.queues.values():
            served.engine.close_claims()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(self._drain(served) for served in self.queues.values()))
        except TimeoutError:
            pass  # A client that never reads; its socket is cut when the process ends.
        self.refused_access.flush()
        self.refused_requests.flush()

    async def _drain(self, served: ServedQueue) -> None:
        await served.engine.ask(Read(()))  # What was said before is answered before this is.
        await asyncio.gather(*(socket.drain() for socket in list(served.sockets)))
