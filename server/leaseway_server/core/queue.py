"""What the sessions and the web know of a queue: its name, its schemas, its limits, and how values are checked in."""

import re
from dataclasses import dataclass, field
from typing import Final

from leaseway_server.core.errors import BadJson, SchemaMismatch, TooLarge
from leaseway_server.core.jsontext import Json, JsonRefused, check_depth, write
from leaseway_server.core.match import Match
from leaseway_server.core.policy import Policy
from leaseway_server.core.retention import Keep
from leaseway_server.core.schema import Schema

ENVELOPE: Final = 128 * 1024
"""What a message may need around an item or a result (PROTOCOL.md §5)."""
BULK_MESSAGES: Final = 8
"""NDJSON, which is read line by line, may be as large as so many messages (PROTOCOL.md §5)."""
RECORD_LIMIT: Final = 32 * 1024
META_LIMIT: Final = 2_000
QUEUE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients send. Bytes, counts, and `wait_ms`, the longest that a request may wait."""

    message_bytes: int = 1_048_576
    batch: int = 1_000
    ids: int = 10_000
    subscriptions: int = 10_000
    count: int = 1_000
    wait_ms: int = 600_000
    bulk_items: int = 1_000
    """Posts in one array (`max_bulk_items`)."""

    @property
    def value_bytes(self) -> int:
        """The largest item or result, as compact UTF-8."""
        return self.message_bytes - ENVELOPE

    @property
    def bulk_bytes(self) -> int:
        """The most that NDJSON may have, over all its lines."""
        return self.message_bytes * BULK_MESSAGES


@dataclass(frozen=True, slots=True)
class Schemas:
    """The JSON Schemas of a queue; None takes anything."""

    item: Schema | None = None
    progress: Schema | None = None
    result: Schema | None = None

    def documents(self) -> dict[str, Json]:
        """The documents, or null, by kind."""
        kinds = {"item": self.item, "progress": self.progress, "result": self.result}
        return {kind: schema.document if schema else None for kind, schema in kinds.items()}


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue, as configured."""

    name: str
    policy: Policy = field(default_factory=Policy)
    schemas: Schemas = field(default_factory=Schemas)
    limits: Limits = field(default_factory=Limits)
    max_pending: int = 1_000_000
    """Posts that would make more items wait than this are refused; requeues are not."""
    own_only: bool = False
    """`visibility = "own"`: who has neither `work` nor `admin` sees only what it posted (PROTOCOL.md §2)."""
    keep: Keep = field(default_factory=Keep)

    def shows_all(self, rights: frozenset[str]) -> bool:
        """Whether all items are there for somebody with these rights."""
        return not self.own_only or "work" in rights or "admin" in rights

    match: Match = ()
    """Members that the store indexes for claims; they stay as long as the server runs."""

    def shows(self, posted_by: str, user: str, rights: frozenset[str]) -> bool:
        """Whether an item of this poster is there for this user at all. Nobody in particular ("") owns nothing."""
        return posted_by == user != "" or self.shows_all(rights)


def check_in(value: Json, schema: Schema | None, limit: int, what: str, path: str = "") -> str:
    """The value as it is stored: compact JSON. `path` is where it stands in what was sent.

    Raises `BadJson` (nested too deeply), `TooLarge`, `SchemaMismatch`.
    """
    try:
        check_depth(value)
    except JsonRefused as refused:
        raise BadJson(str(refused), path=path) from None
    text = write(value)
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit:
        raise TooLarge(f"{what} has {size} bytes, and at most {limit} are taken", path=path)
    problems = schema.check(value, path) if schema else ()
    if problems:
        raise SchemaMismatch(problems[0].message, problems=problems)
    return text
