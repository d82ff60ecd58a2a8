"""A canary token and a canary ticket, given in every way that there is, are in nothing that Caddy writes."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from support.caddy import Caddy, caddy
from support.plain_http import exchange, request
from support.ports import free_port
from support.server import running_server

TICKET: Final = "CanaryTicketCanaryTicketCanaryTicketCanary0"
CLOSED: Final = '[queues.demo]\naccess = { post = ["alice"], fetch = ["alice"], work = ["alice"] }\n'
UPGRADE: Final = [
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 13",
]
BRIEF: Final = {"read_header 10s": "read_header 1s", "read_body 30s": "read_body 200ms", "idle 2m": "idle 100ms"}


def spelled(secret: str) -> Iterator[str]:
    """Ways to write a secret behind a path. What a server does with it is its affair; a log keeps none of them."""
    escaped = "".join(f"%{byte:02x}" for byte in secret.encode())
    for name in ("token", "ticket", "Token", "TICKET", "t%6fken", "%74%69%63%6b%65%74", "token%20", "to+ken", "tokens"):
        yield f"?{name}={secret}"
        yield f"?{name}={escaped}"
    for name in ("token", "ticket"):
        yield f"?{name}={secret}&{name}={secret}"
        yield f"?{name}=x&a=b;{name}={secret}"
        yield f"?waitMs=5&&{name}={secret}%zz"
        yield f"?{name}[]={secret}"
        yield f"?{name}%3D{secret}"
        yield f"%3F{name}={secret}"
        yield f"%3f{name}%3d{secret}"
        yield f";{name}={secret}"
        yield f"&{name}={secret}"
        yield f"#{name}={secret}"
        yield f"??{name}={secret}"
        yield f"?a=b?{name}={secret}"
        yield f"\\?{name}={secret}"
        yield f"?{quote(f'{name}={secret}', safe='')}"


def headers(secret: str) -> Iterator[list[str]]:
    """Headers in which it may travel."""
    for name in ("Authorization", "AUTHORIZATION", "Proxy-Authorization", "X-Token", "User-Agent", "Origin"):
        yield [f"{name}: Bearer {secret}"]
    yield [f"Cookie: token={secret}"]
    yield [f"Sec-WebSocket-Protocol: leaseway, {secret}"]
    for name in ("Referer", "Referrer", "X-Original-URL", "Location"):
        yield [f"{name}: https://task.example.com/demo/monitor?token={secret}"]
    yield [f"X-Forwarded-For: {secret}", f"Forwarded: for={secret}"]
    yield [f"token: {secret}", f"ticket: {secret}"]


def forms(secret: str) -> list[bytes]:
    """What must not be found: the secret, in lower case too, escaped, and in base 64; of each, a telling part."""
    part = secret[4:24]
    escaped = "".join(f"%{byte:02x}" for byte in part.encode())
    coded = base64.b64encode(secret.encode())[6:26].decode()
    return [form.lower().encode() for form in (part, escaped, coded)]


def everywhere(host: str, secret: str) -> Iterator[bytes]:
    """Requests and handshakes with the secret in each spelling and header, and with each kind of mistake."""
    for spelling in spelled(secret):
        yield handshake(f"/demo/work{spelling}", host)
        yield request(f"GET /demo/items/0123456789abcdef{spelling}", host)
    for name in ("token", "ticket"):
        for path in ("/demo/monitor", "/nobody/work"):
            yield handshake(f"{path}?{name}={secret}", host)
        for path in ("/_metrics", "/_ready", "/", "/nowhere/at/all", f"//{host}/demo/work", f"http://{host}/demo/work"):
            yield request(f"GET {path}?{name}={secret}", host)
    for lines in headers(secret):
        yield handshake("/demo/work", host, *lines)
        yield request("POST /demo/items", host, "Content-Length: 2", *lines, body=b"{}")
    target = f"/demo/items?token={secret}"
    yield request(f"POST {target}", host, "Content-Length: 9999999")
    yield request(f"POST {target}", host, "Transfer-Encoding: x")
    yield request(f"POST {target}", "elsewhere.example")
    yield request(f"GET {target}", host, "X: " + "a" * 30_000)
    yield request(f"GET {target} {secret}", host)
    yield request(f"OPTIONS {target}", host)
    yield request(f"POST {target}", host, "Transfer-Encoding: chunked", body=f"{secret}\r\n".encode())


def handshake(target: str, host: str, *lines: str) -> bytes:
    """A handshake, and the close frame of a client that leaves at once."""
    return request(f"GET {target}", host, *UPGRADE, *lines, close=False) + b"\x88\x80\0\0\0\0"


async def say_everywhere(proxy: Caddy, secret: str) -> set[int]:
    """Says it in all ways. Gives the statuses that it met, once Caddy has logged what it was said in."""
    answers = await asyncio.gather(*(exchange(proxy.port, data) for data in everywhere(proxy.host, secret)))
    seen: set[str] = set()
    while not {"/demo/work", "/demo/items/0123456789abcdef"} <= seen:  # They are logged in any order.
        answered = False
        while not answered:  # What is cut before it is answered is in no log.
            answered = bool((await exchange(proxy.port, request("GET /the/last/one", proxy.host))).statuses)
        seen |= {access["request"]["uri"] for access in await proxy.accesses_until("/the/last/one")}
    return {status for answer in answers for status in answer.statuses}


def found(secret: str, written: bytes) -> list[bytes]:
    """The forms of the secret that are in what was written."""
    return [form for form in forms(secret) if form in written.lower()]


async def test_no_token_and_no_ticket_in_anything_that_caddy_writes(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, CLOSED, users={"alice": []}) as server,
        caddy(tmp_path / "caddy", server.base_url, BRIEF) as proxy,
    ):
        for secret in (server.tokens["alice"], TICKET):
            statuses = await say_everywhere(proxy, secret)
            assert {101, 400, 401, 404, 431, 501} <= statuses
            assert found(secret, proxy.written()) == []


async def test_neither_when_the_server_fails(tmp_path: Path) -> None:
    """It is ready and then hangs up on each request (502); or it is not there at all (503)."""
    async with hanging_up() as upstream, caddy(tmp_path / "502", upstream, BRIEF) as proxy:
        assert 502 in await say_everywhere(proxy, TICKET)
        assert b'"http.log.error"' in proxy.output
        assert found(TICKET, proxy.written()) == []
    async with caddy(tmp_path / "503", f"http://127.0.0.1:{free_port()}", BRIEF) as proxy:
        await proxy.said(b"connection refused")
        assert 503 in await say_everywhere(proxy, TICKET)
        assert found(TICKET, proxy.written()) == []


async def test_neither_where_plain_http_is_sent_to_tls(tmp_path: Path) -> None:
    async with hanging_up() as upstream, caddy(tmp_path, upstream, tls=True) as proxy:
        for spelling in spelled(TICKET):
            answer = await exchange(proxy.http_port, request(f"GET /demo/work{spelling}", "localhost"))
            assert answer.status in (308, 400)
        await proxy.stop()
        assert found(TICKET, proxy.written()) == []


@pytest.mark.parametrize("line", ["request>uri regexp", "request>headers delete"])
async def test_without_a_line_of_the_filter_it_would_be_there(tmp_path: Path, line: str) -> None:
    async with hanging_up() as upstream, caddy(tmp_path, upstream, BRIEF | {line: "other " + line.split()[1]}) as proxy:
        for lines in headers(TICKET):
            await exchange(proxy.port, request(f"GET /the/last/one?token={TICKET}", proxy.host, *lines))
        await proxy.stop()
        assert found(TICKET, proxy.written()) != []


@asynccontextmanager
async def hanging_up() -> AsyncIterator[str]:
    """A server that is ready, and leaves without an answer whenever it is asked for something else; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /_ready "):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()
