"""Where the figures come from: pushed on the monitor socket, and what is not pushed asked for over HTTP.

Owns the conversation, the thread that asks, and nothing that is shown.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final, Never
from urllib.parse import urlsplit

import click

from leaseway.cli.remote import CannotReach, Remote, Site, printable
from leaseway.cli.top.figures import Figures
from leaseway.connection import Endpoint, Link, Outside
from leaseway.protocol import CLIENT, Mailbox, Message, encode, flatten, rejected

ASK_EVERY: Final = 2.0
"""Seconds between two questions for what is not pushed: who is connected, and what waits longest."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The server's figures."""

    stats: Message


@dataclass(frozen=True, slots=True)
class Lost:
    """The socket is gone; another is on its way."""


class StatsState(Mailbox[Pushed | Lost]):
    """A monitor socket that wants the queue's figures and nothing else."""

    urgent: Final = True  # Somebody looks at the screen.
    deadline: Final = math.inf

    def hello(self) -> bytes:
        """As every client of ours."""
        return encode({"hello": {"client": CLIENT, "batch": True}})

    def opened(self, _hello: Message, _now: float) -> None:
        """Asks for the figures, as they are and whenever they change."""
        self.outgoing.append(encode({"stats": True}))

    def received(self, message: Message, _now: float) -> None:
        """Raises `Rejected` where they are not for this token."""
        for one in flatten(message):
            if one["type"] == "stats":
                self.events.append(Pushed(one))
            elif one["type"] == "error":
                raise rejected(one)

    def lost(self) -> None:
        """What is known is old from now on."""
        self.outgoing.clear()
        self.events.append(Lost())

    def tick(self, _now: float) -> None:
        """Nothing is ever due."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is not pushed; connections and minutes are None where they are not for this token."""

    facts: dict[str, Any]
    connections: list[dict[str, Any]] | None
    minutes: list[dict[str, int]] | None

    @classmethod
    def of(cls, remote: Remote) -> Asked:
        """Asks. Raises `click.ClickException`."""
        facts = remote.get("", "counts")
        if "admin" not in facts["rights"]:
            return cls(facts, None, None)
        return cls(facts, remote.get("workers", "workers")["workers"], remote.get("rates", "minutes")["minutes"])


class NotShown(CannotReach):
    """What others posted is not for this token (PROTOCOL.md §2): nor is how much it is."""


class Source:
    """One queue that is watched. `figures` is what is known of it. Raises as `Asked.of` does."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url, self._token = url, token
        with closing(Remote(url, token)) as remote:
            asked = Asked.of(remote)
        if asked.facts["counts"] is None:
            raise NotShown(f"the figures of {remote.name} are for those who work there, and administrators")
        self.figures = Figures(asked.facts["queue"], remote.url, asked.facts["counts"])
        self._take(asked)
        endpoint = Endpoint.of(url, "monitor", token)
        self._link = Link(endpoint, StatsState(), self._on_events, Outside())
        self.told = asyncio.Event()
        """Is set once the server has pushed figures."""
        self._ended = threading.Event()

    async def run(self) -> Never:
        """Keeps the figures fresh until it is cancelled. Raises `AccessRefused` and `Rejected`."""
        loop = asyncio.get_running_loop()
        # It waits for no answer at the end: a server that is silent must not hold up who leaves.
        threading.Thread(target=self._ask_on, args=(loop,), daemon=True).start()
        try:
            await self._link.run()
        finally:
            self._ended.set()

    def note_trouble(self) -> None:
        """Says of a connection that does not come about why."""
        if self._link.trouble is not None and not self.figures.told:
            self.figures.trouble = printable(str(self._link.trouble))

    def _on_events(self, events: list[Pushed | Lost]) -> None:
        for event in events:
            match event:
                case Pushed(stats):
                    self.figures.take_stats(stats)
                    self.told.set()
                case Lost():
                    self.figures.lose("the connection was lost")

    def _ask_on(self, loop: asyncio.AbstractEventLoop) -> None:
        with closing(Remote(self._url, self._token)) as remote:
            while not self._ended.wait(ASK_EVERY):
                # The socket tells of a server that is gone; a loop that is closed has nobody who looks.
                with suppress(click.ClickException, RuntimeError):
                    loop.call_soon_threadsafe(self._take, Asked.of(remote))

    def _take(self, asked: Asked) -> None:
        self.figures.take_facts(asked.facts)
        self.figures.connections, self.figures.minutes = asked.connections, asked.minutes


def sources_at(urls: Sequence[str], token: str | None) -> list[Source]:
    """The queues of these addresses; a server's stands for all of its queues that the token may look at.

    Raises `click.ClickException` where one cannot be looked at, and where there is none.
    """
    found = [source for url in urls for source in _at(url, token)]
    if not found:
        raise CannotReach("there is no queue there that may be looked at")
    return found


def _at(url: str, token: str | None) -> Iterator[Source]:
    if not _is_site(url):
        yield Source(url, token)
        return
    with closing(Site(url, token)) as site:
        queues = site.queues()
    for queue in queues:
        with suppress(NotShown):
            yield Source(queue, token)


def _is_site(url: str) -> bool:
    with suppress(ValueError):
        return urlsplit(url).path in ("", "/")
    return False
