"""The conversation with the server as the worker sees it, wherever it lives: what it is told, and what it tells.

`Talk` is the conversation itself, in the event loop of whoever runs it. `InThread` keeps one in a thread;
`connection_process.py` keeps one in a process. What is said to the server is `worker_state.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Never, Protocol

import orjson

from leaseway.connection import Endpoint, Link, Outside
from leaseway.errors import LeaseLost, Rejected
from leaseway.leases import Answered, Event, Lease
from leaseway.outcome import Outcome
from leaseway.protocol import Message
from leaseway.worker_state import WorkerState

Deliver = Callable[[list[Event]], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a worker connects with, and what it asks for."""

    endpoint: Endpoint
    name: str
    slots: int
    criteria: Message | None = None
    labels: Message | None = None
    until_empty: bool = False


class Conversation(Protocol):
    """What the worker needs of its conversation. All calls and all events are in the worker's event loop."""

    async def run(self) -> Never:
        """Keeps it going; cancel it to close. Raises what no reconnect can mend."""

    def settle(self, lease: Lease, outcome: Outcome | None) -> None:
        """The handler of a lease has ended; None where its outcome is of no use."""

    def progress(self, lease: Lease, value: bytes, ref: int) -> None:
        """Says a progress record, which is JSON; `Answered` with this ref follows, over reconnects too."""

    def drain(self) -> None:
        """Claims nothing from now on; `Quiet` follows when nothing is left."""


class Talk:
    """The conversation itself."""

    def __init__(
        self, terms: Terms, deliver: Deliver, outside: Outside, awake: Callable[[], bool] = lambda: True
    ) -> None:
        self._state = WorkerState(
            terms.name,
            terms.slots,
            terms.criteria,
            labels=terms.labels,
            until_empty=terms.until_empty,
            awake=awake,
        )
        self._deliver = deliver
        self._outside = outside
        self._link = Link(terms.endpoint, self._state, self._on_events, outside)
        #: The worker's refs of the progress records that wait, by the state's own.
        self._refs: dict[int, int] = {}

    async def run(self) -> Never:
        """Keeps it going; cancel it to close. Raises what no reconnect can mend."""
        try:
            await self._link.run()
        finally:
            self._state.abandon()

    def adopt(self, leases: Iterable[Lease]) -> None:
        """Before `run`: goes on with what another conversation of the same worker held."""
        self._state.adopt(leases)

    def settle(self, lease: Lease, outcome: Outcome | None) -> None:
        """The handler of a lease has ended."""
        self._state.settle(lease, outcome, self._outside.clock())
        self._said()

    def progress(self, lease: Lease, value: bytes, ref: int) -> None:
        """Says a progress record."""
        try:
            own = self._state.progress(lease, orjson.Fragment(value), self._outside.clock())
        except (LeaseLost, Rejected) as refused:
            self._deliver([Answered(ref, refused)])
        else:
            self._refs[own] = ref
            self._said()

    def drain(self) -> None:
        """Claims nothing from now on."""
        self._state.drain()
        self._said()

    def _said(self) -> None:
        """What was said in one turn of the loop goes out at its end, in one frame."""
        self._link.wake()
        self._on_events(self._state.take_events())

    def _on_events(self, events: list[Event]) -> None:
        told = [self._own(event) for event in events]
        if told:
            self._deliver(told)

    def _own(self, event: Event) -> Event:
        return Answered(self._refs.pop(event.ref), event.error) if isinstance(event, Answered) else event


class InThread:
    """A conversation in a thread: whatever holds up the worker's event loop does not hold it up.

    What holds the interpreter does: see `connection_process.py`.
    """

    def __init__(self, terms: Terms, deliver: Deliver) -> None:
        self._home = asyncio.get_running_loop()
        self._deliver = deliver
        self._loop = asyncio.new_event_loop()
        self._talk = Talk(terms, self._tell, Outside())
        self._ended: asyncio.Future[BaseException] = self._home.create_future()

    async def run(self) -> Never:
        """Keeps it going; cancel it to close. Raises what no reconnect can mend."""
        talking = self._loop.create_task(self._talk.run())
        # A daemon: a process that ends without `run`'s leave does not wait for it.
        threading.Thread(target=self._live, args=(talking,), name="leaseway-connection", daemon=True).start()
        try:
            raise await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._do(talking.cancel)
            await self._ended
            raise

    def settle(self, lease: Lease, outcome: Outcome | None) -> None:
        """The handler of a lease has ended."""
        self._do(self._talk.settle, lease, outcome)

    def progress(self, lease: Lease, value: bytes, ref: int) -> None:
        """Says a progress record."""
        self._do(self._talk.progress, lease, value, ref)

    def drain(self) -> None:
        """Claims nothing from now on."""
        self._do(self._talk.drain)

    def _do(self, call: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: it has ended, and `run` has told.
            self._loop.call_soon_threadsafe(call, *arguments)

    def _tell(self, events: list[Event]) -> None:
        with contextlib.suppress(RuntimeError):  # The worker's loop is closed: nobody listens any more.
            self._home.call_soon_threadsafe(self._deliver, events)

    def _live(self, talking: asyncio.Task[Never]) -> None:
        """The thread."""
        ended: BaseException
        try:
            self._loop.run_until_complete(talking)
        except BaseException as error:  # noqa: BLE001  it is raised where `run` is awaited
            ended = error
        self._loop.close()
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._ended.set_result, ended)
