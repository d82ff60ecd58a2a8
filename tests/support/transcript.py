"""Replays a transcript (schemas/README.md) against a running server, over real sockets and real HTTP.

Owns the player and nothing of the server: it knows a base URL and tokens. How expectations match is in
`support.matching`, the wire schemas in `support.wire`; every message in both directions is held against them.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from leaseway_schemas import example_folder
from support import wire
from support.http_client import http_client
from support.matching import Names

Line = Mapping[str, Any]
QUEUE = "transcript"
NO_CONTENT = 204
PATIENCE = 5.0
"""Seconds that a step may take before the replay fails. No transcript needs it on the good way."""


class Player:
    """Plays one transcript's steps; `base_url` is the server's (`http://…`), `tokens` are by user.

    A step that goes otherwise raises `AssertionError` and names the line.
    """

    def __init__(self, head: Line, base_url: str, tokens: Mapping[str, str]) -> None:
        self._names = Names(head.get("values", {}))
        self._base_url = base_url
        self._tokens = tokens
        self._sockets: dict[str, _Socket] = {}
        self._requests: dict[str, tuple[Line, asyncio.Task[httpx.Response]]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._http = await self._stack.enter_async_context(http_client(self._base_url, timeout=60))
        return self

    async def __aexit__(self, *_: object) -> None:
        for _line, task in self._requests.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._requests.values()), return_exceptions=True)
        for socket in self._sockets.values():
            socket.cut()
        await self._stack.aclose()

    async def play(self, number: int, line: Line) -> None:
        """Play one line; `number` is only for the report."""
        step: Callable[[Line], Any] = getattr(self, f"_{_verb(line)}")
        try:
            async with asyncio.timeout(PATIENCE):
                await step(line)
        except (AssertionError, TimeoutError, ConnectionClosed) as fault:
            what = fault if str(fault) else "nothing came"
            raise AssertionError(f"line {number}: {json.dumps(line)[:400]}\n{what}") from fault

    def end(self) -> None:
        """Nothing may be left: no answer that the transcript does not tell, no socket that nobody closed."""
        assert not self._requests, f"never answered in the transcript: {sorted(self._requests)}"
        assert not self._sockets, f"never closed in the transcript: {sorted(self._sockets)}"

    async def _open(self, line: Line) -> None:
        headers, query = self._credentials(line)
        url = f"{self._base_url.replace('http', 'ws', 1)}/{line.get('queue', QUEUE)}/{line['socket']}{query}"
        connection = await connect(url, additional_headers=headers, compression=None, max_queue=None, proxy=None)
        self._sockets[line["open"]] = _Socket(line["socket"], connection)

    async def _from(self, line: Line) -> None:
        socket = self._sockets[line["from"]]
        if "text" in line:
            await socket.connection.send(line["text"])
            return
        message = self._names.fill(line["says"])
        _hold(line, lambda: wire.check_client(socket.kind, message))
        await socket.connection.send(json.dumps(message))

    async def _to(self, line: Line) -> None:
        self._names.match(line["says"], await self._sockets[line["to"]].next())

    async def _close(self, line: Line) -> None:
        socket = self._sockets.pop(line["close"])
        await socket.connection.close()
        assert not (rest := await socket.rest()), f"told by no line of the transcript: {rest}"

    async def _drop(self, line: Line) -> None:
        socket = self._sockets.pop(line["drop"])
        socket.cut()
        await socket.connection.wait_closed()

    async def _closed(self, line: Line) -> None:
        socket = self._sockets.pop(line["closed"])
        assert not (rest := await socket.rest()), f"told by no line of the transcript: {rest}"
        assert socket.connection.close_code == line["code"], f"closed with {socket.connection.close_code}"

    async def _request(self, line: Line) -> None:
        headers, query = self._credentials(line)
        headers |= {"content-type": "application/json"} if line["method"] in ("POST", "PATCH") else {}
        request = self._http.build_request(
            line["method"],
            self._path(line) + query,
            content=self._content(line),
            headers=headers | line.get("headers", {}),
        )
        self._requests[line["request"]] = line, asyncio.create_task(self._http.send(request))

    async def _response(self, line: Line) -> None:
        asked, task = self._requests.pop(line["response"])
        answer = await task
        assert answer.status_code == line["status"], f"status {answer.status_code}: {answer.text[:1000]}"
        if answer.status_code == NO_CONTENT:
            assert (answer.content, "body" in line) == (b"", False)
            return
        kind = "application/problem+json" if answer.status_code >= 400 else "application/json"
        assert answer.headers["content-type"].partition(";")[0] == kind
        body = answer.json()
        wire.check_response(asked["method"], asked["path"], answer.status_code, body)
        if "body" in line:
            self._names.match(line["body"], body)

    def _credentials(self, line: Line) -> tuple[dict[str, str], str]:
        """The headers and the query that carry the line's token or ticket, if it has one (PROTOCOL.md §2)."""
        if "ticket" in line:
            return {}, f"?ticket={quote(self._names.write(line['ticket']))}"
        token = self._tokens[line["user"]] if "user" in line else line.get("token")
        if token is None:
            return {}, ""
        if line.get("carry") == "query":
            return {}, f"?token={token}"
        return {"authorization": f"Bearer {token}"}, ""

    def _path(self, line: Line) -> str:
        path = self._names.write(line["path"])
        return path if path.startswith("/_") else f"/{line.get('queue', QUEUE)}{path}"

    def _content(self, line: Line) -> str | None:
        if "body" not in line:
            return line.get("text")
        body = self._names.fill(line["body"])
        _hold(line, lambda: wire.check_request(line["method"], line["path"], body))
        return json.dumps(body)


class _Socket:
    """One socket of a transcript. What the server says is checked, and its batches are taken apart."""

    def __init__(self, kind: wire.Socket, connection: ClientConnection) -> None:
        self.kind = kind
        self.connection = connection
        self._unpacked: deque[Any] = deque()

    async def next(self) -> Any:
        """The next message; `ConnectionClosed` where none comes any more."""
        if not self._unpacked:
            message = json.loads(await self.connection.recv())
            wire.check_server(self.kind, message)
            self._unpacked.extend(message["messages"] if message["type"] == "batch" else [message])
        return self._unpacked.popleft()

    async def rest(self) -> list[Any]:
        """All that still comes until the socket is closed."""
        messages = []
        try:
            while True:
                messages.append(await self.next())
        except ConnectionClosed:
            return messages

    def cut(self) -> None:
        self.connection.transport.abort()


async def replay(lines: Sequence[Line], base_url: str, tokens: Mapping[str, str]) -> None:
    """Play a whole transcript against the server at `base_url`, which serves `queue_toml(lines[0])`."""
    async with Player(lines[0], base_url, tokens) as player:
        for number, line in enumerate(lines[1:], start=2):
            await player.play(number, line)
        player.end()


def users(lines: Sequence[Line]) -> tuple[str, ...]:
    """The users whose tokens the transcript uses, sorted."""
    return tuple(sorted({line["user"] for line in lines if "user" in line}))


def queue_toml(head: Line) -> str:
    """The head's queue as a part of leaseway.toml."""
    options = dict(head["queue"])
    access = options.pop("access", dict.fromkeys(("post", "fetch", "work", "admin"), "open"))
    if "schemas" in options:
        options["schemas"] = str(example_folder(options["schemas"]))
    return _table(f"queues.{QUEUE}", options) + _table(f"queues.{QUEUE}.access", access)


def _table(name: str, values: Mapping[str, Any]) -> str:
    # Strings, numbers and lists of strings are written alike in JSON and in TOML.
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _verb(line: Line) -> str:
    """What kind of step a line is: its first member."""
    return next(iter(line))


def _hold(line: Line, check: Callable[[], None]) -> None:
    """What the client says meets its schema, or does not where the transcript says so."""
    if line.get("broken"):
        with pytest.raises(wire.WireError):
            check()
    else:
        check()
