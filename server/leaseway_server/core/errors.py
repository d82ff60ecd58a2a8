"""Every error that Leaseway raises on purpose, in one tree.

    LeasewayError
    ├── Refused             what a client said cannot be done; nothing was changed
    │   ├── BadJson         it is not JSON, or not JSON that can be kept faithful
    │   ├── BadMessage      it is JSON, but not a message or an option of the protocol
    │   ├── SchemaMismatch  it does not meet the queue's JSON Schema
    │   ├── TooLarge        it is larger than the server takes
    │   ├── LimitReached    it would pass a limit of the server
    │   │   ├── TooManyAttempts  too many tokens that are not valid came from one address
    │   │   └── TooManyPosts     an array of more posts than are taken at once
    │   ├── Conflict        it contradicts what is there
    │   ├── Unauthorized    no valid token where one is needed
    │   ├── NotAllowed      a valid token without this right
    │   │   └── Misdirected  the request was sent to a name that is not this server's
    │   ├── NotFound        no such queue or item, as far as the caller may know
    │   └── Unavailable     the server cannot do it now; later it may
    │       └── Deserted    its database is away for so long that clients had better find another server
    └── StoreError
        ├── StoreRefused    the store cannot be opened, and why
        ├── StoreFull       no space; the turn was rolled back, the next one may succeed
        ├── StoreBusy       another server was in the way; nothing was done, the same turn may be run again at once
        ├── StoreAway       the database cannot be reached; nothing was done, or it is unknown whether all of it was
        └── StoreLost       an I/O error: what was committed is unknown until the file is read again

`code` is part of the protocol (PROTOCOL.md §4, §5), the text is not. `status` is the HTTP status, `close` the WebSocket
close code for a fault that ends a socket (§6).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

MESSAGE_LIMIT = 200
PROBLEM_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a document: `path` is a JSON Pointer (RFC 6901) into what was sent."""

    path: str
    message: str


class LeasewayError(Exception):
    """The root of the tree."""


class Refused(LeasewayError):
    """A client's request that was not done. `problems` say what was wrong, and where."""

    code: ClassVar[str] = "bad-message"
    status: ClassVar[int] = 422
    close: ClassVar[int] = 1008
    title: ClassVar[str] = "The request cannot be done"

    def __init__(self, message: str, *, path: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)[:PROBLEM_LIMIT] or (Problem(path, message[:MESSAGE_LIMIT]),)

    def within(self, path: str) -> Self:
        """The same refusal of a document in which what was refused stands at `path`."""
        problems = [Problem(path + problem.path, problem.message) for problem in self.problems]
        return type(self)(str(self), problems=problems)


class BadJson(Refused):
    """The text is no JSON, or holds a value that cannot be kept."""

    code = "bad-json"
    status = 400
    title = "Not JSON"


class BadMessage(Refused):
    """The JSON is no message of the protocol, or an option has a wrong value."""


class SchemaMismatch(Refused):
    """The value does not meet the queue's JSON Schema."""

    code = "schema"
    title = "The queue's schema refuses this"


class TooLarge(Refused):
    """The value is larger than the limit that the text names."""

    code = "too-large"
    status = 413
    close = 1009
    title = "Too large"


class LimitReached(Refused):
    """A limit of the server is reached; what was there stays."""

    code = "limit"
    status = 429
    close = 1013
    title = "A limit is reached"


class TooManyAttempts(LimitReached):
    """An address sent too many tokens that are not valid."""

    title = "Too many attempts"


class TooManyPosts(LimitReached):
    """An array has more posts than the queue takes at once."""

    status = 422


class Conflict(Refused):
    """The item's state does not allow it."""

    code = "conflict"
    status = 409
    title = "The item's state does not allow this"


class Unauthorized(Refused):
    """A valid token is needed."""

    code = "unauthorized"
    status = 401
    close = 4401
    title = "A valid token is needed"


class NotAllowed(Refused):
    """The token does not give this right."""

    code = "not-allowed"
    status = 403
    close = 4403
    title = "Not allowed"


class Misdirected(NotAllowed):
    """The name that the request was sent to is not one of this server's."""

    status = 421
    title = "Misdirected request"


class NotFound(Refused):
    """There is no such thing, as far as the caller may know."""

    code = "not-found"
    status = 404
    close = 4404
    title = "Not found"


class Unavailable(Refused):
    """The server cannot do it at the moment."""

    code = "unavailable"
    status = 503
    close = 1011
    title = "Not available at the moment"


class Deserted(Unavailable):
    """The server cannot reach its database, and cannot say until when."""

    close = 1013


class StoreError(LeasewayError):
    """A fault of the store."""


class StoreRefused(StoreError):
    """The store cannot be opened; the text says which file and why."""


class StoreFull(StoreError):
    """No space is left. Nothing of the turn was kept; a later turn may succeed."""


class StoreBusy(StoreError):
    """Another server was in the way: a deadlock, or a lock that was held too long. Nothing of the turn was done."""


class StoreAway(StoreError):
    """The database cannot be reached. Nothing of the turn was done; but where `unknown`, all of it may have been: the
    answer to COMMIT is missing, and `Store.committed` tells once the database is back."""

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class StoreLost(StoreError):
    """The store failed in a way that leaves its last commit in doubt; the process must end and recover."""


class StoreGone(StoreLost):
    """What was opened is not there any more: another start would make it anew, with nothing in it, or be refused where
    it was moved. A person decides."""
