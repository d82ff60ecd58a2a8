"""The one place that knows the WebSocket library: opens a socket and speaks of its end in our words.

Loaded when the first socket is dialled. No reconnecting here, and nothing of the protocol but the header
that carries the token.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus, WebSocketException
from websockets.frames import CloseCode

from leaseway.address import proxy_to
from leaseway.connection import Endpoint, SocketClosed
from leaseway.http import LOST, NO_HTTP, hindrance

OPEN_WITHIN = 10.0
#: For the goodbye, seconds. A server that is there answers at once, and one that is gone is waited for in vain, also
#: after a ping that it left without an answer.
CLOSE_WITHIN = 1.0
#: A server that answers no ping for so long is gone, whatever the system's TCP believes (seconds).
PING_EVERY = 15.0
PING_WITHIN = 10.0
#: The statuses of a handshake that was refused outright, by a proxy for instance, as close codes.
REFUSALS = {401: 4401, 403: 4403, 404: 4404}
#: What asyncio writes into its own texts instead of what the system calls it.
_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """Hides the library's debug lines: they hold headers (the token) and payloads."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  logging's own name.
        return level > logging.DEBUG and super().isEnabledFor(level)


class _Direct(connect):
    """Follows no redirect: the token goes to the address that was given, and to no other."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class WebSocket:
    """A socket of the `websockets` library."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        """Sends one text frame."""
        try:
            await self._connection.send(data, text=True)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def receive(self) -> bytes:
        """The next frame."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def close(self) -> None:
        """Closes with 1000; does nothing on a closed one."""
        await self._connection.close()


async def dial(endpoint: Endpoint, max_bytes: int) -> WebSocket:
    """Opens a WebSocket with the token as a bearer. Raises `SocketClosed` for whatever hinders it."""
    try:
        proxy = proxy_to(endpoint.url)
    except ValueError as no_proxy:
        raise SocketClosed(1006, str(no_proxy)) from None
    headers: dict[str, Any] = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    try:
        connection = await _Direct(
            endpoint.url,
            additional_headers=headers,
            compression=None,
            max_size=max_bytes,
            open_timeout=OPEN_WITHIN,
            close_timeout=CLOSE_WITHIN,
            ping_interval=PING_EVERY,
            ping_timeout=PING_WITHIN,
            proxy=proxy.geturl() if proxy else None,
            logger=_Quiet(logging.getLogger("leaseway.websocket"), None),
        )
    except InvalidStatus as refused:
        status = refused.response.status_code
        raise SocketClosed(REFUSALS.get(status, 1006), f"HTTP {status}") from None
    except (OSError, WebSocketException) as error:
        raise SocketClosed(1006, _hindrance(error)) from None
    return WebSocket(connection)


def _hindrance(error: Exception) -> str:
    """In the words of `http.py`. Of a name with several addresses it is what the first of them said."""
    if isinstance(error, InvalidMessage):
        return f"{LOST} before it answered" if isinstance(error.__cause__, EOFError) else NO_HTTP
    number = _NUMBER.search(str(error))
    return hindrance(OSError(int(number[1]), os.strerror(int(number[1]))) if number else error, OPEN_WITHIN)


def _closed(closed: ConnectionClosed) -> SocketClosed:
    if closed.rcvd is None:
        silent = closed.sent is not None and closed.sent.code == CloseCode.INTERNAL_ERROR  # Of a ping without answer.
        return SocketClosed(1006, f"no answer within {PING_WITHIN:.0f} s" if silent else LOST)
    return SocketClosed(closed.rcvd.code, closed.rcvd.reason)
