"""The words of PROTOCOL.md that both sockets share: JSON in and out, refs, views, what a session is.

Pure: no socket, no clock, no chance. What one kind of socket knows lives in `worker_state.py` and
`watch_state.py`; what moves the bytes lives in `connection.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from leaseway.errors import Rejected

CLIENT = "leaseway-python/0.1"
#: What common WebSocket libraries accept by default (§5); `hello` tells the server's own limit.
DEFAULT_MAX_BYTES = 1_048_576
TERMINAL = frozenset({"finished", "failed", "dead", "cancelled", "expired"})
#: Codes of `error` that pass by themselves: the same message is good later (§4).
PASSING = frozenset({"unavailable", "limit"})

#: The longest duration, milliseconds (§5).
MAX_MS = 2**53 - 1
#: Messages in one batch (§4).
MAX_BATCH = 1_000

Message = dict[str, Any]
E = TypeVar("E")


class Silent(Exception):
    """The server is silent on what it must have answered by now; another socket may help."""


class Session(Protocol[E]):
    """One side of one conversation, without I/O: messages in, messages and events out.

    It outlives its sockets: `opened` and `lost` tell it when one comes and goes. Times are seconds on one
    monotonic clock.
    """

    @property
    def urgent(self) -> bool:
        """Whether a reconnect is pressing: leases are held that the server gives away after a while."""

    @property
    def deadline(self) -> float:
        """When `tick` is due at the latest; infinity if never."""

    def hello(self) -> bytes:
        """The first message of every socket."""

    def opened(self, hello: Message, now: float) -> None:
        """A socket stands, and this was the server's `hello`."""

    def received(self, message: Message, now: float) -> None:
        """The server said this. Raises what no reconnect can mend."""

    def lost(self) -> None:
        """The socket is gone; what was said on it may have been heard or not."""

    def tick(self, now: float) -> None:
        """Does what is due by `now`. Raises `Silent` where this socket should be given up."""

    def next_message(self) -> bytes | None:
        """What to send next, or None. What was handed out counts as sent."""

    def take_events(self) -> list[E]:
        """What happened since the last call, in order."""


class Mailbox(Generic[E]):
    """What a session has to send and to tell, until somebody fetches it."""

    def __init__(self) -> None:
        self.outgoing: deque[bytes] = deque()
        self.events: list[E] = []

    def next_message(self) -> bytes | None:
        """What to send next, or None."""
        return self.outgoing.popleft() if self.outgoing else None

    def take_events(self) -> list[E]:
        """What happened since the last call, in order."""
        events, self.events = self.events, []
        return events


def encode(message: Message, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """One text frame. Raises `Rejected` for what JSON cannot keep and for what the server would not read."""
    data = encode_value(message)
    if len(data) > max_bytes:
        raise Rejected(
            "too-large",
            [{"path": "", "message": f"the message has {len(data)} bytes, and at most {max_bytes} are taken"}],
        )
    return data


def encode_value(value: Any) -> bytes:
    """Any value as JSON, of whatever size. Raises `Rejected` for what JSON cannot keep."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except orjson.JSONEncodeError as error:
        raise Rejected("bad-json", [{"path": "", "message": str(error)}]) from None
    # orjson writes NaN and the infinities as null; the protocol refuses them (head of PROTOCOL.md).
    if b"null" in data and any(not math.isfinite(number) for number in _floats(value)):
        raise Rejected("bad-json", [{"path": "", "message": "a number is not finite"}])
    return data


def is_number(value: Any, most: float) -> bool:
    """Whether it is a number from 0 to `most`, whatever it is."""
    try:
        return bool(0 <= value <= most)
    except TypeError:
        return False


def check_seconds(name: str, seconds: Any) -> None:
    """Raises `ValueError` for what is no length of time (§5); `name` is what the caller calls it."""
    if not is_number(seconds, MAX_MS / 1000):
        raise ValueError(f"{name} is a number of seconds, 0 or more, and not {seconds!r}")


def batched(messages: deque[bytes], max_bytes: int) -> bytes:
    """Takes the first messages off, as many as one frame may hold: one as it is, several as a `batch` (§4)."""
    taken = [messages.popleft()]
    size = len(taken[0]) + len(b'{"batch":[]}')
    while messages and len(taken) < MAX_BATCH and (size := size + 1 + len(messages[0])) <= max_bytes:
        taken.append(messages.popleft())
    return b'{"batch":[%b]}' % b",".join(taken) if len(taken) > 1 else taken[0]


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _floats(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _floats(member)


def decode(data: bytes) -> Message:
    """The object in a frame of the server. Raises `ValueError` for what is none."""
    message = orjson.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one error for all that cannot be read
    return message


def flatten(message: Message) -> list[Message]:
    """The messages in a message: a `batch` of the server holds several, in order (§4)."""
    return message["messages"] if message.get("type") == "batch" else [message]


def rejected(message: Message) -> Rejected:
    """An `error` message as an exception."""
    return Rejected(str(message.get("code")), list(message.get("errors") or []))


@dataclass(frozen=True, slots=True)
class View:
    """One item as the server shows it (§3). Times are milliseconds since the Unix epoch."""

    id: str
    status: str
    posted_by: str | None
    posted_at: int
    updated_at: int
    finished_at: int | None
    attempts: int
    progress: Any
    result: Any
    error: Message | None
    label: str | None = None
    worker: str | None = None
    #: Grows with every change; None where a server tells none.
    rev: int | None = None
    due_at: int | None = None
    #: The latest claim.
    started_at: int | None = None
    expires_at: int | None = None
    priority: int | None = None
    key: str | None = None
    failures: int | None = None
    losses: int | None = None
    max_attempts: int | None = None
    meta: Message | None = None

    @property
    def ended(self) -> bool:
        """Whether the state is terminal."""
        return self.status in TERMINAL

    @classmethod
    def of(cls, message: Message) -> View:
        """The view in a `status` message; members that this library does not know are left out."""
        return cls(**{name: message[key] for name, key in _VIEW_MEMBERS if key in message})


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_VIEW_MEMBERS = [(field.name, _wire_name(field.name)) for field in dataclasses.fields(View)]
