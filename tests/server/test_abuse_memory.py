"""A connection that has ended is freed at once, with its buffers, and not when Python next looks for cycles.

That matters where each of many connections leaves a megabyte behind. How much memory abuses cost the whole process is
told by `test_abuse.py`.
"""

import asyncio
import gc
import json
from collections import Counter
from pathlib import Path

from leaseway_server.core.conversation import Conversation
from leaseway_server.web.http_protocol import HttpProtocol
from leaseway_server.web.protocol import SocketProtocol
from leaseway_server.web.socket import Socket
from support.matrix import Caller, Line
from support.raw import TEXT, raw_socket
from support.server import running_server

OURS = (SocketProtocol, HttpProtocol, Socket, Conversation)
LARGE = json.dumps({"result": {"id": "0123456789abcdef", "value": "x" * 900_000}}).encode()


async def test_closed_sockets_leave_no_cycles(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, Line(server.base_url) as line:
        gc.collect()
        gc.disable()
        try:
            for path in ("/demo/work", "/demo/monitor") * 5:
                async with raw_socket(server.ws_url + path) as socket:
                    socket.frame(TEXT, LARGE)
                    await socket.hear()
                    if path == "/demo/monitor":
                        socket.say({"subscribe": {"all": True}})
                        await socket.ask({"stats": True})
            site = server.running.site
            assert site is not None
            async with asyncio.timeout(10):
                while site.queues["demo"].sockets:  # Until the server has seen that they are gone.
                    await line.ask("GET", "/_health", Caller())
            for _ in range(20):  # What it has to do for their end is done soon after.
                await line.ask("GET", "/_health", Caller())
            left = Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, OURS))
        finally:
            gc.enable()
        assert left == {"HttpProtocol": 1}, "the connection that asks"
