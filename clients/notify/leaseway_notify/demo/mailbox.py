"""The demo's mail server: it takes mails and shows them, or fails for a while, as providers do. It speaks as much SMTP
as a client needs that sends a mail."""

import asyncio
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final

MOST: Final = 2**20
"""Bytes of a mail."""
_ANSWERS: Final = {
    b"HELO": b"250 demo",
    b"EHLO": b"250 demo",
    b"MAIL": b"250 OK",
    b"RCPT": b"250 OK",
    b"RSET": b"250 OK",
}


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that came. `unsubscribe` is the link of its header."""

    to: str
    subject: str
    text: str
    unsubscribe: str


class Mailbox:
    """Use it in an `async with`; then it listens on `port`. While it is `failing` it takes none, for now."""

    def __init__(self) -> None:
        self.failing = False
        self.mails: list[Mail] = []
        self.refused = 0
        self.port = 0
        self._server: asyncio.Server

    async def __aenter__(self) -> "Mailbox":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MOST)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 demo\r\n")
            while line := await reader.readline():
                word = line[:4].upper()
                if word == b"QUIT":
                    writer.write(b"221 bye\r\n")
                    break
                answer = await self._data(reader, writer) if word == b"DATA" else _ANSWERS.get(word, b"502 not here")
                writer.write(answer + b"\r\n")
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # The sender left, or said too much.
        finally:
            writer.close()

    async def _data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        if self.failing:
            self.refused += 1
            return b"451 out of order, try later"
        writer.write(b"354 go on\r\n")
        said = await reader.readuntil(b"\r\n.\r\n")
        self.mails.append(_mail(said.replace(b"\r\n..", b"\r\n.")))
        return b"250 taken"


def _mail(said: bytes) -> Mail:
    message = message_from_bytes(said, EmailMessage, policy=policy.default)
    body = message.get_body(("plain",))
    text = body.get_content().strip() if body is not None else ""
    unsubscribe = str(message.get("List-Unsubscribe", "")).strip("<>")
    return Mail(str(message["To"]), str(message["Subject"]), text, unsubscribe)
