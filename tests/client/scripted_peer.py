"""A server that says what a test tells it to, over real sockets, and the messages that it says.

Everything that is said, in both directions, is held against the wire schemas. It decides nothing by itself: a
test reads like a transcript.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from leaseway.connection import Outside
from support.wire import Socket, check_client, check_server

A, B = "a" * 16, "b" * 16
LEASE_MS = 300_000
Message = dict[str, Any]


class Conversation:
    """One accepted socket, seen from the server's side."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        assert connection.request is not None
        self.path = connection.request.path
        self.headers = connection.request.headers
        self.socket: Socket = "work" if self.path.endswith("/work") else "monitor"
        self._heard: deque[Message] = deque()

    async def hear(self) -> Message:
        """The next message of the client; those in a batch come one by one."""
        if not self._heard:
            message: Message = json.loads(await self._connection.recv())
            check_client(self.socket, message)
            self._heard.extend(message.get("batch", [message]))
        return self._heard.popleft()

    async def expect(self, verb: str) -> Message:
        """The next message, which must be of this verb."""
        message = await self.hear()
        assert verb in message, f"{verb} was expected, {message} was said"
        return message

    async def say(self, message: Message) -> None:
        """Says a message to the client."""
        check_server(self.socket, message)
        await self._connection.send(json.dumps(message))

    async def greet(self, max_message_bytes: int = 1_048_576) -> Message:
        """Hears the hello, answers it, and gives what it said."""
        message = await self.expect("hello")
        await self.say(hello(max_message_bytes))
        body: Message = message["hello"]
        return body

    async def close(self, code: int = 1012) -> None:
        """Closes the socket."""
        await self._connection.close(code)

    def cut(self) -> None:
        """Ends the socket without a word."""
        self._connection.transport.abort()

    async def closed(self) -> int | None:
        """Waits until the client has closed, and gives its code."""
        await self._connection.wait_closed()
        return self._connection.close_code


class Peer:
    """Accepts sockets and hands them to the test, in order."""

    def __init__(self, url: str, accepted: asyncio.Queue[ServerConnection]) -> None:
        self.url = url
        self._accepted = accepted

    async def accept(self) -> Conversation:
        """The next socket that was opened."""
        return Conversation(await self._accepted.get())


@asynccontextmanager
async def peer() -> AsyncIterator[Peer]:
    """A peer on a free port of the loopback."""
    accepted: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def hand_over(connection: ServerConnection) -> None:
        accepted.put_nowait(connection)
        await connection.wait_closed()

    async with serve(hand_over, "127.0.0.1", 0, compression=None, max_size=None, close_timeout=1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Peer(f"ws://127.0.0.1:{port}/resize", accepted)


class Pauses:
    """Stands in for the time between two connections: records it instead of waiting."""

    def __init__(self, chance: float = 1.0) -> None:
        self.asked: list[float] = []
        self._chance = chance

    async def __call__(self, seconds: float) -> None:
        """Takes no time."""
        self.asked.append(seconds)

    def outside(self) -> Outside:
        """The world with these pauses in it."""
        return Outside(pause=self, chance=lambda: self._chance)


def hello(max_message_bytes: int = 1_048_576) -> Message:
    """The server's answer to a hello."""
    return {
        "type": "hello",
        "protocol": 1,
        "queue": "resize",
        "leaseMs": LEASE_MS,
        "schemas": {"item": None, "progress": None, "result": None},
        "maxMessageBytes": max_message_bytes,
    }


def item(claim: Message, item_id: str = A, attempts: int = 1, **members: Any) -> Message:
    """The answer to a claim that matched."""
    return {
        "type": "item",
        "id": item_id,
        "item": {"width": 64},
        "attempts": attempts,
        "leaseUntil": 1_751_500_300_000,
        "leaseMs": LEASE_MS,
        "progress": None,
        "meta": None,
        "ref": claim["ref"],
        **members,
    }


def ack(report: Message, *, accepted: bool = True, status: str = "processing", **members: Any) -> Message:
    """The answer to a report; `reason` says why it is a refusal."""
    (verb,) = set(report) - {"ref"}
    lasting: dict[str, Message] = {
        "fail": {"dueAt": 1_751_500_300_000},
        "release": {"dueAt": 1_751_500_300_000},
        "renew": {"leaseUntil": 1_751_500_300_000, "leaseMs": LEASE_MS},
    }
    more = lasting.get(verb, {})
    if not accepted:
        more = more | dict.fromkeys(more.keys() & {"dueAt", "leaseUntil"}) | {"reason": "fence"}
    answer = {"type": f"{verb}-ack", "id": report[verb]["id"], "accepted": accepted, "status": status}
    return answer | more | {"ref": report["ref"]} | members


def resumed(resume: Message, *refused: str) -> Message:
    """The answer to a resume; the leases of the ids that are named have moved on."""
    leases = [
        {"id": lease["id"], "accepted": False, "status": "processing", "leaseUntil": None, "reason": "fence"}
        if lease["id"] in refused
        else {"id": lease["id"], "accepted": True, "status": "processing", "leaseUntil": 1_751_500_300_000}
        for lease in resume["resume"]["leases"]
    ]
    return {"type": "resume-ack", "leases": leases, "ref": resume["ref"]}


def error(message: Message, code: str, *errors: Message, item_id: str | None = None) -> Message:
    """The answer to a message that was refused."""
    return {"type": "error", "id": item_id, "code": code, "errors": list(errors), "ref": message["ref"]}


def posted(post: Message, item_id: str = A) -> Message:
    """The answer to a post."""
    return {"type": "posted", "id": item_id, "status": "pending", "duplicate": False, "ref": post["ref"]}


def status(item_id: str = A, state: str = "pending", rev: int = 1, **members: Any) -> Message:
    """The view of an item."""
    ended = state not in ("pending", "processing")
    return {
        "type": "status",
        "id": item_id,
        "status": state,
        "label": state,
        "rev": rev,
        "postedBy": None,
        "postedAt": 1_751_500_000_000,
        "updatedAt": 1_751_500_000_000 + rev,
        "dueAt": 1_751_500_000_000,
        "startedAt": None,
        "finishedAt": 1_751_500_000_000 + rev if ended else None,
        "expiresAt": None,
        "attempts": 1,
        "failures": 0,
        "losses": 0,
        "maxAttempts": 5,
        "worker": None,
        "priority": 0,
        "key": None,
        "meta": None,
        "progress": None,
        "result": None,
        "error": None,
        **members,
    }
