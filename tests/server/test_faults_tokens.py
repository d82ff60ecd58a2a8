"""A token is told to nobody: not by the log, not by an answer, however a request is broken (PROTOCOL.md §2)."""

import asyncio
from pathlib import Path

from support.process import ServerProcess, server_process
from support.raw import PATIENCE, raw_socket

CANARY = b"lw_canary-that-sings"
UPGRADE = (
    b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
TOML = '[queues.demo]\naccess = { post = "users", fetch = "users", work = ["box"] }\n'

REQUESTS: dict[str, tuple[bytes, bytes]] = {
    "an unknown token": (b"GET /demo/items/1?token=TOKEN HTTP/1.1\r\nHost: x\r\n\r\n", b"401"),
    "the same in a header": (
        b"GET /demo/items/1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n",
        b"401",
    ),
    "two tokens": (b"GET /demo/items/1?token=TOKEN&token=x HTTP/1.1\r\nHost: x\r\n\r\n", b"401"),
    "no such path": (b"GET /demo/TOKEN?token=TOKEN HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
    "not this method": (b"PUT /demo/items?token=TOKEN HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
    "a socket with an unknown token": (b"GET /demo/work?token=TOKEN HTTP/1.1\r\n" + UPGRADE + b"\r\n", b"101"),
    "a socket that is none": (b"GET /demo/else?token=TOKEN HTTP/1.1\r\n" + UPGRADE + b"\r\n", b"403"),
    "a bad handshake": (
        b"GET /demo/work?token=TOKEN HTTP/1.1\r\n" + UPGRADE.replace(b": 13", b": 12") + b"\r\n",
        b"400",
    ),
    "a socket by another method": (b"POST /demo/work?token=TOKEN HTTP/1.1\r\n" + UPGRADE + b"\r\n", b"405"),
    "a handshake that is too long": (
        b"GET /demo/work?token=TOKEN&x=" + b"x" * 20_000 + b" HTTP/1.1\r\n" + UPGRADE + b"\r\n",
        b"400",
    ),
    "a handshake with too much in it": (
        b"GET /demo/work?token=TOKEN HTTP/1.1\r\n" + UPGRADE + b"A: TOKEN\r\n" * 500 + b"\r\n",
        b"400",
    ),
    "no ASCII": (b"GET /demo/work?token=TOKEN\xff HTTP/1.1\r\n" + UPGRADE + b"\r\n", b"400"),
    "no ASCII in the header": (
        b"GET /demo/work HTTP/1.1\r\n" + UPGRADE + b"Authorization: Bearer TOKEN\xff\r\n\r\n",
        b"101",
    ),
    "no HTTP": (b"TOKEN\r\n\r\n", b"400"),
    "a length that is none": (
        b"POST /demo/items?token=TOKEN HTTP/1.1\r\nHost: x\r\nContent-Length: TOKEN\r\n\r\n",
        b"400",
    ),
    "two lengths": (
        b"POST /demo/items?token=TOKEN HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        b"400",
    ),
}


async def answer(server: ServerProcess, request: bytes) -> bytes:
    """All that the server says to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.base_url.rpartition(":")[2]))
    writer.write(request.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n", 1 - (b"Upgrade" in request)))
    try:
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            return head if b" 101 " in head else head + await reader.read()
    finally:
        writer.transport.abort()


async def test_no_answer_and_no_line_of_the_log_holds_a_token(tmp_path: Path) -> None:
    async with server_process(tmp_path, TOML) as server:
        secret = server.add_tokens({"box": []})["box"].encode()
        for token in (CANARY, secret):
            for name, (request, status) in REQUESTS.items():
                said = await answer(server, request.replace(b"TOKEN", token))
                if token is CANARY:
                    assert said.split(b" ")[1] == status, (name, said)
                assert token not in said, name
        async with raw_socket(f"{server.ws_url}/demo/work?token={secret.decode()}") as socket:
            socket.say({"claim": {"worker": 1}})
            assert (await socket.hear())["code"] == "bad-message"
            socket.say({"no verb": secret.decode()})
            told = await socket.hear()
            assert secret.decode() not in str(told)
        async with raw_socket(f"{server.ws_url}/demo/monitor?token={CANARY.decode()}") as socket:
            assert await socket.closed() == 4401
        assert (await server.stop()).status == 0
        assert CANARY not in server.output
        assert secret not in server.output
        assert b"Traceback" not in server.output
        stored = b"".join(path.read_bytes() for path in server.data.iterdir())
    assert secret not in stored, "only the hash is kept"
