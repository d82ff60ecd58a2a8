"""The errors of the client library: one tree, and the signals that a handler may raise.

    LeasewayError
    ├── ConnectionLost           the server cannot be reached, or its answer did not come
    │   └── PostUnknown          a post may or may not have been made
    ├── AccessRefused            a reconnect would not help
    │   ├── Unauthorized         no token, or a bad one       (close code 4401)
    │   ├── Forbidden            the token lacks this right   (4403)
    │   └── NoSuchQueue          no such queue for this token (4404)
    ├── Rejected                 what was said cannot be accepted; nothing was stored
    ├── UnknownItem              the server knows no such item (any more)
    ├── WrongShape               a result cannot be read as the type that was asked for
    ├── LeaseLost                the item is no longer this worker's
    ├── HandlerDied              the process of a handler ended before the handler did
    └── NotFinished              the item ended without a result
        ├── Failed
        ├── Dead
        ├── Cancelled
        └── Expired
    HandlerSignal
    ├── Permanent                this item can never succeed
    ├── Retry                    try again, at a time of the handler's choice
    └── Release                  give the item back, at no charge

An error never holds a token. Nothing but errors lives here.
"""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]


class LeasewayError(Exception):
    """Whatever this library raises by itself."""


class ConnectionLost(LeasewayError):
    """The server cannot be reached, or the connection ended before the answer came."""


class PostUnknown(ConnectionLost):
    """A post was said and its answer never came: the item may or may not be in the queue."""


class AccessRefused(LeasewayError):
    """The server will not have this connection, however often it is tried (PROTOCOL.md §2)."""


class Unauthorized(AccessRefused):
    """No valid token where one is needed."""


class Forbidden(AccessRefused):
    """The token is good, but has not the right that this socket needs."""


class NoSuchQueue(AccessRefused):
    """No queue of that name exists for this token."""


class Rejected(LeasewayError):
    """Something that was said was refused, by the server or before it was sent.

    `code` is the protocol's stable word (§4: `schema`, `too-large`, `limit`, …), `errors` its list of
    `{"path", "message"}`.
    """

    def __init__(self, code: str, errors: list[JsonObject]) -> None:
        self.code = code
        self.errors = errors
        texts = "; ".join(f"{e.get('path') or '/'}: {e.get('message', '')}" for e in errors)
        super().__init__(f"{code}: {texts}" if texts else code)


class UnknownItem(LeasewayError):
    """The server knows no item of this `id`: it never existed, or it was pruned."""

    def __init__(self, item_id: str, message: str = "the server does not know this item") -> None:
        self.id = item_id
        super().__init__(f"{item_id}: {message}")


class WrongShape(LeasewayError):
    """An item was finished, and its result is not of the client's `result_type`.

    `id` is the item's, `result` the JSON value as it came, `path` a JSON Pointer to what does not fit.
    """

    def __init__(self, item_id: str, result: Any, path: str, message: str) -> None:
        self.id = item_id
        self.result = result
        self.path = path
        super().__init__(f"the result of {item_id} does not fit: {path or '/'}: {message}")


class LeaseLost(LeasewayError):
    """The item was taken away: cancelled, expired, lapsed, or finished by somebody else."""


class HandlerDied(LeasewayError):
    """The process of a handler ended, or could not be had, before the handler returned or raised."""


class NotFinished(LeasewayError):
    """The item ended in another state than `finished`.

    `error` is the last fault as the server tells it (`{"message", "code"?, "detail"?}`), or None.
    """

    def __init__(self, item_id: str, error: JsonObject | None) -> None:
        self.id = item_id
        self.error = error
        message = (error or {}).get("message", "no error was told")
        super().__init__(f"{item_id}: {message}")


class Failed(NotFinished):
    """A worker said that the item can never succeed."""


class Dead(NotFinished):
    """The item used up its tries, or took too many workers down."""


class Cancelled(NotFinished):
    """The item was withdrawn."""


class Expired(NotFinished):
    """The item's time to live ran out."""


class HandlerSignal(Exception):
    """What a handler raises to say how its attempt ends."""


class Permanent(HandlerSignal):
    """Ends the item as `failed`: no other attempt could succeed. `message` may be an exception too."""

    # Defaults, for a class of the handler's own that does not call ours.
    code: str | None = None
    detail: Any = None

    def __init__(self, message: object, *, code: str | None = None, detail: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


class Retry(HandlerSignal):
    """Fails this attempt and asks for another: `in_` seconds from now, None for the queue's own backoff.

    It counts as a failure, as any other exception does: the queue's `max_attempts` bounds it.
    """

    in_: float | None = None

    def __init__(self, message: object = "the handler asked for another attempt", *, in_: float | None = None) -> None:
        super().__init__(message)
        self.in_ = in_


class Release(HandlerSignal):
    """Gives the item back to the queue at no charge; `delay` in seconds, None for at once."""

    delay: float | None = None

    def __init__(self, delay: float | None = None) -> None:
        super().__init__("released")
        self.delay = delay
