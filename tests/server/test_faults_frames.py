"""What no decent WebSocket library says: each fault of the protocol below ours has its close code (PROTOCOL.md §6).

After each of them another socket works on, and the log tells of no fault of the server's own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.process import server_process
from support.raw import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    RawSocket,
    raw_socket,
    refused_handshake,
)
from support.server import TestServer, open_queue, running_server

LIMIT = 1_048_576


@pytest.fixture
async def server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[TestServer]:
    """A server that is fine before, and after."""
    async with running_server(tmp_path) as server, raw_socket(f"{server.ws_url}/demo/work") as bystander:
        yield server
        bystander.say({"claim": {}})
        assert await bystander.hear() == {"type": "empty"}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def in_two(opcode: int, data: bytes, at: int) -> Callable[[RawSocket], None]:
    def say(socket: RawSocket) -> None:
        socket.frame(opcode, data[:at], fin=False)
        socket.frame(CONT, data[at:])

    return say


def one(
    opcode: int, data: bytes = b"{}", *, fin: bool = True, mask: bool = True, bits: int = 0
) -> Callable[[RawSocket], None]:
    return lambda socket: socket.frame(opcode, data, fin=fin, mask=mask, bits=bits)


def text_within_a_text(socket: RawSocket) -> None:
    socket.frame(TEXT, b"{", fin=False)
    socket.frame(TEXT, b"}")


def endless_fragments(size: int, number: int) -> Callable[[RawSocket], None]:
    def say(socket: RawSocket) -> None:
        socket.frame(TEXT, b"{", fin=False)
        for _ in range(number):
            socket.frame(CONT, bytes(size), fin=False)

    return say


UMLAUT = "ä".encode()


FAULTS: dict[str, tuple[Callable[[RawSocket], None], int]] = {
    "binary": (one(BINARY), 1003),
    "binary in fragments": (in_two(BINARY, b"{}", 1), 1003),
    "no UTF-8": (one(TEXT, b'"\xff"'), 1007),
    "half a character": (one(TEXT, UMLAUT[:1]), 1007),
    "a surrogate": (one(TEXT, b'"\xed\xa0\x80"'), 1007),
    "no UTF-8, in the second fragment": (in_two(TEXT, b'"\xff"', 1), 1007),
    "no UTF-8, over two fragments": (in_two(TEXT, b'"' + UMLAUT[:1] + b'"', 2), 1007),
    "too large": (one(TEXT, b" " * (LIMIT + 1)), 1009),
    "too large in two": (in_two(TEXT, b" " * (LIMIT + 1), LIMIT // 2), 1009),
    "131,000 fragments of one byte": (endless_fragments(1, 131_000), 1008),
    "131,000 empty fragments": (endless_fragments(0, 131_000), 1008),
    "unmasked": (one(TEXT, mask=False), 1002),
    **{f"opcode {opcode}": (one(opcode), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    **{f"reserved bits {bits:03b}": (one(TEXT, bits=bits), 1002) for bits in (1, 2, 4, 7)},
    "the end of nothing": (one(CONT), 1002),
    "a text within a text": (text_within_a_text, 1002),
    "a large ping": (one(PING, bytes(126)), 1002),
    "half a ping": (one(PING, fin=False), 1002),
    "half a close code": (one(CLOSE, b"\x03"), 1002),
    **{
        f"close code {code}": (one(CLOSE, code.to_bytes(2)), 1002)
        for code in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000)
    },
}


@pytest.mark.protocol("0.12", "6.2")
@pytest.mark.parametrize("kind", ["work", "monitor"])
async def test_a_fault_of_the_frames_closes_the_socket(kind: str, server: TestServer) -> None:
    codes = {}
    for name, (say, _) in FAULTS.items():
        async with raw_socket(f"{server.ws_url}/demo/{kind}") as socket:
            say(socket)
            codes[name] = await socket.closed()
    assert codes == {name: code for name, (_, code) in FAULTS.items()}


@pytest.mark.parametrize("at", [1, 2])
async def test_a_text_in_fragments_is_one_message(at: int, server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/work") as socket:
        in_two(TEXT, '{"claim": {}, "ref": "ä"}'.encode(), at + 20)(socket)
        assert await socket.hear() == {"type": "empty", "ref": "ä"}


async def test_a_message_of_the_largest_size_is_taken(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/work") as socket:
        message = b'{"claim": {}}'
        socket.frame(TEXT, message + b" " * (LIMIT - len(message)))
        assert await socket.hear() == {"type": "empty"}


async def test_pings_are_answered_also_between_fragments(server: TestServer) -> None:
    async with raw_socket(f"{server.ws_url}/demo/work") as socket:
        socket.frame(TEXT, b'{"claim": ', fin=False)
        socket.frame(PING, b"there?")
        socket.frame(CONT, b"{}}")
        pong = await socket.next()
        assert (pong.opcode, pong.data) == (PONG, b"there?")
        assert await socket.hear() == {"type": "empty"}


async def test_compression_is_not_negotiated(server: TestServer) -> None:
    """So there is no bomb to unpack, before or after the token was looked at."""
    offer = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    answer = await refused_handshake(f"{server.ws_url}/demo/work", offer)
    assert answer.startswith("HTTP/1.1 101 ")
    assert "extensions" not in answer.lower()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Version": "8"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Connection": "Upgrade, keep-alive", "Sec-WebSocket-Version": "x"}, 400),
    ],
)
async def test_a_bad_handshake_is_refused(headers: dict[str, str], status: int, server: TestServer) -> None:
    answer = await refused_handshake(f"{server.ws_url}/demo/work", headers)
    assert answer.startswith(f"HTTP/1.1 {status} "), answer


async def test_who_closes_while_answers_are_under_way_leaves_no_trace(server: TestServer) -> None:
    for ending in ("close", "cut", "close and cut"):
        async with raw_socket(f"{server.ws_url}/demo/work") as socket:
            for _ in range(500):
                socket.say({"claim": {}})
            if "close" in ending:
                socket.frame(CLOSE, (1000).to_bytes(2))
            await socket.writer.drain()
            if "cut" in ending:
                socket.cut()
            else:
                assert await socket.closed() == 1000


async def test_a_flood_of_pings_costs_no_memory(tmp_path: Path) -> None:
    """15 MB of pings whose pongs nobody reads; others are served meanwhile."""
    assert await cost_of_flood(tmp_path, lambda socket: socket.frame(PING, bytes(125))) < 8 * 1024 * 1024


async def test_a_flood_of_claims_costs_a_bounded_memory(tmp_path: Path) -> None:
    """A client that never takes the answers to what it asks is closed; others are served meanwhile."""
    assert await cost_of_flood(tmp_path, lambda socket: socket.frame(TEXT, b'{"claim":{}}')) < 64 * 1024 * 1024


async def cost_of_flood(folder: Path, say: Callable[[RawSocket], None]) -> int:
    """The bytes that a server has more, after it was told so 120,000 times by a client that reads nothing."""
    async with server_process(folder, open_queue()) as server, raw_socket(f"{server.ws_url}/demo/work") as bystander:
        before = server.memory()
        async with raw_socket(f"{server.ws_url}/demo/work") as flood:
            flooding = asyncio.create_task(pour(flood, say))
            while not flooding.done():
                bystander.say({"claim": {}})
                assert await bystander.hear() == {"type": "empty"}
            await flooding
            bystander.say({"claim": {}})
            assert await bystander.hear() == {"type": "empty"}
            grown = server.memory() - before
    assert b"Traceback" not in server.output
    return grown


async def pour(socket: RawSocket, say: Callable[[RawSocket], None]) -> None:
    """Says very much, as far as it is taken."""
    for _ in range(120):
        for _ in range(1_000):
            say(socket)
        try:
            async with asyncio.timeout(10):
                await socket.writer.drain()
        except (ConnectionError, TimeoutError):
            return  # It is not taken any more.
