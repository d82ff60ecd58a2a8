"""A worker against the scripted peer: how it is made, how it works beside a test, its first claim answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from client.scripted_peer import A, Conversation, Message, Pauses, Peer, item
from leaseway import Worker


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """A worker that works while the block does."""
    task = asyncio.create_task(worker.work())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def made(server: Peer, concurrency: int = 1, grace: float = 30.0) -> Worker:
    """A worker for the peer that takes no time between two connections."""
    return Worker(server.url, name="box", concurrency=concurrency, grace=grace, outside=Pauses().outside())


async def claimed(server: Peer, item_id: str = A, **members: Any) -> tuple[Conversation, Message]:
    """The next socket, greeted, its claim answered with an item; the claim too."""
    socket = await server.accept()
    await socket.greet()
    claim = await socket.expect("claim")
    await socket.say(item(claim, item_id, **members))
    return socket, claim
