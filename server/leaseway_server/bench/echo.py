"""The bare echo beside which the whole way is measured: the same uvicorn, the same protocol class, no application.

Run as a module; it serves on a free port until a signal.
"""

import asyncio
import socket
import sys

import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from leaseway_server.web.protocol import SocketProtocol


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends back what comes."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


if __name__ == "__main__":
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    sys.stderr.write(f"serving http://127.0.0.1:{listener.getsockname()[1]}/\n")
    config = uvicorn.Config(
        echo, http="httptools", ws=SocketProtocol, ws_per_message_deflate=False, lifespan="off", log_config=None
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve([listener]))
