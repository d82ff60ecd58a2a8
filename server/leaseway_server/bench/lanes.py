"""The load: a producer that posts on lanes and waits for each end, and a worker that answers at once.

They speak the protocol by hand, so that what is measured is the server and not a client library. Nothing is timed here
but the lanes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

import orjson

from leaseway_server.bench.http_line import HttpLine
from leaseway_server.bench.wire import Wire

ITEM: Final = {"image": "x" * 90, "format": "png", "width": 320}
RESULT: Final = {"image": "y" * 30, "width": 320, "height": 200}
_POST: Final = orjson.dumps({"post": {"item": ITEM, "subscribe": True}})[:-1]
_CLAIM: Final = orjson.dumps({"claim": {"waitMs": 60_000}})
_RESULT: Final = orjson.dumps(RESULT)
_FORGET: Final = 1_000
"""So many subscriptions are taken back at a time: a socket may hold 10,000."""

Post = Callable[[], Awaitable[str]]
"""Posts an item and gives its id."""


class Producer:
    """Posts on the monitor socket, or over HTTP at `port`, and learns each end by its push."""

    def __init__(self, socket: Wire, port: int = 0) -> None:
        self._socket = socket
        socket.listen(self._hear)
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
        line = await HttpLine.open(self._port)
        body = orjson.dumps({"item": ITEM})

        async def post() -> str:
            item_id = str((await line.ask("POST", "/items", body))["id"])
            self._socket.send(orjson.dumps({"subscribe": [item_id]}))
            return item_id

        await self._drive(post, latencies, items)
        line.close()

    async def _drive(self, post: Post, latencies: list[float], items: int) -> None:
        for _ in range(items):
            started = time.perf_counter()
            item_id = await post()
            if item_id not in self._early:
                ended = self._ended[item_id] = asyncio.get_running_loop().create_future()
                await ended
            latencies.append(time.perf_counter() - started)
            self._forget(item_id)

    def _forget(self, item_id: str) -> None:
        self._done.append(item_id)
        if len(self._done) == _FORGET:
            done, self._done = self._done, []
            self._socket.send(orjson.dumps({"unsubscribe": done}))

    async def _on_the_socket(self) -> str:
        ref = next(self._refs)
        posted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posted[ref] = posted
        self._socket.send(b'%b,"ref":%d}' % (_POST, ref))
        return await posted

    def _hear(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            for each in flatten(message):
                self._take(each)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "posted":
            self._posted.pop(message["ref"]).set_result(message["id"])
        elif message["type"] == "status" and message["status"] == "finished":
            ended = self._ended.pop(message["id"], None)
            if ended is None:
                self._early.add(message["id"])
            else:
                ended.set_result(None)


class Worker:
    """A worker with so many places: a waiting claim for each, a result for each item; with `batch` in batches."""

    def __init__(self, socket: Wire, places: int, *, batch: bool) -> None:
        self._socket = socket
        self._batch = batch
        socket.listen(self._hear)
        for _ in range(places):
            socket.send(_CLAIM)

    def _hear(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            replies = [reply for each in flatten(message) if (reply := _reply(each))]
            if self._batch and len(replies) > 1:
                self._socket.send(b'{"batch":[%b]}' % b",".join(replies))
            else:
                for reply in replies:
                    self._socket.send(reply)


def _reply(message: dict[str, Any]) -> bytes | None:
    if message["type"] == "item":
        item_id, attempts = message["id"].encode(), message["attempts"]
        return b'{"result":{"id":"%b","value":%b,"attempts":%d}}' % (item_id, _RESULT, attempts)
    return _CLAIM if message["type"] == "result-ack" else None


def flatten(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages in a message: a `batch` holds several."""
    return message["messages"] if message["type"] == "batch" else [message]
