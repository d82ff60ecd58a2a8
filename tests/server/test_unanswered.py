"""What a client says faster than it is done waits with the client, not in the server's memory (PROTOCOL.md §7.4)."""

import asyncio
import json
from pathlib import Path

import pytest

from leaseway_server.core.conversation import Exchange
from leaseway_server.web.socket import MOST_UNANSWERED_BYTES, Socket
from support.raw import TEXT, raw_socket
from support.server import running_server

POSTS = 60
SIZE = 800_000
READ_AT_ONCE = 1024 * 1024
"""One read of the transport, and what the library holds of a frame, may come on top."""


async def test_large_messages_are_read_as_fast_as_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    submit = Socket.submit

    def watched(self: Socket, exchange: Exchange) -> None:
        nonlocal most
        submit(self, exchange)
        most = max(most, self.session.unanswered)

    monkeypatch.setattr(Socket, "submit", watched)
    async with running_server(tmp_path) as server, raw_socket(f"{server.ws_url}/demo/monitor") as socket:

        async def say() -> None:
            for ref in range(POSTS):
                socket.frame(TEXT, json.dumps({"post": {"item": "x" * SIZE}, "ref": ref}).encode())
                await socket.writer.drain()

        saying = asyncio.create_task(say())
        heard = [(await socket.hear())["ref"] for _ in range(POSTS)]
        await saying
    assert heard == list(range(POSTS))
    assert SIZE < most <= MOST_UNANSWERED_BYTES + SIZE + READ_AT_ONCE
