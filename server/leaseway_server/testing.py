"""A real server for the tests of those who use Leaseway: in a thread, on a free port of loopback, with a temporary
store and a clock that can be moved.

The client's half, `leaseway.testing`, finds `serving` through the entry-point group `leaseway.testing`. Nothing here
stands in for a part of the server but the clock.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop

from leaseway_server.__main__ import Running
from leaseway_server.config import Config, config_of, load_config
from leaseway_server.core.access import RIGHTS, Right
from leaseway_server.core.commands import Read
from leaseway_server.core.members import is_name
from leaseway_server.runtime.clock import Clock
from leaseway_server.runtime.deadlines import LATE_MS

LISTEN: Final = "127.0.0.1:0"
OPEN: Final = dict.fromkeys(RIGHTS, "open")
STEP_MS: Final = LATE_MS
"""Smaller steps of the clock than this are no pause of the process to the server."""

Queues = Iterable[str] | Mapping[str, Mapping[str, Any]]


class MovableClock(Clock):
    """The server's clock, which goes on as it does, and can be moved on besides."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = 0

    def steady(self) -> int:
        """Milliseconds since the epoch; never goes back."""
        return super().steady() + self._moved

    def move(self, ms: int) -> None:
        """It is so much later at once."""
        self._moved += ms


class ServedClock:
    """The clock of a server in a thread, as a test moves it."""

    def __init__(self, clock: MovableClock, advance: Callable[[int], None]) -> None:
        self._clock = clock
        self._advance = advance

    def time(self) -> float:
        """Seconds since the epoch, as the server has them."""
        return self._clock.now() / 1000

    def advance(self, seconds: float) -> None:
        """Moves the clock on. When this returns, what became due or ended by it has been done and committed."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a clock is moved on by a number of seconds, and not by {seconds!r}")
        self._advance(round(seconds * 1000))


class Served:
    """A server that serves, for as long as the `with` of `serving` lasts."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._moving = MovableClock()
        self._running = Running(config, self._moving)
        self._loop = uvloop.new_event_loop()
        self._ended: Future[int] = Future()
        self._thread = threading.Thread(target=self._serve, name="leaseway-server", daemon=True)
        self.clock = ServedClock(self._moving, self._advance_there)

    def url(self, queue: str) -> str:
        """The address of a queue, for clients and workers. Raises `ValueError` where there is none of that name."""
        self._check_queues([queue])
        return f"{self._running.address.replace('http://', 'ws://')}{queue}"

    def token(
        self,
        user: str,
        *,
        queues: Iterable[str] | None = None,
        rights: Iterable[str] | None = None,
        expires_in: float | None = None,
    ) -> str:
        """A new token of this user; narrowed to some queues, some rights and some seconds where that is said.

        Raises `ValueError` for what is no name of a user, no queue here or no right.
        """
        self._check_serving()
        if not is_name(user):
            raise ValueError("a user's name has 1 to 200 characters that can be printed")
        queues = None if queues is None else frozenset(queues)
        self._check_queues(queues or ())
        narrowed = None if rights is None else frozenset(map(_right, rights))
        now = self._moving.now()
        expires_at = 0 if expires_in is None else now + round(expires_in * 1000)
        assert self._running.site is not None
        adding = self._running.site.tokens.add(user, queues, narrowed, expires_at, now)
        return asyncio.run_coroutine_threadsafe(adding, self._loop).result()[1]

    # ── The thread ──

    def start(self) -> None:
        """Starts to serve, and returns when it does. Raises what hinders it."""
        started = asyncio.run_coroutine_threadsafe(self._running.started.wait(), self._loop)
        self._ended.add_done_callback(lambda _: started.cancel())
        self._thread.start()
        try:
            started.result()
        except CancelledError:  # It has ended instead.
            self._ended.result()

    def stop(self) -> None:
        """Stops, as on SIGTERM."""
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._running.stop)
        self._thread.join()

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, after `stop`."""
        return self._ended.result() != 0

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                self._ended.set_result(runner.run(self._running.run()))
            except BaseException as error:  # noqa: BLE001  It is raised again where the server was started.
                self._ended.set_exception(error)

    def _check_serving(self) -> None:
        if self._ended.done():
            raise RuntimeError("the server has stopped: it serves within its `with`")

    # ── The clock ──

    def _advance_there(self, ms: int) -> None:
        self._check_serving()
        asyncio.run_coroutine_threadsafe(self._advance(ms), self._loop).result()

    async def _advance(self, ms: int) -> None:
        """The server takes a jump for a pause of its own process: for `ping_timeout` from then on it leaves live
        sockets their leases (PROTOCOL.md §7.3). So the last part of the way is walked, in steps that it believes.
        """
        walked = min(ms, self._config.server.ping_timeout)
        await self._move(0)
        await self._move(ms - walked)
        for step in range(0, walked, STEP_MS):
            await self._move(min(STEP_MS, walked - step))

    async def _move(self, ms: int) -> None:
        """Moves the clock, and waits for a turn of every queue: what is over by now is done in it."""
        self._moving.move(ms)
        assert self._running.site is not None
        engines = [served.engine for served in self._running.site.queues.values()]
        await asyncio.gather(*(engine.ask(Read(())) for engine in engines))

    def _check_queues(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._config.queues:
                raise ValueError(f"there is no queue {name!r} here, but {', '.join(self._config.queues)}")


@contextmanager
def serving(config: str | PathLike[str] | None = None, *, queues: Queues | None = None) -> Iterator[Served]:
    """A server for as long as the `with` lasts; see `leaseway.testing.serving`."""
    if config is not None and queues is not None:
        raise ValueError("config and queues are both there; give one of them")
    with TemporaryDirectory(prefix="leaseway-") as folder:
        store = f"sqlite:{folder}"
        if config is not None:
            served = Served(load_config(Path(config), listen=LISTEN, store=store))
        else:
            served = Served(config_of({"queues": _tables(queues)}, listen=LISTEN, store=store))
        try:
            served.start()
            yield served
        finally:
            served.stop()
        if served.failed:
            raise RuntimeError("the server ended by itself; what it logged says why")


def _tables(queues: Queues | None) -> dict[str, Any]:
    """The tables of queues that say who may use them, or are open to everyone."""
    if isinstance(queues, str):
        raise TypeError(f'queues are several names or tables; for one, give queues=["{queues}"]')
    named = queues if isinstance(queues, Mapping) else {name: {} for name in queues or ["demo"]}
    return {name: {"access": OPEN, **table} for name, table in named.items()}


def _right(name: str) -> Right:
    for right in RIGHTS:
        if right == name:
            return right
    raise ValueError(f"there is no right {name!r}, but {', '.join(RIGHTS)}")
