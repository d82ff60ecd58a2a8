"""Tests of handlers and producers against a real server, with a clock that can be moved; docs/testing.md shows how.

The server's half is found through the entry-point group `leaseway.testing`, when it is first asked for; what it gives
is described here. The fixture of pytest is in `pytest_plugin.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from os import PathLike
from typing import Any, Protocol, cast

GROUP = "leaseway.testing"
MISSING = "leaseway.testing runs a real server, which is not installed: pip install 'leaseway[server]'"


class ServedClock(Protocol):
    """The server's clock. It goes on as any clock does, and can be moved on besides."""

    def time(self) -> float:
        """Seconds since the epoch, as the server has them."""

    def advance(self, seconds: float) -> None:
        """Moves the clock on. When this returns, what became due or ended by it has been done and committed.

        Leases lapse, delayed items come due, backoffs pass, tokens expire, waiting claims end. Workers and clients live
        by their own clocks: a worker that holds an item is told that it lost it. Raises `ValueError` for what is no
        length of time.
        """


class Served(Protocol):
    """A server that serves, for as long as the `with` of `serving` lasts."""

    @property
    def clock(self) -> ServedClock:
        """Its clock."""

    def url(self, queue: str) -> str:
        """The address of a queue, for `Client` and `Worker`. Raises `ValueError` where there is none of that name."""

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


def serving(
    config: str | PathLike[str] | None = None,
    *,
    queues: Iterable[str] | Mapping[str, Mapping[str, Any]] | None = None,
) -> AbstractContextManager[Served]:
    """A real server on a free port of this machine, with a store that is gone afterwards; use it in a `with`.

    It runs in a thread of its own, so that tests may be asynchronous or not. `config` is a `leaseway.toml`, served as
    it is but for its address and its store. Or `queues`: names of queues that are open to everyone, or by name what
    `[queues.<name>]` would say. Without either there is one open queue, `demo`.

    Raises `ImportError` where the server is not installed, and where the configuration has a mistake, an error that
    names it.
    """
    return cast("AbstractContextManager[Served]", _server_half()(config, queues=queues))


def _server_half() -> Any:
    for found in entry_points(group=GROUP, name="serving"):
        try:
            return found.load()
        except ModuleNotFoundError as missing:
            raise ImportError(f"{MISSING} (there is no module {missing.name})") from missing
    raise ImportError(MISSING)
