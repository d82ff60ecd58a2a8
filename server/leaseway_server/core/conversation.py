"""What both sockets share: frames to messages, one verb each, `ref`, `batch`, `hello`, and answers in the order asked.

Pure. A frame goes in and gives `Exchange`s whose commands the caller submits; each outcome goes to `settle`; what is to
be sent is taken by `take`. Only waiting claims are answered out of order (PROTOCOL.md §4, `Order`).
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import orjson

from leaseway_server.core.commands import Command, Failed, Outcome
from leaseway_server.core.errors import BadJson, BadMessage, LimitReached, Refused
from leaseway_server.core.hello import Greeting, parse_hello
from leaseway_server.core.jsontext import Json, JsonRefused, parse
from leaseway_server.core.members import NAME_LIMIT, Members, an_object
from leaseway_server.core.queue import Queue

PROTOCOL: Final = 1
IDS_A_MESSAGE: Final = 10
"""A message that names many ids counts as one more for each so many of them."""
Ref: TypeAlias = str | int | None
Message: TypeAlias = dict[str, object]


@dataclass(slots=True, eq=False)
class Exchange:
    """One message of the client and what becomes of it. `id` is the item it names, if any.

    Each member of an array that is answered by itself is one too; `index` is its place there.
    """

    verb: str
    ref: Ref = None
    id: str | None = None
    index: int | None = None
    command: Command | None = None
    ordered: bool = True
    left: int = 1
    """How many outcomes its command still has."""
    messages: tuple[bytes, ...] = ()
    size: int = 0
    """Bytes of the frame that it came in, while it is not answered; of a batch the first one has them."""


class Conversation(ABC):
    """One socket's side of the talk. Subclasses name their verbs and answer them."""

    verbs: ClassVar[frozenset[str]]

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.greeting = Greeting()
        self.heard = 0
        """How many messages came; a batch is its members, or one where it has none, and so is an array of reports."""
        self.bad = 0
        """How many of them were no message of the protocol."""
        self.refused: Counter[str] = Counter()
        """How many errors were said, by code."""
        self.unanswered = 0
        """How many bytes came in messages that are not answered yet; claims that wait are none of them."""
        self._waiting: deque[Exchange] = deque()
        self._outgoing: list[bytes] = []
        self._weight = 0

    def receive(self, text: str | bytes) -> list[Exchange]:
        """Takes a text frame. Gives what is to be submitted, in this order."""
        self.heard += 1
        try:
            value = parse(text)
        except JsonRefused as refused:
            self._refuse(Exchange(""), BadJson(str(refused)))
            return []
        said: list[Exchange] = []
        self._message(value, said, outer=True)
        for exchange in said:
            if exchange.ordered:
                exchange.size = len(text)
                self.unanswered += exchange.size
                break
        return said

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Takes an outcome of the exchange's command."""
        exchange.left -= 1
        if isinstance(outcome, Failed):
            exchange.left = 0
            self._say(exchange, self._error(exchange, outcome.error))
        else:
            self._answer(exchange, outcome)
        if exchange.left == 0 and exchange.size:
            self.unanswered -= exchange.size
            exchange.size = 0
        self._flush()

    def take(self) -> list[bytes]:
        """The frames to send now, in order; each is at most `maxMessageBytes` long where its messages are."""
        messages = self._take_messages()
        return frames(messages, self.greeting.batch, self.queue.limits.message_bytes)

    def weight(self) -> int:
        """How many bytes wait to be taken."""
        return self._weight

    @property
    def has_outgoing(self) -> bool:
        """Whether `take` would give something."""
        return bool(self._outgoing)

    @property
    def backlog(self) -> int:
        """How many messages wait to be taken, or for the answer to an earlier one."""
        return len(self._outgoing) + len(self._waiting)

    @abstractmethod
    def _handle(self, verb: str, value: Json, exchange: Exchange, said: list[Exchange]) -> None:
        """Fills in the exchange of a known verb but `hello` and `batch`; what is to be submitted joins `said`."""

    @abstractmethod
    def _answer(self, exchange: Exchange, outcome: Outcome) -> None:
        """Says what the outcome means, by `_say`."""

    def _message(self, value: Json, said: list[Exchange], *, outer: bool, full: bool = False) -> None:
        exchange = Exchange("")
        try:
            members = an_object(value, "a message")
            exchange.ref = _ref(members)
            exchange.verb = verb = self._verb(members)
            if full:
                raise LimitReached(f"{self.queue.limits.batch} messages and members of arrays are all of a batch")
            if verb == "batch":
                self._batch(members[verb], said, outer=outer)
            elif verb == "hello":
                self._hello(exchange, members[verb])
            else:
                self._handle(verb, members[verb], exchange, said)
        except Refused as refused:
            self._refuse(exchange, refused)

    def _verb(self, members: Members) -> str:
        known = self.verbs.intersection(members)
        if len(known) == 1:
            return next(iter(known))
        if known:
            raise BadMessage(f"a message has one verb, and here are {', '.join(sorted(known))}")
        raise BadMessage(f"no known verb; here are known: {', '.join(sorted(self.verbs))}")

    def _batch(self, value: Json, said: list[Exchange], *, outer: bool) -> None:
        if not outer or not isinstance(value, list):
            raise BadMessage("a batch must be an array of messages, and none of them a batch")
        if len(value) > self.queue.limits.batch:
            raise LimitReached(f"a batch has at most {self.queue.limits.batch} messages, and here are {len(value)}")
        self.heard += max(0, len(value) - 1)
        room = self.heard + self.queue.limits.batch - len(value)  # For the further members of arrays.
        for message in value:
            self._message(message, said, outer=False, full=self.heard > room)

    def _each(
        self, values: list[Json], whole: Exchange, most: int, fill_in: Callable[[Json, Exchange], None]
    ) -> list[Exchange]:
        """The members of an array, each with an answer of its own. Gives what is to be submitted, in this order.

        `fill_in` fills in the exchange of one; what is wrong with a member is told of that one and harms no other.
        """
        if not values:
            raise BadMessage(f"{whole.verb} must have at least one member in its array")
        if len(values) > most:
            raise LimitReached(f"{whole.verb} takes at most {most} at once, and here are {len(values)}")
        self.heard += len(values) - 1
        said = []
        for index, value in enumerate(values):
            exchange = Exchange(whole.verb, whole.ref, index=index)
            try:
                fill_in(value, exchange)
            except Refused as refused:
                self._refuse(exchange, refused)
            else:
                said.append(self._begin(exchange))
        return said

    def _hello(self, exchange: Exchange, hello: Json) -> None:
        self.greeting = parse_hello(hello)
        answer: Message = {
            "type": "hello",
            "protocol": PROTOCOL,
            "queue": self.queue.name,
            "leaseMs": self.queue.policy.lease,
            "schemas": self.queue.schemas.documents(),
            "maxMessageBytes": self.queue.limits.message_bytes,
        }
        self._reply(exchange, orjson.dumps(answer))

    def _reply(self, exchange: Exchange, message: bytes) -> None:
        """Answers at once, in its turn, what needs no command."""
        exchange.left = 0
        self._begin(exchange)
        self._say_encoded(exchange, with_ref(message, exchange))
        self._flush()

    def _begin(self, exchange: Exchange) -> Exchange:
        if exchange.ordered:
            self._waiting.append(exchange)
        return exchange

    def _refuse(self, exchange: Exchange, refused: Refused) -> None:
        self.bad += isinstance(refused, BadJson | BadMessage)
        exchange.left, exchange.ordered = 0, True
        self._begin(exchange)
        self._say(exchange, self._error(exchange, refused))
        self._flush()

    def _error(self, exchange: Exchange, refused: Refused) -> Message:
        self.refused[refused.code] += 1
        errors = [{"path": problem.path, "message": problem.message} for problem in refused.problems]
        return {"type": "error", "id": exchange.id, "code": refused.code, "errors": errors}

    def _say(self, exchange: Exchange, message: Message) -> None:
        if exchange.index is not None:
            message["index"] = exchange.index
        self._say_encoded(exchange, with_ref(orjson.dumps(message), exchange))

    def _say_encoded(self, exchange: Exchange, message: bytes) -> None:
        self._weight += len(message)
        if exchange.ordered:
            exchange.messages += (message,)
        else:
            self._outgoing.append(message)

    def _take_messages(self) -> list[bytes]:
        messages, self._outgoing = self._outgoing, []
        self._weight -= sum(map(len, messages))
        return messages

    def _flush(self) -> None:
        while self._waiting and self._waiting[0].left == 0:
            self._outgoing.extend(self._waiting.popleft().messages)


def frames(messages: list[bytes], batches: bool, limit: int) -> list[bytes]:
    """The messages as frames: one each, or joined into `batch` messages of at most `limit` bytes."""
    if not batches or len(messages) < 2:
        return messages
    joined: list[bytes] = []
    batch: list[bytes] = []
    size = 0
    for message in messages:
        if batch and size + len(message) > limit - _BATCH_BYTES:
            joined.append(_join(batch))
            batch, size = [], 0
        batch.append(message)
        size += len(message) + 1
    joined.append(_join(batch))
    return joined


def with_ref(message: bytes, exchange: Exchange) -> bytes:
    """The message, an object with members, with its `ref`; spliced in, since it may be large."""
    if exchange.ref is None:
        return message
    return message[:-1] + b',"ref":' + orjson.dumps(exchange.ref) + b"}"


_BATCH_BYTES: Final = len(b'{"type":"batch","messages":[]}')


def _join(messages: list[bytes]) -> bytes:
    if len(messages) == 1:
        return messages[0]
    return b'{"type":"batch","messages":[' + b",".join(messages) + b"]}"


def _ref(members: Members) -> Ref:
    ref = members.get("ref")
    if ref is None or (isinstance(ref, int) and not isinstance(ref, bool)):
        return ref
    if not isinstance(ref, str) or len(ref) > NAME_LIMIT:
        raise BadMessage(f"ref must be an integer, or a text of at most {NAME_LIMIT} characters", path="/ref")
    return ref
