"""The HTTP protocol of uvicorn (httptools), with bounds: on the head of a request, on how long it may take to come, and
on the connections of one address.
"""

import asyncio
from asyncio.transports import BaseTransport
from typing import ClassVar, Final, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leaseway_server.core.limits import Allowances, ServerLimits
from leaseway_server.web.address import Networks, is_trusted
from leaseway_server.web.meters import Traffic

HEAD_BYTES: Final = 64 * 1024
_ANSWER: Final = "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Bounds(Protocol):
    """Where the bounds stand; they may change while connections are open."""

    limits: ServerLimits
    connections_of_address: Allowances
    trusted_proxies: Networks
    traffic: Traffic


class HttpProtocol(HttpToolsProtocol):
    """One connection. A class of its own is made for each server, with its bounds (`bounded`)."""

    bounds: ClassVar[Bounds]

    _deadline: asyncio.TimerHandle | None = None
    _counted: str = ""
    _head: int = 0
    _unparsed: int = 0
    """Bytes since the parser said something: of one header it keeps all, and says nothing before its end."""

    @classmethod
    def bounded(cls, bounds: Bounds) -> type["HttpProtocol"]:
        """This protocol with its bounds. The connections of trusted proxies are not counted: they are many clients'."""
        return type("HttpProtocol", (cls,), {"bounds": bounds})

    def connection_made(self, transport: BaseTransport) -> None:
        """A connection that says nothing has no longer than a request."""
        super().connection_made(transport)  # type: ignore[arg-type]  # as above
        address = self.client[0] if self.client else ""
        if is_trusted(address, self.bounds.trusted_proxies):
            self._expect()
        elif self.bounds.connections_of_address.take(address):
            self._counted = address
            self._expect()
        else:
            self._refuse("429 Too Many Requests")

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._came()
        self._uncount()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._deadline is None and self.cycle.response_complete:
            self._expect()  # Blank lines begin no request, but end the wait for one.
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """A request begins: its headers and its body have to come in time."""
        super().on_message_begin()
        self._head = self._unparsed = 0
        self._expect()

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._measure(len(name) + len(value))
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request is here."""
        self._unparsed = 0
        self._came()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """The connection becomes a socket's, which is counted where it is admitted."""
        self._came()
        self._uncount()
        super().handle_websocket_upgrade()
        del self.parser  # It holds this object, which is not needed any more.

    def send_400_response(self, msg: str) -> None:
        """The parser gave up: a fault in the request, or more than we take."""
        if self._head > HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large")
        else:
            super().send_400_response(msg)

    def _measure(self, size: int) -> None:
        self._unparsed = 0
        self._head += size
        if self._head > HEAD_BYTES:
            raise ValueError("the head of the request is too large")  # Ends the parser; `send_400_response` answers.

    def _expect(self) -> None:
        self._came()
        seconds = self.bounds.limits.request_timeout / 1000
        self._deadline = self.loop.call_later(seconds, self._refuse, "408 Request Timeout")

    def _came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _uncount(self) -> None:
        if self._counted:
            self.bounds.connections_of_address.give(self._counted)
            self._counted = ""

    def _refuse(self, status: str) -> None:
        if not self.transport.is_closing():
            self.bounds.traffic.cut[status[:3]] += 1
            self.transport.write(_ANSWER.format(status).encode())
            self.transport.close()
