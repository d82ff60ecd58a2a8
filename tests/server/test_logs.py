"""What a server writes while it serves: whose request it was, what failed, and no token (docs/logs.md)."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from leaseway_server.log import LogFormat
from leaseway_server.web.address import Networks
from leaseway_server.web.traced import Traced
from support.logged import logged
from support.process import server_process
from support.server import open_queue

TOKEN: Final = "lw_canary-that-sings"
LOOPBACK: Final = (ip_network("127.0.0.0/8"),)
OURS: Final = re.compile(r"[0-9a-f]{12}")
LINE: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error|critical) \S")


async def fine(_request: Request) -> Response:
    """Answers."""
    return Response("fine")


async def fails(request: Request) -> Response:
    """Does not, and has a token at hand."""
    raise RuntimeError(f"at {request.url}")


async def fails_late(websocket: WebSocket) -> None:
    """Opens, and fails at the first message."""
    await websocket.accept()
    raise RuntimeError(f"at {websocket.url}, {await websocket.receive_text()}")


@dataclass
class Trust:
    """Which proxies are trusted."""

    trusted_proxies: Networks


@asynccontextmanager
async def served(trusted: Networks = ()) -> AsyncIterator[str]:
    """The address of a server around these three."""
    app = Starlette(
        routes=[Route("/fine", fine), Route("/fails", fails, methods=["POST"]), WebSocketRoute("/socket", fails_late)]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        Traced(app, Trust(trusted)), ws="websockets-sansio", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


async def test_each_answer_has_a_request_id() -> None:
    async with served() as address, httpx.AsyncClient(base_url=f"http://{address}") as http:
        answers = [await http.get(path) for path in ("/fine", "/fine", "/missing", "/fails")]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 405]
    assert all(map(OURS.fullmatch, ids))
    assert len(set(ids)) == len(ids), "also where they come over one connection"


@pytest.mark.parametrize(("trusted", "taken"), [(LOOPBACK, True), ((), False)])
async def test_the_id_of_a_trusted_proxy_is_taken(trusted: Networks, taken: bool) -> None:
    async with served(trusted) as address, httpx.AsyncClient(base_url=f"http://{address}") as http:
        answer = await http.get("/fine", headers={"X-Request-Id": "from-the-proxy.1"})
    assert (answer.headers.get_list("x-request-id") == ["from-the-proxy.1"]) is taken


@pytest.mark.parametrize("log_format", ["json", "terminal"])
async def test_a_request_that_failed_is_told_once_with_its_id_and_without_its_token(log_format: LogFormat) -> None:
    with logged(log_format) as log:
        async with served() as address, httpx.AsyncClient(base_url=f"http://{address}") as http:
            answer = await http.post(f"/fails?token={TOKEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 500
    assert TOKEN not in answer.text
    said = log.getvalue()
    assert said.count("request.failed") == said.count("a request failed") == said.count("RuntimeError: ") == 1
    assert said.count(answer.headers["x-request-id"]) == 1
    _silent(said)
    if log_format == "json":
        entry = log.entry
        assert (entry["request"], entry["method"]) == (answer.headers["x-request-id"], "POST")
        assert "in fails" in entry["traceback"]


async def test_a_socket_that_failed_is_told_with_the_id_that_it_was_opened_with() -> None:
    with logged() as log:
        async with served() as address, connect(f"ws://{address}/socket?token={TOKEN}") as client:
            assert client.response is not None
            request_id = client.response.headers["X-Request-Id"]
            await client.send(TOKEN)
            with pytest.raises(ConnectionClosed):
                await client.recv()
            entry = await log.said("uvicorn.error")
    assert OURS.fullmatch(request_id)
    assert entry["request"] == request_id
    assert "in fails_late" in entry["traceback"]
    assert entry["traceback"].split("\n")[-1].startswith("RuntimeError: at ")
    _silent(log.getvalue())


async def test_requests_that_are_none_write_nothing() -> None:
    """Each would be a line that anybody can have written, without end."""
    with logged() as log:
        async with served() as address:
            for raw in (b"\x16\x03\x01\x02\x00", f"{TOKEN} / HTTP/1.1\r\n\r\n".encode(), b"GET / HTTP/9.9\r\n\r\n"):
                await _refused(address, raw)
    assert log.lines == []


async def test_every_line_of_a_server_has_the_same_form(tmp_path: Path) -> None:
    async with server_process(tmp_path, open_queue()) as server:
        await _refused(server.base_url.removeprefix("http://"), b"NONSENSE\r\n\r\n")
        async with httpx.AsyncClient(base_url=server.base_url) as http:
            assert (await http.get(f"/demo/items/1?token={TOKEN}")).status_code == 401
        assert (await server.stop()).status == 0
    lines = server.output.splitlines()
    assert len(lines) >= 3
    for line in lines:
        assert LINE.match(line), line
    _silent(server.output.decode())


async def _refused(address: str, raw: bytes) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw)
    writer.write_eof()
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()


def _silent(said: str) -> None:
    assert "canary" not in said
    assert "token=" not in said.replace("token=[struck]", "")
