"""A server behind the proxy that records what comes to it: which requests, with which headers.

Owns no rule of Leaseway. It reads HTTP as strictly as h11 does, and tells what was no request at all.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import h11


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came to the server behind Caddy. Names of headers in lower case."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for header, value in self.headers if header == name]


class Recorder:
    """Answers each request with an empty 200, and keeps what it saw, in order. `/_ready` is not kept.

    `broken` are connections on which something came that is no request.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.broken: list[str] = []
        self.base_url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        connection = h11.Connection(h11.SERVER)
        try:
            while await self._request(connection, reader, writer):
                connection.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self.broken.append(str(error))
        except (ConnectionError, h11.LocalProtocolError):
            pass  # The proxy left, or said that this was its last request.
        finally:
            writer.transport.abort()

    async def _request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head: h11.Request | None = None
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                break
        if head is None or not isinstance(event, h11.EndOfMessage):
            return False
        self._keep(head, body)
        for answer in (h11.Response(status_code=200, headers=[("Content-Length", "0")]), h11.EndOfMessage()):
            writer.write(connection.send(answer) or b"")
        await writer.drain()
        return True

    def _keep(self, head: h11.Request, body: bytes) -> None:
        target = head.target.decode("latin-1")
        if target != "/_ready":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers]
            self.seen.append(Seen(head.method.decode("latin-1"), target, headers, body))


@asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    """A recorder on a free port of loopback."""
    recording = Recorder()
    server = await asyncio.start_server(recording.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    recording.base_url = f"http://{host}:{port}"
    try:
        yield recording
    finally:
        server.close()
