"""What a matrix is made of: the callers, bare HTTP that says exactly what it is told, and tables as text.

Knows nothing of who may do what: that is said by hand in the tests.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, get_args
from urllib.parse import quote, urlsplit

import orjson

from leaseway_server.core.access import Right
from leaseway_server.core.commands import Post, Posted
from leaseway_server.core.jsontext import Json
from leaseway_server.core.posting import parse_post
from support.raw import CLOSE, PATIENCE, PING, PONG, TEXT, RawSocket, handshake, raw_socket
from support.server import OPEN_ACCESS, TestServer, running_server
from support.tokens import TokenFile

NONE: Final = "0123456789abcdef"
"""An id that no item has."""
LIMITS: Final = "[server]\n[server.limits]\nfailed_tokens_per_minute = 1_000_000\n"
PUBLIC: Final = f"[queues.public]\naccess = {OPEN_ACCESS}\n"
ACCESS: Final = f"""
{LIMITS}
{PUBLIC}
[queues.drop]
access = {{ post = "open", fetch = "open", admin = ["root"] }}
[queues.members]
access = {{ admin = ["root"] }}
[queues.lists]
access = {{ post = ["poster"], fetch = ["reader"], work = ["worker"], admin = ["root"] }}
[queues.own]
visibility = "own"
access = {{ work = ["worker"], admin = ["root"] }}
"""
"""A queue of each kind. There is no queue `nowhere`."""
END: Final = "the end of the talk"
VARYING: Final = ("date", "x-request-id")
"""Headers that differ between any two answers."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A way to say who one is: what stands in the URL's query, and header lines."""

    query: str = ""
    headers: tuple[str, ...] = ()

    def at(self, target: str) -> str:
        """The target as this caller asks for it."""
        return target + ("&" if "?" in target else "?") + self.query if self.query else target

    @property
    def named_headers(self) -> dict[str, str]:
        """The headers by name."""
        return dict(line.split(": ", 1) for line in self.headers)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; `headers` in lower case, sorted, without those that always differ."""

    status: int
    headers: tuple[str, ...]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return orjson.loads(self.body)

    def header(self, name: str) -> str | None:
        """A header's value."""
        found = [line.partition(": ")[2] for line in self.headers if line.startswith(f"{name}: ")]
        assert len(found) < 2, found
        return found[0] if found else None


class Line:
    """A connection of bare HTTP/1.1 to `http://…`. Paths and headers go out as they are given, byte for byte."""

    def __init__(self, base_url: str) -> None:
        self._host = urlsplit(base_url).netloc
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.cut()

    async def ask(
        self, method: str, target: str, caller: Caller = Caller(), body: object = None, headers: Sequence[str] = ()
    ) -> Answer:
        """One request; `body` goes as JSON."""
        content = b"" if body is None else orjson.dumps(body)
        lines = [f"{method} {caller.at(target)} HTTP/1.1", f"Host: {self._host}", *caller.headers, *headers]
        if body is not None:
            lines += ["Content-Type: application/json"]
        lines += [f"Content-Length: {len(content)}"] if content or method in ("POST", "PATCH") else []
        return await self.say("\r\n".join([*lines, "", ""]).encode("latin-1") + content, head=method == "HEAD")

    async def say(self, request: bytes, *, head: bool = False) -> Answer:
        """These bytes, and the answer to them."""
        reader = await self.begin(request)
        async with asyncio.timeout(PATIENCE):
            return await self._answer(reader, head)

    async def begin(self, request: bytes) -> asyncio.StreamReader:
        """These bytes, and whatever will be answered."""
        if self._streams is not None and self._streams[0].at_eof():
            self.cut()  # It was idle for too long.
        if self._streams is None:
            host, _, port = self._host.partition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        reader, writer = self._streams
        writer.write(request)
        return reader

    async def _answer(self, reader: asyncio.StreamReader, head: bool) -> Answer:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        fields = dict(pairs)
        size = 0 if head else int(fields.get("content-length", 0))
        body = await (reader.readexactly(size) if "transfer-encoding" not in fields else reader.read())
        if fields.get("connection", "").lower() == "close":
            self.cut()
        kept = sorted(f"{name}: {value}" for name, value in pairs if name not in VARYING)
        return Answer(int(first.split()[1]), tuple(kept), body)

    def cut(self) -> None:
        """Ends the connection; the next request makes a new one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


@dataclass(frozen=True, slots=True)
class Closed:
    """How a socket was closed."""

    code: int
    reason: str


async def talk(ws_url: str, target: str, caller: Caller, messages: Sequence[object]) -> list[Any] | Closed:
    """Opens a socket, says all messages at once, and gives what was heard; or how the socket was closed instead."""
    async with raw_socket(ws_url + caller.at(target), caller.named_headers) as socket:
        for message in messages:
            socket.say(message)
        heard: list[Any] = []
        for _ in range(2):  # Views may leave behind the first answer; behind the second there is nothing any more.
            socket.say({"ref": END})
            while (frame := await socket.next()).opcode in (TEXT, PING, PONG):
                heard += [orjson.loads(frame.data)] if frame.opcode == TEXT else []
                if heard and heard[-1].get("ref") == END:
                    heard.pop()
                    break
            else:
                assert frame.opcode == CLOSE, frame
                return Closed(frame.close_code, frame.data[2:].decode())
        return heard


async def hasty(ws_url: str, target: str, caller: Caller, messages: Sequence[object]) -> int:
    """Says messages together with the handshake, whatever the answer will be. Gives the close code."""
    url = urlsplit(ws_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    socket = RawSocket(reader, writer)

    async def say() -> None:
        for message in messages:
            socket.say(message)

    try:
        await asyncio.gather(handshake(reader, writer, ws_url + caller.at(target), caller.named_headers), say())
        return await socket.closed()
    finally:
        socket.cut()


def rows(table: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A table as text: the first line names the columns; each further line is a row's name and its cells.

    `|` is only for the eye. Each row has as many cells as there are columns.
    """
    head, *lines = (line.replace("|", " ").split() for line in table.strip().splitlines() if line.strip())
    for name, *cells in lines:
        yield name, dict(zip(head[1:], cells, strict=True))


# ── The callers ──


def encoded(text: str) -> str:
    """Each character as %xx."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


def bearer(token: str) -> Caller:
    return Caller(headers=(f"Authorization: Bearer {token}",))


def spellings(token: str) -> dict[str, Caller]:
    """All ways to send a token that count: name and value exact, after one decoding."""
    return {
        "in the URL": Caller(f"token={token}"),
        "in the header": bearer(token),
        "the scheme in lower case": Caller(headers=(f"Authorization: bearer {token}",)),
        "two blanks behind the scheme": Caller(headers=(f"Authorization: Bearer  {token}",)),
        "a blank at the header's end": Caller(headers=(f"Authorization: Bearer {token} ",)),
        "among others": Caller(f"x=1&token={token}&tokens=2"),
        "percent-encoded": Caller(f"token={encoded(token)}"),
        "its name percent-encoded": Caller(f"t%6fken={token}"),
        "twice in the URL": Caller(f"token={token}&token={token}"),
        "in both": Caller(f"token={token}", (f"Authorization: Bearer {token}",)),
    }


def as_no_token(token: str) -> dict[str, Caller]:
    """What is no token, whatever it holds."""
    return {
        "nothing": Caller(),
        "Token=": Caller(f"Token={token}"),
        "TOKEN=": Caller(f"TOKEN={token}"),
        "token%20=": Caller(f"token%20={token}"),
        "tokens=": Caller(f"tokens={token}"),
        "token[]=": Caller(f"token[]={token}"),
        "behind a semicolon": Caller(f"x=1;token={token}"),
        "Basic": Caller(headers=(f"Authorization: Basic {token}",)),
        "no scheme": Caller(headers=(f"Authorization: {token}",)),
        "another header": Caller(headers=(f"X-Token: {token}", f"Proxy-Authorization: Bearer {token}")),
        "a cookie": Caller(headers=(f"Cookie: token={token}",)),
        "a subprotocol": Caller(headers=(f"Sec-WebSocket-Protocol: {token}",)),
    }


def never_valid(token: str) -> dict[str, Caller]:
    """What is a token, and not a valid one. `token` is one that is."""
    changed = token[:-1] + ("a" if token[-1] != "a" else "b")
    values = {
        "empty": "",
        "unknown": "lw_" + "x" * (len(token) - 3),
        "one character": "x",
        "no ASCII": "%ff%fe",
        "a NUL": "%00",
        "5,000 characters": "x" * 5_000,
        "upper case": token.upper(),
        "cut": token[:-1],
        "longer": token + "a",
        "one character changed": changed,
        "encoded twice": quote(encoded(token)),
        "a newline behind": token + "%0a",
        "a CR and a newline behind": token + "%0d%0a",
        "a blank behind": token + "%20",
        "a plus behind": token + "+",
        "a blank before": "%20" + token,
        "a NUL behind": token + "%00",
        "in quotes": f"%22{token}%22",
    }
    callers = {f"{name}, in the URL": Caller(f"token={value}") for name, value in values.items()}
    callers["a name without a value"] = Caller("token")
    callers["an empty header"] = Caller(headers=("Authorization: Bearer",))
    for name in ("unknown", "cut", "5,000 characters", "in quotes"):
        callers[f"{name}, in the header"] = bearer(values[name])
    callers["two in the header"] = bearer(f"{token} {token}")
    return callers


def two_that_differ(one: str, other: str) -> dict[str, Caller]:
    """Two tokens at once, valid or not: which of them is meant?"""
    return {
        "two in the URL": Caller(f"token={one}&token={other}"),
        "two, in the URL and the header": Caller(f"token={one}", (f"Authorization: Bearer {other}",)),
        "two, one of them unknown": Caller(f"token={one}&token=unknown"),
        "two, one of them empty": Caller(f"token={one}&token="),
    }


class Cast:
    """All callers, by the kind that the tables name."""

    def __init__(self, data: Path) -> None:
        self._users: dict[str, str] = {"nobody": ""}
        self.callers: dict[str, dict[str, Caller]] = {}
        with TokenFile(data) as store:
            alice = store.add("alice", None, None, 0, 0)[1]
            revoked, secret = store.add("alice", None, None, 0, 0)
            expired = store.add("alice", None, None, 1, 0)[1]
            hidden = store.all()[0]
            assert store.revoke(revoked.id)
            ended = {"revoked": secret, "expired": expired, "a token's id": hidden.id}
            elsewhere = store.add("alice", frozenset({"elsewhere"}), None, 0, 0)[1]
            self._add("alice:elsewhere", "alice", {"": bearer(elsewhere)})
            for user in ("alice", "bob", "poster", "reader", "worker", "root"):
                self._add(user, user, {"": bearer(store.add(user, None, None, 0, 0)[1])})
                for right in get_args(Right):
                    narrowed = store.add(user, None, frozenset({right}), 0, 0)[1]
                    self._add(f"{user}:{right}", user, {"": bearer(narrowed)})
        self._add("nobody", "", as_no_token(alice))
        self._add("alice", "alice", spellings(alice))
        ended_ones = {name: bearer(token) for name, token in ended.items()}
        self._add("invalid", "", never_valid(alice) | ended_ones | two_that_differ(alice, elsewhere))

    def _add(self, kind: str, user: str, callers: dict[str, Caller]) -> None:
        self._users[kind] = user
        self.callers[kind] = callers

    def user(self, kind: str) -> str:
        """Whose tokens those are; "" without a valid one."""
        return self._users[kind]


# ── The stage ──


class Stage:
    """The server with its callers, and items for them to look at."""

    def __init__(self, server: TestServer, cast: Cast, line: Line) -> None:
        self.server = server
        self.cast = cast
        self.line = line

    async def item(self, queue: str, user: str, value: Json = "ours") -> str:
        """A fresh item, posted by this user ("" is nobody), whatever the user may do now."""
        engine = self.server.engine(queue)
        posted = await engine.ask(Post(parse_post({"item": value}, engine.queue, user)))
        assert isinstance(posted, Posted)
        return posted.item.id

    async def rev(self, queue: str, item_id: str) -> int:
        """The item's `rev`: 1, and one more for each change."""
        root = self.cast.callers["root"][""]
        return int((await self.line.ask("GET", f"/{queue}/items/{item_id}", root)).json["rev"])


@asynccontextmanager
async def stage(folder: Path, toml: str) -> AsyncIterator[Stage]:
    async with running_server(folder, toml) as server, Line(server.base_url) as line:
        yield Stage(server, Cast(folder / "data"), line)
