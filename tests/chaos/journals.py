"""What all clients of some servers said and heard, in one order, and what was done to the servers meanwhile.

Owns the shapes of that record and nothing else: who judges it is in `judge.py`, and who writes it is in `crowd.py`.
Messages are those of PROTOCOL.md; a request over HTTP is written as the message that it stands for. `at` is in ms since
the epoch, on this machine's clock; the order of the entries is what is certain.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """A client is about to say this. `ref` is the question's, unlike any other."""

    at: int
    who: str
    ref: int
    verb: str
    body: Message


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer to the question `ref`."""

    at: int
    who: str
    ref: int
    message: Message


@dataclass(frozen=True, slots=True)
class Told:
    """A view that was pushed, by the subscription that began with the question `ref`."""

    at: int
    who: str
    ref: int
    view: Message


@dataclass(frozen=True, slots=True)
class Came:
    """A client makes a new connection."""

    at: int
    who: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection of a client ends now, or is dumb from now on, and no server is to blame."""

    at: int
    who: str


@dataclass(frozen=True, slots=True)
class Stood:
    """All clients stood still from `at` to `until`: the machine had no time for them, and no ping was answered."""

    at: int
    until: int


@dataclass(frozen=True, slots=True)
class Struck:
    """Something befalls a server or the database; `sockets`: it may cost clients their sockets, which is no loss."""

    at: int
    what: str
    sockets: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """A row of the database when all is over; `kind` is `item`, `attempt` or `counts`."""

    at: int
    kind: str
    row: Message


Entry: TypeAlias = Said | Heard | Told | Came | Cut | Stood | Struck | Kept


class Journal:
    """The record of one run. `read` is shown each entry as it is written."""

    def __init__(self, read: Callable[[Entry], None] = lambda _entry: None) -> None:
        self.entries: list[Entry] = []
        self._read = read
        self._refs = count(1)

    def said(self, who: str, verb: str, body: Message) -> int:
        """To be written before it is sent. Gives the question's ref."""
        ref = next(self._refs)
        self._write(Said(_now(), who, ref, verb, body))
        return ref

    def heard(self, who: str, ref: int, message: Message) -> None:
        """An answer."""
        self._write(Heard(_now(), who, ref, message))

    def told(self, who: str, ref: int, view: Message) -> None:
        """A push."""
        self._write(Told(_now(), who, ref, view))

    def came(self, who: str) -> None:
        """To be written before the connection is made."""
        self._write(Came(_now(), who))

    def cut(self, who: str) -> None:
        """To be written before it is cut."""
        self._write(Cut(_now(), who))

    def stood(self, ms: int) -> None:
        """For so long, until now."""
        self._write(Stood(_now() - ms, _now()))

    def struck(self, what: str, *, sockets: bool) -> None:
        """To be written before it strikes."""
        self._write(Struck(_now(), what, sockets))

    def kept(self, kind: str, row: Message) -> None:
        """A row at the end."""
        self._write(Kept(_now(), kind, row))

    def _write(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._read(entry)


def _now() -> int:
    return time.time_ns() // 1_000_000
