"""The load: a producer that posts on lanes and waits for each end, and a worker that answers at once.

They speak the protocol by hand, so that what is measured is the server and not a client library. Nothing is timed here
but the lanes.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from websockets.asyncio.client import ClientConnection

QUEUE: Final = "bench"
ITEM: Final = {"image": "x" * 90, "format": "png", "width": 320}
RESULT: Final = {"image": "y" * 30, "width": 320, "height": 200}
_CLAIM: Final = json.dumps({"claim": {"waitMs": 60_000}})
_FORGET: Final = 1_000
"""So many subscriptions are taken back at a time: a socket may hold 10,000."""

Post = Callable[[], Awaitable[str]]
"""Posts an item and gives its id."""


class HttpDoor:
    """One connection over which bodies are posted, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "HttpDoor":
        """To a port of loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, body: bytes) -> Any:
        """Posts to the queue's items, and gives what is answered."""
        head = f"POST /{QUEUE}/items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return json.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()


class Producer:
    """Posts on the monitor socket, or over HTTP at `port`, and learns each end by its push."""

    def __init__(self, socket: ClientConnection, port: int = 0) -> None:
        self._socket = socket
        self._port = port
        self._posted: dict[int, asyncio.Future[str]] = {}
        self._ended: dict[str, asyncio.Future[None]] = {}
        self._early: set[str] = set()
        self._refs = count()
        self._done: list[str] = []

    async def lane(self, latencies: list[float], items: int) -> None:
        """Posts one item after another, each when the one before has ended."""
        if not self._port:
            await self._drive(self._on_the_socket, latencies, items)
            return
        door = await HttpDoor.open(self._port)
        body = json.dumps({"item": ITEM}).encode()

        async def post() -> str:
            item_id = str((await door.post(body))["id"])
            await self._socket.send(json.dumps({"subscribe": [item_id]}))
            return item_id

        await self._drive(post, latencies, items)
        door.close()

    async def _drive(self, post: Post, latencies: list[float], items: int) -> None:
        for _ in range(items):
            started = time.perf_counter()
            item_id = await post()
            if item_id not in self._early:
                ended = self._ended[item_id] = asyncio.get_running_loop().create_future()
                await ended
            latencies.append(time.perf_counter() - started)
            await self._forget(item_id)

    async def _forget(self, item_id: str) -> None:
        self._done.append(item_id)
        if len(self._done) == _FORGET:
            done, self._done = self._done, []
            await self._socket.send(json.dumps({"unsubscribe": done}))

    async def _on_the_socket(self) -> str:
        ref = next(self._refs)
        posted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posted[ref] = posted
        await self._socket.send(json.dumps({"post": {"item": ITEM, "subscribe": True}, "ref": ref}))
        return await posted

    async def listen(self) -> None:
        """Reads what the server says, until cancelled."""
        async for frame in self._socket:
            for message in flatten(json.loads(frame)):
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "posted":
            self._posted.pop(message["ref"]).set_result(message["id"])
        elif message["type"] == "status" and message["status"] == "finished":
            ended = self._ended.pop(message["id"], None)
            if ended is None:
                self._early.add(message["id"])
            else:
                ended.set_result(None)


async def work(socket: ClientConnection, places: int) -> None:
    """A worker with so many places: a waiting claim for each, a result for each item."""
    for _ in range(places):
        await socket.send(_CLAIM)
    async for frame in socket:
        message = json.loads(frame)
        replies = [reply for each in flatten(message) if (reply := _reply(each))]
        if len(replies) > 1 and message["type"] == "batch":
            await socket.send(f'{{"batch": [{",".join(replies)}]}}')
        else:
            for reply in replies:
                await socket.send(reply)


def _reply(message: dict[str, Any]) -> str | None:
    if message["type"] == "item":
        return json.dumps({"result": {"id": message["id"], "value": RESULT, "attempts": message["attempts"]}})
    return _CLAIM if message["type"] == "result-ack" else None


def flatten(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages in a message: a `batch` holds several."""
    return message["messages"] if message["type"] == "batch" else [message]
