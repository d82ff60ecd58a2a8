"""What a `hello` says of a client (PROTOCOL.md §4, plus). Read once, and kept for whoever asks who is connected."""

from dataclasses import dataclass
from typing import Final

from leaseway_server.core.errors import BadMessage
from leaseway_server.core.jsontext import Json
from leaseway_server.core.members import an_object, flag, integer, name_of
from leaseway_server.core.queue import check_in

LABELS_LIMIT: Final = 2_000
"""Bytes of compact UTF-8."""
LONGEST_PACE: Final = 60_000
"""Milliseconds: who waits longer for news does better to ask now and then."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who speaks on a socket, and what it asks for; the default is a client that never said `hello`.

    `worker` and `client` are "" where they were not named, `labels` is JSON, an object. `pace_ms` is the time between
    two pushes, 0 where they come as they happen; with `pace_offset_ms` they come so long after a multiple of it.
    Without `stamp` no end that is told counts as fetched.
    """

    worker: str = ""
    client: str = ""
    labels: str = "{}"
    cancel: bool = False
    batch: bool = False
    pace_ms: int = 0
    pace_offset_ms: int | None = None
    stamp: bool = True

    def push_at(self, last: int, since: int) -> int:
        """When what waits since `since` may be pushed, the last push being at `last`; all ms since the epoch."""
        if self.pace_offset_ms is None:
            return last + self.pace_ms
        earliest = max(since, last + 1)
        return earliest + (self.pace_offset_ms - earliest) % self.pace_ms


def parse_hello(value: Json) -> Greeting:
    """A `hello`. Raises `BadMessage`, `BadJson` and `TooLarge`, with paths into it."""
    hello = an_object(value, "hello")
    labels = an_object(hello.get("labels", {}), "labels", "/labels")
    pace_ms = integer(hello, "paceMs", least=1, most=LONGEST_PACE) or 0
    pace_offset_ms = integer(hello, "paceOffsetMs", most=pace_ms - 1 if pace_ms else LONGEST_PACE - 1)
    if pace_offset_ms is not None and not pace_ms:
        raise BadMessage("paceOffsetMs goes with paceMs")
    return Greeting(
        worker=name_of(hello, "worker"),
        client=name_of(hello, "client"),
        labels=check_in(dict(labels), None, LABELS_LIMIT, "labels", "/labels"),
        cancel=flag(hello, "cancel", default=False),
        batch=flag(hello, "batch", default=False),
        pace_ms=pace_ms,
        pace_offset_ms=pace_offset_ms,
        stamp=flag(hello, "stamp", default=True),
    )
