"""What Caddy lets through to the server of requests that are crooked, slow, too large or lie about who sends them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from support.caddy import Caddy, caddy
from support.plain_http import exchange, request
from support.server import running_server
from support.upstream import Recorder, recorder

JSON = "Content-Type: application/json"
POST = "POST /demo/items"
BRIEF = {"read_header 10s": "read_header 200ms", "read_body 30s": "read_body 300ms", "idle 2m": "idle 30ms"}


# ── Smuggling ──

HOST = "HOST"
ONE = b'{"item":"one"}'
"""The item of the request that may be let through."""
HIDDEN = (
    b"POST /demo/items HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
    b'{"item":"hidden!"}'
)
"""A request that is to pass as a part of another one's body."""
CHUNKED = b"e\r\n" + ONE + b"\r\n0\r\n\r\n"


def crooked(*headers: str, body: bytes, line: str = f"{POST} HTTP/1.1", end: str = "\r\n") -> bytes:
    """A post with these lines of header, and what is to be smuggled with it behind its body."""
    return end.join([line, f"Host: {HOST}", JSON, *headers, "", ""]).encode("latin-1") + body


TRICKS = {
    "length-and-chunks": crooked("Content-Length: 14", "Transfer-Encoding: chunked", body=CHUNKED + HIDDEN),
    "length-over-chunks": crooked("Content-Length: 300", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    "chunks-and-length": crooked("Transfer-Encoding: chunked", "Content-Length: 4", body=CHUNKED + HIDDEN),
    "two-lengths": crooked("Content-Length: 14", "Content-Length: 0", body=ONE + HIDDEN),
    "two-equal-lengths": crooked("Content-Length: 14", "Content-Length: 14", body=ONE),
    "length-list": crooked("Content-Length: 14, 0", body=ONE + HIDDEN),
    "length-plus": crooked("Content-Length: +14", body=ONE + HIDDEN),
    "length-minus": crooked("Content-Length: -1", body=ONE + HIDDEN),
    "length-hex": crooked("Content-Length: 0xe", body=ONE + HIDDEN),
    "length-huge": crooked("Content-Length: 18446744073709551630", body=ONE + HIDDEN),
    "length-space-before-colon": crooked("Content-Length : 14", body=ONE + HIDDEN),
    "length-underscore": crooked("Content_Length: 14", body=HIDDEN),
    "length-nul": crooked("Content-Length: 14\0", body=ONE + HIDDEN),
    "xchunked": crooked("Transfer-Encoding: xchunked", body=CHUNKED + HIDDEN),
    "chunked-twice": crooked("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=CHUNKED + HIDDEN),
    "chunked-identity": crooked("Transfer-Encoding: chunked, identity", body=CHUNKED + HIDDEN),
    "identity-chunked": crooked("Transfer-Encoding: identity, chunked", body=CHUNKED + HIDDEN),
    "chunked-gzip": crooked("Transfer-Encoding: gzip, chunked", body=CHUNKED + HIDDEN),
    "chunked-upper-case": crooked("Transfer-Encoding: CHUNKED", body=CHUNKED),
    "chunked-tab": crooked("Transfer-Encoding:\tchunked", "Content-Length: 0", body=CHUNKED + HIDDEN),
    "chunked-vertical-tab": crooked("Transfer-Encoding: \x0bchunked", "Content-Length: 14", body=ONE + HIDDEN),
    "chunked-quoted": crooked('Transfer-Encoding: "chunked"', "Content-Length: 14", body=ONE + HIDDEN),
    "chunked-folded": crooked("Transfer-Encoding:\r\n chunked", "Content-Length: 14", body=CHUNKED + HIDDEN),
    "folded": crooked("X: a\r\n\tContent-Length: 0", "Content-Length: 14", body=ONE + HIDDEN),
    "hidden-by-bare-cr": crooked("X: a\rContent-Length: 0", "Content-Length: 14", body=ONE + HIDDEN),
    "bare-lf-head": crooked("Content-Length: 14", body=ONE, end="\n"),
    "bare-lf-header": crooked("X: a\nTransfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN),
    "bare-lf-chunk": crooked("Transfer-Encoding: chunked", body=b"e\n" + ONE + b"\n0\n\n" + HIDDEN),
    "chunk-extension": crooked("Transfer-Encoding: chunked", body=b'e;a=b;c="d"\r\n' + ONE + b"\r\n0;x\r\n\r\n"),
    "chunk-extension-lf": crooked("Transfer-Encoding: chunked", body=b"e;\nxx\r\n" + ONE + b"\r\n0\r\n\r\n" + HIDDEN),
    "chunk-extension-endless": crooked("Transfer-Encoding: chunked", body=b"e;" + b"a" * 70_000 + b"\r\n" + CHUNKED),
    "chunk-size-0x": crooked("Transfer-Encoding: chunked", body=b"0xe\r\n" + ONE + b"\r\n0\r\n\r\n" + HIDDEN),
    "chunk-size-minus": crooked("Transfer-Encoding: chunked", body=b"-e\r\n" + ONE + b"\r\n0\r\n\r\n" + HIDDEN),
    "chunk-size-huge": crooked("Transfer-Encoding: chunked", body=b"1000000000000000e\r\n" + ONE + b"\r\n" + HIDDEN),
    "chunk-longer-than-said": crooked("Transfer-Encoding: chunked", body=b"2\r\n" + ONE + b"\r\n0\r\n\r\n" + HIDDEN),
    "trailer": crooked("Transfer-Encoding: chunked", "Trailer: X", body=CHUNKED[:-2] + b"Content-Length: 9\r\n\r\n"),
    "upgrade-h2c": crooked("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "Content-Length: 14", body=ONE),
    "length-is-hop-by-hop": crooked("Connection: close, Content-Length", "Content-Length: 14", body=ONE),
    "old-with-chunks": crooked("Transfer-Encoding: chunked", body=CHUNKED + HIDDEN, line=f"{POST} HTTP/1.0"),
    "two-hosts": crooked("Host: other", "Content-Length: 14", body=ONE),
    "target-with-a-line": crooked("Content-Length: 14", body=ONE, line=f"{POST}?\r\nX: y HTTP/1.1"),
    "name-with-a-space": crooked("Content-Length: 14", "X Y: z", body=ONE + HIDDEN),
    "no-name": crooked("Content-Length: 14", ": z", body=ONE + HIDDEN),
    "space-before-first": crooked("Content-Length: 14", body=ONE, line=f"{POST} HTTP/1.1\r\n X: y"),
    "version": crooked("Content-Length: 14", body=ONE, line=f"{POST} HTTP/1.9"),
}


async def all_items(server_url: str) -> list[Any]:
    """The items of the queue `demo`, which has none then."""
    async with httpx.AsyncClient() as http:
        claimed = (await http.post(f"{server_url}/demo/claim", json={"count": 100})).json()
    return [message["item"] for message in claimed if message["type"] == "item"]


async def test_a_crooked_request_ends_in_one_or_none(tmp_path: Path) -> None:
    """It says that it is the last one of its connection, so whatever else comes to the server was smuggled."""
    async with running_server(tmp_path) as server, caddy(tmp_path, server.base_url, BRIEF) as proxy:
        for name, data in TRICKS.items():
            last = data.replace(b"\nContent-Type", b"\nConnection: close\r\nContent-Type", 1)
            answer = await exchange(proxy.port, last.replace(b"HOST", proxy.host.encode()))
            posted = await all_items(server.base_url)
            assert posted == ["one"] * answer.statuses.count(201), name
            assert len(answer.statuses) <= 1, name
            await the_next_is_answered(proxy, name)


async def test_no_request_comes_to_the_server_that_caddy_did_not_see(tmp_path: Path) -> None:
    """Where more may follow, Caddy may find a second request in what is hidden. Then it answers it, and logs it."""
    async with running_server(tmp_path) as server, caddy(tmp_path, server.base_url, BRIEF) as proxy:
        for name, data in TRICKS.items():
            answer = await exchange(proxy.port, data.replace(b"HOST", proxy.host.encode()))
            posted = await all_items(server.base_url)
            assert (name, len(posted)) == (name, answer.statuses.count(201))
            await the_next_is_answered(proxy, name)
            accesses = await proxy.accesses_until("/_health")
            assert (name, len(posted)) == (name, [access["status"] for access in accesses].count(201))


async def the_next_is_answered(proxy: Caddy, name: str) -> None:
    """Nothing is left over on a connection to the server: who comes next gets the answer to what it asked."""
    answer = await exchange(proxy.port, request("GET /_health", proxy.host))
    assert (name, answer.status, answer.data[-15:]) == (name, 200, b'{"status":"ok"}')


# ── Slow, and too large ──


@asynccontextmanager
async def recorded(folder: Path, changes: dict[str, str] | None = None) -> AsyncIterator[tuple[Caddy, Recorder]]:
    """Caddy before a server that records."""
    async with recorder() as upstream, caddy(folder, upstream.base_url, changes) as proxy:
        yield proxy, upstream


async def test_slow_headers_and_bodies_are_cut_in_time(tmp_path: Path) -> None:
    async with recorded(tmp_path, BRIEF) as (proxy, upstream):
        head = f"GET / HTTP/1.1\r\nHost: {proxy.host}\r\nX: ".encode()
        body = request(POST, proxy.host, JSON, "Content-Length: 1000")
        answers = await asyncio.gather(
            exchange(proxy.port, b""),
            exchange(proxy.port, head, drip=b"a" * 1000),
            exchange(proxy.port, body),
            exchange(proxy.port, body, drip=b"a" * 1000),
        )
        assert upstream.seen == []
    assert all(answer.status not in range(200, 400) for answer in answers)
    assert all(answer.seconds < 5 for answer in answers)


async def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    limit = 2 * 1024 * 1024
    async with recorded(tmp_path) as (proxy, upstream):
        for length, status in ((limit, 200), (limit + 1, 413)):
            data = request(POST, proxy.host, JSON, f"Content-Length: {length}", body=b"x" * length)
            assert (await exchange(proxy.port, data)).status == status
        chunks = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        data = request(POST, proxy.host, JSON, "Transfer-Encoding: chunked", body=chunks * 33 + b"0\r\n\r\n")
        assert (await exchange(proxy.port, data)).status == 413
        assert [len(seen.body) for seen in upstream.seen] == [limit]
        for headers in (["X: " + "a" * 30_000], ["X: a"] * 5_000):
            assert (await exchange(proxy.port, request("GET /demo/items/0", proxy.host, *headers))).status == 431
        assert len(upstream.seen) == 1


# ── Who sends it ──

FORGED = [
    ["X-Forwarded-For: 203.0.113.9"],
    ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10"],
    ["x-forwarded-for: 203.0.113.9, 127.0.0.1"],
    ["X-Forwarded-For: 203.0.113.9", "Connection: close, X-Forwarded-For"],
    ["Connection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host"],
    ["X_Forwarded_For: 203.0.113.9"],
    ["X-Forwarded-For: 203.0.113.9", "Upgrade: websocket", "Connection: Upgrade"],
    ["Forwarded: for=203.0.113.9", "X-Real-IP: 203.0.113.9"],
    ["X-Request-Id: mine"],
    ["X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example"],
]


async def test_nobody_says_that_they_are_another(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (proxy, upstream):
        for headers in FORGED:
            await exchange(proxy.port, request("GET /demo/items/0", proxy.host, *headers))
        await exchange(proxy.port, request("GET /the/last/one", proxy.host))
        logged = [access["request_id"] for access in await proxy.accesses_until("/the/last/one")]
    assert logged == [request_id for seen in upstream.seen for request_id in seen.all("x-request-id")]
    assert len(set(logged)) == len(upstream.seen) == len(FORGED) + 1
    for seen in upstream.seen:
        assert seen.all("x-forwarded-for") == ["127.0.0.1"], seen
        assert (seen.all("x-forwarded-proto"), seen.all("x-forwarded-host")) == (["http"], [proxy.host])
        assert (seen.all("forwarded"), seen.all("x-real-ip"), seen.all("host")) == ([], [], [proxy.host])


async def test_another_host_does_not_get_through(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (proxy, upstream):
        for host in ("evil.example", f"evil.example:{proxy.port}", ""):
            await exchange(proxy.port, request("GET /demo/items/0", host))
        assert upstream.seen == []
