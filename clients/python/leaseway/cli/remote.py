"""One queue at its address, as commands ask it: what hinders it is told in plain words, each with its exit status.

Every fault is a `click.ClickException` with an exit status: 1 the server did not do it, 2 it was asked wrongly, 3 it
cannot be reached, or does not allow it. How a queue is asked is `leaseway/http.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

import click

from leaseway import http
from leaseway.errors import ConnectionLost
from leaseway.http import Json, Refusal, printable

__all__ = [
    "AskedWrongly", "CannotReach", "Declined", "Full", "Json", "NotAllowed", "NotDone", "NotNow", "Remote",
    "Unanswered", "printable",
]  # fmt: skip

_WRONG: Final = frozenset({400, 413, 415, 422})
_UNDONE: Final = frozenset({404, 409})


class CannotReach(click.ClickException):
    """Nobody answers there, or nobody who speaks this protocol, or what was asked is not allowed."""

    exit_code = 3


class NotAllowed(CannotReach):
    """The token is good, but has not the right; or there is none, and one is needed for this."""


class NotNow(CannotReach):
    """What passes by itself, such as a server that starts: the same request is good later."""


class Full(NotNow):
    """As much waits, or asks, as the server takes."""


class Unanswered(NotNow):
    """It was said, and no answer came: it may have been done or not."""


class Declined(click.ClickException):
    """The server understood, and says no to what was said: the protocol's `code`, and the `path` of the first place."""

    def __init__(self, message: str, code: str, path: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.path = path


class NotDone(Declined):
    """The server allows it, and yet it cannot be done: the item is not there, or has ended, or another has its key."""

    exit_code = 1


class AskedWrongly(Declined):
    """The server does not take it so."""

    exit_code = 2


_REFUSED: Final = {403: NotAllowed, 429: Full, 503: NotNow}


class Remote(http.Remote):
    """A queue, as commands ask it. Raises `click.UsageError` for what is no address, and the faults above."""

    given_as: ClassVar[str] = "LEASEWAY_TOKEN"

    def __init__(self, url: str, token: str | None) -> None:
        try:
            super().__init__(url, token)
        except ValueError as wrong:
            raise click.UsageError(str(wrong)) from None

    def ask(self, method: str, path: str, wanted: str, body: bytes | None = None, kind: str = "") -> Json:
        """As `http.Remote.ask`."""
        with self._told(path):
            return super().ask(method, path, wanted, body, kind)

    def content(self, method: str, path: str, wanted: int) -> bytes:
        """As `http.Remote.content`."""
        with self._told(path):
            return super().content(method, path, wanted)

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        try:
            yield
        except http.Unanswered as unanswered:
            raise Unanswered(str(unanswered)) from None
        except http.Untrusted as untrusted:
            raise CannotReach(str(untrusted)) from None
        except ConnectionLost as lost:
            raise NotNow(str(lost)) from None
        except Refusal as refusal:
            raise self._fault(refusal, of_item=path.startswith("items/")) from None

    def _fault(self, refusal: Refusal, *, of_item: bool) -> click.ClickException:
        if refusal.status == 401 and refusal.tokenless:
            return NotAllowed(f"a token is needed at {self.site}; set {self.given_as}")
        if refusal.status in _UNDONE and (of_item or refusal.status != 404):  # No queue there: it cannot be reached.
            return NotDone(str(refusal), refusal.code, _first(refusal))
        if refusal.status in _WRONG:
            return AskedWrongly(str(refusal), refusal.code, _first(refusal))
        return _REFUSED.get(refusal.status, CannotReach)(f"the server refuses: {refusal}")


def _first(refusal: Refusal) -> str:
    return str(refusal.errors[0]["path"]) if refusal.errors else ""


class Site(Remote):
    """A server at `http(s)://host`."""

    paths: ClassVar[re.Pattern[str]] = re.compile("/?")

    def queues(self) -> list[str]:
        """The addresses of the queues that the token may look at (PROTOCOL.md §5)."""
        found = self.get("_queues", "queues")["queues"]
        return [f"{self.site}/{each['queue']}" for each in found if "fetch" in each["rights"]]
