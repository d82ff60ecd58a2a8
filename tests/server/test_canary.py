"""A token is told to nobody (PROTOCOL.md §2): canaries post, watch and work, and go along with every kind of fault.

They come in the URL, in the header, as tickets and misspelt. Then all that anything wrote is searched for a part.

What was posted is searched for too: the log holds ids and no payloads. With Caddy in front: tests/end_to_end.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson
import pytest

from support.matrix import LIMITS, NONE, Line, bearer, encoded
from support.process import ServerProcess, server_process
from support.raw import BINARY, CLOSE, PATIENCE, TEXT, RawSocket, raw_socket

PART: Final = 8
"""Canaries are searched for in parts of so many characters: whatever tells 15 in a row is found."""
PAYLOAD: Final = "payload-" + secrets.token_hex(16)
TOML: Final = (
    LIMITS.replace("[server]\n", "[server]\nmax_message_bytes = 262_144\n")
    + '[queues.demo]\naccess = { post = "users", fetch = "users", work = ["box"], admin = [] }\n'
    + "[queues.closed]\naccess = { post = [], fetch = [], work = [] }\n"
)

FAULTY: Final = """
import runpy, sys
from leaseway_server.runtime.clock import Clock
def no_chance(self): raise RuntimeError("the dice are gone")
Clock.chance = no_chance
sys.argv = sys.argv[3:]
runpy.run_module("leaseway_server", run_name="__main__", alter_sys=True)
"""
"""Runs the server of the command line that follows, with a fault in the middle of handling each `fail`."""

# ── Requests ──

# `?` is where the canary stands in the URL (or nothing), `{h}` where it stands among the headers (or nothing).
UPGRADE: Final = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
CLOSES: Final = "Connection: close\r\n"
JSON: Final = "Content-Type: application/json\r\n"


def posted(path: str, body: str, headers: str = JSON) -> str:
    return (
        f"POST {path}? HTTP/1.1\r\nHost: x\r\n{{h}}{CLOSES}{headers}Content-Length: {len(body)}\r\n\r\n"
        + body.replace("{", "{{").replace("}", "}}")
    )


def got(path: str, headers: str = "", method: str = "GET") -> str:
    closes = "" if "Upgrade" in headers else CLOSES
    return f"{method} {path}? HTTP/1.1\r\nHost: x\r\n{{h}}{closes}{headers}\r\n"


REQUESTS: Final = {
    "a post": posted("/demo/items", f'{{"item": "{PAYLOAD}"}}'),
    "no JSON": posted("/demo/items", f'{{"item": "{PAYLOAD}'),
    "JSON that cannot be kept": posted("/demo/items", f'{{"item": ["{PAYLOAD}", 1e999]}}'),
    "deep JSON": posted("/demo/items", '{"item": ' + "[" * 100 + f'"{PAYLOAD}"' + "]" * 100 + "}"),
    "no post": posted("/demo/items", f'"{PAYLOAD}"'),
    "a wrong option": posted("/demo/items", f'{{"item": 1, "priority": "{PAYLOAD}"}}'),
    "a key": posted("/demo/items", f'{{"item": 1, "key": "{PAYLOAD}"}}'),
    "too large": posted("/demo/items", '{"item": "' + PAYLOAD * 8_000 + '"}'),
    "no media type": posted("/demo/items", "{}", ""),
    "another media type": posted("/demo/items", PAYLOAD, f"Content-Type: text/{PAYLOAD}\r\n"),
    "a bad length": posted("/demo/items", "{}", f"{JSON}Content-Length: {PAYLOAD}\r\n"),
    "two lengths": posted("/demo/items", "{}", f"{JSON}Transfer-Encoding: chunked\r\n"),
    "bad chunks": got("/demo/items", f"{JSON}Transfer-Encoding: chunked\r\n", method="POST") + "zz\r\n",
    "a body that is cut": got("/demo/items", f"{JSON}Content-Length: 99\r\n", method="POST") + PAYLOAD,
    "headers that are cut": "GET /demo/items/1? HTTP/1.1\r\nHost: x\r\n{h}X-More: ",
    "a line that is cut": "GET /demo/items/1?",
    "a bare newline": "GET /demo/items/1? HTTP/1.1\nHost: x\nConnection: close\n{h}\n",
    "a folded header": f"GET /demo/items/1? HTTP/1.1\r\nHost: x\r\n{CLOSES}{{h}} more\r\n\r\n",
    "no host": f"GET /demo/items/1? HTTP/1.1\r\n{CLOSES}{{h}}\r\n",
    "another version": f"GET /demo/items/1? HTTP/9.9\r\nHost: x\r\n{CLOSES}{{h}}\r\n",
    "HTTP/2": "PRI *? HTTP/2.0\r\n\r\nSM\r\n\r\n{h}",
    "too many headers": got("/demo/items/1", "X-Filling: x\r\n" * 5_000),
    "a header that is too long": got("/demo/items/1", f"X-Filling: {'x' * 100_000}\r\n"),
    "an unknown item": got("/demo/items/1"),
    "an item's body": got(f"/demo/items/{NONE}/item"),
    "a wrong wait": got("/demo/items/1").replace("?", f"?&waitMs={PAYLOAD}", 1),
    "another's queue": got("/closed/items/1"),
    "no queue": got("/nowhere/items/1"),
    "no path": got("/demo/else"),
    "a slash too many": got("/demo/items/1/"),
    "another slash too many": posted("/demo/items/", "{}"),
    "an empty segment": got("//demo//items/1"),
    "another method": got("/demo/items", method="PATCH"),
    "no method": got("/demo/items", method="G\u00e4T"),
    "HEAD": got("/demo/items/1", method="HEAD"),
    "OPTIONS": got("/demo/items", "Access-Control-Request-Method: POST\r\n", method="OPTIONS"),
    "another origin": got("/demo/items/1", "Origin: https://evil.example\r\n"),
    "the page": got("/"),
    "its script": got("/_pages/dashboard/main.js"),
    "no file of the page": got("/_pages/else.js"),
    "health": got("/_health"),
    "metrics": got("/_metrics"),
    "a ticket": posted("/demo/tickets", "{}"),
    "cancel": posted(f"/demo/items/{NONE}/cancel", "{}"),
    "a claim": posted("/demo/claim", "{}"),
    "bad criteria": posted("/demo/claim", f'{{"criteria": {{"$x": "{PAYLOAD}"}}}}'),
    "a result of nothing": posted("/demo/result", f'{{"id": "{NONE}", "value": "{PAYLOAD}"}}'),
    "a bad result": posted("/demo/result", f'{{"value": "{PAYLOAD}"}}'),
    "a fault of the server": posted("/demo/fail", f'{{"id": "{NONE}", "error": {{"message": "{PAYLOAD}"}}}}'),
    "a handshake for no socket": got("/demo/else", UPGRADE),
    "a handshake of another version": got("/demo/work", UPGRADE.replace(": 13", ": 12")),
    "a handshake without a key": got("/demo/work", UPGRADE.replace("Sec-WebSocket-Key", "X-Key")),
    "a handshake with a bad key": got("/demo/work", UPGRADE.replace("AAAA", "?", 1)),
    "a handshake that posts": got("/demo/work", UPGRADE, method="POST"),
    "a handshake that is too long": got("/demo/work", UPGRADE + f"X-Filling: {'x' * 20_000}\r\n"),
    "a handshake with too much in it": got("/demo/work", UPGRADE + "X-Filling: x\r\n" * 500),
    "another upgrade": got("/demo/work", "Upgrade: h2c\r\nConnection: Upgrade, close\r\n"),
}

CUT: Final = frozenset(name for name in REQUESTS if name.endswith((" that is cut", " that are cut")))
"""The client leaves in the middle of these."""


def carriers(token: str) -> list[tuple[str, str]]:
    """What stands in the URL and among the headers: ways to send a token, right and wrong."""
    header = bearer(token).headers[0] + "\r\n"
    return [
        (f"?token={token}", ""),
        ("", header),
        (f"?token={token}&token=x", header),
        (f"?token={encoded(token)}", ""),
        (f"?ticket={token}", ""),
        (f"?Token={token}", f"Authorization: Basic {token}\r\n"),
        (f"?t%6fken={token}", f"Authorization: {token}\r\n"),
        (f"?token={token}%0a", f"Cookie: token={token}\r\n"),
        (f"?token={token}\x01", f"Authorization: Bearer {token}\x01\r\n"),
        (f"?token={token}\u00ff", f"Authorization: Bearer {token}\u00ff\r\n"),
        (f"?x=%zz&token={token}#token={token}", f"Sec-WebSocket-Protocol: {token}\r\n"),
        (f"{token}?token={token}", f"Referer: http://x/?token={token}\r\n"),
    ]


class Heard:
    """All that the server ever answered, to anybody."""

    def __init__(self, server: ServerProcess) -> None:
        self.everything = bytearray()
        self._server = server

    async def request(self, request: str, *, cut: bool) -> None:
        """Says this on a connection of its own, and takes what comes until the server ends it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self._server.base_url.rpartition(":")[2]))
        try:
            writer.write(request.encode("latin-1"))
            if cut:
                with suppress(OSError):  # It ended the connection already.
                    writer.write_eof()
            await self._rest(reader)
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def socket(self, path: str, query: str, headers: str) -> AsyncIterator[RawSocket]:
        """A socket; what was not read of it is taken at the end."""
        named = dict(line.split(": ", 1) for line in headers.strip().split("\r\n")) if headers else {}
        async with raw_socket(f"{self._server.ws_url}{path}{query}", named) as socket:
            yield socket
            socket.frame(CLOSE)
            await self._rest(socket.reader)

    async def _rest(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):  # It was cut in the middle of what it had to say.
            async with asyncio.timeout(PATIENCE):
                while chunk := await reader.read(65_536):
                    self.everything += chunk


# ── Sockets ──


async def hear(socket: RawSocket, heard: Heard) -> Any:
    frame = await socket.next()
    heard.everything += frame.data
    return orjson.loads(frame.data)


async def misbehave(socket: RawSocket, heard: Heard, token: str) -> None:
    """Each kind of bad message; each is answered, and the socket stays."""
    for text in (
        f'{{"claim": "{token}',
        f'{{"{token}": 1}}',
        f'{{"claim": {{}}, "result": "{token}"}}',
        f'{{"result": {{"id": "{token}", "value": 1e999}}}}',
        f'{{"claim": {{"worker": ["{token}"]}}}}',
        f'{{"claim": {{"criteria": {{"$x": "{token}"}}}}}}',
        f'["{token}"]',
    ):
        socket.frame(TEXT, text.encode())
        assert (await hear(socket, heard))["type"] == "error"


def flood(socket: RawSocket, token: str) -> None:
    for _ in range(100):
        socket.frame(TEXT, token.encode())


ENDS: Final[dict[str, Callable[[RawSocket, str], None]]] = {
    "binary": lambda socket, token: socket.frame(BINARY, token.encode()),
    "too large": lambda socket, token: socket.frame(TEXT, token.encode() * 10_000),
    "no UTF-8": lambda socket, token: socket.frame(TEXT, token.encode() + b"\xff"),
    "not masked": lambda socket, token: socket.frame(TEXT, token.encode(), mask=False),
    "reserved bits": lambda socket, token: socket.frame(TEXT, token.encode(), bits=7),
    "an unknown opcode": lambda socket, token: socket.frame(5, token.encode()),
    "a close with a text": lambda socket, _: socket.frame(CLOSE, b"\x03\xe8" + PAYLOAD.encode()),  # It is sent back.
    "a bad close": lambda socket, token: socket.frame(CLOSE, b"\x00\x01" + token.encode()),
    "a fault of the server": lambda socket, token: socket.say({"fail": {"id": NONE, "error": {"message": token}}}),
    "too many bad messages": flood,
}

Carry = Callable[[], Awaitable[tuple[str, str]]]


async def work(heard: Heard, carry: Carry) -> None:
    """An item is posted, watched, worked on and finished, each socket with a canary."""
    async with (
        heard.socket("/demo/monitor", *await carry()) as monitor,
        heard.socket("/demo/work", *await carry()) as worker,
    ):
        monitor.say({"post": {"item": PAYLOAD, "subscribe": True}})
        posted = await hear(monitor, heard)
        worker.say({"hello": {"worker": "box-1"}})
        assert (await hear(worker, heard))["type"] == "hello"
        while (item := await claimed(worker, heard))["id"] != posted["id"]:
            pass
        for verb, value in (("progress", PAYLOAD), ("result", PAYLOAD)):
            worker.say({verb: {"id": item["id"], "attempts": item["attempts"], "value": value}})
            assert (await hear(worker, heard))["accepted"]
        while (await hear(monitor, heard))["status"] != "finished":
            pass


async def claimed(worker: RawSocket, heard: Heard) -> Any:
    worker.say({"claim": {}})
    return await hear(worker, heard)


async def knock(heard: Heard, token: str, carry: Carry) -> None:
    """Sockets that end in every way, and those that are refused."""
    async with heard.socket("/demo/work", *await carry()) as socket:
        await misbehave(socket, heard, token)
    for end in ENDS.values():
        async with heard.socket("/demo/work", *await carry()) as socket:
            end(socket, token)
    for path in ("/closed/work", "/nowhere/monitor", f"/{token}/work"):
        async with heard.socket(path, *await carry()):
            pass


# ── The search ──


def parts_in(text: bytes, tokens: list[str]) -> list[str]:
    """What of a token is in there, as it is or percent-encoded."""
    texts = (text, unquote_to_bytes(text))
    parts = {token[at : at + PART] for token in tokens for at in range(0, len(token) - PART + 1, PART)}
    return [part for part in parts if any(part.encode() in text for text in texts)]


def test_the_search_finds_a_part_and_an_encoded_one() -> None:
    token = "lw_" + secrets.token_urlsafe(32)
    for told in (token, token[:PART], token[5:20], encoded(token), f"?token={token}%0a"):
        assert parts_in(b"GET /" + told.encode() + b" HTTP/1.1", [token])
    assert not parts_in(token.swapcase().encode(), [token])


@pytest.mark.protocol("2.6")
@pytest.mark.timeout(120)
async def test_no_part_of_a_token_is_anywhere(tmp_path: Path) -> None:
    unknown = "lw_" + secrets.token_urlsafe(32)
    async with server_process(tmp_path, TOML, (sys.executable, "-c", FAULTY)) as server:
        tokens = list(server.add_tokens({"box": [], "eve": ["fetch"]}).values())
        heard = Heard(server)
        tickets = []

        async def ticket() -> tuple[str, str]:
            async with Line(server.base_url) as line:
                answer = await line.ask("POST", "/demo/tickets", bearer(tokens[0]), {})
            tickets.append(str(answer.json["ticket"]))
            return f"?ticket={tickets[-1]}", ""

        async def in_the_url() -> tuple[str, str]:
            return carriers(tokens[0])[0]

        async def in_the_header() -> tuple[str, str]:
            return carriers(tokens[0])[1]

        ways: tuple[Carry, ...] = (in_the_url, in_the_header, ticket)
        for carry in ways:
            await work(heard, carry)
            await knock(heard, tokens[0], carry)
        for token in (*tokens, unknown):
            for query, header in carriers(token):
                for name, request in REQUESTS.items():
                    await heard.request(request.replace("?", query, 1).format(h=header), cut=name in CUT)
        await heard.request(
            got("/_metrics").replace("?", "").replace("Host: x", "Host: localhost").format(h=""), cut=False
        )
        running = {path.name: path.read_bytes() for path in server.data.iterdir()}
        assert (await server.stop()).status == 0
        stored = {path.name: path.read_bytes() for path in server.data.iterdir()}

    canaries = [*tokens, unknown, *tickets]
    assert b"the dice are gone" in server.output, "no fault was provoked"
    assert parts_in(server.output, canaries) == []
    assert PAYLOAD.encode() not in server.output
    metrics = bytes(heard.everything).partition(b"# HELP leaseway_")[2]
    assert b'leaseway_refused_total{code="unauthorized",kind="work"}' in metrics, "what was refused is counted there"
    assert PAYLOAD.encode() not in metrics
    assert parts_in(bytes(heard.everything), canaries) == []
    for files in (running, stored):
        assert {name: parts_in(text, canaries) for name, text in files.items()} == {name: [] for name in files}
    assert PAYLOAD.encode() in b"".join(stored.values()), "the search looks at the wrong files"
