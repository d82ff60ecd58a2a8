"""Mail servers of the tests: one that takes mails (aiosmtpd), and one that answers as a script says, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from ssl import SSLContext
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class Mailroom:
    """What a server took, and what it says to a mail: `answer` may be anything that SMTP can say, or wait."""

    host: str = "127.0.0.1"
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    recipient: str = "250 OK"
    answer: Callable[[], Any] = lambda: "250 OK: taken"
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle_RCPT(  # noqa: N802  aiosmtpd calls it so
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """The server's word for an address."""
        if self.recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.recipient

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """A mail has come."""
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.envelopes.append(envelope)
        self.arrived.set()
        said = self.answer()
        return str(await said if asyncio.iscoroutine(said) else said)


@asynccontextmanager
async def mail_server(ssl: SSLContext | None = None, **options: Any) -> AsyncIterator[Mailroom]:
    """An SMTP server on a free port, in this event loop; with `ssl` its connections begin with TLS."""
    room = Mailroom()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(room, hostname="mail.test", loop=loop, **options), room.host, 0, ssl=ssl
    )
    room.port = server.sockets[0].getsockname()[1]
    try:
        yield room
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def scripted_server(greeting: bytes, answers: Mapping[bytes, bytes], *, pause: float = 0.0) -> AsyncIterator[int]:
    """The port of a server that says the greeting, and to each line the answer to its first word, after a pause.

    To a word that is not among them it says nothing, for ever.
    """
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(greeting)
        while line := await reader.readline():
            word = line.split()[0].upper() if line.split() else b""
            if word in answers:
                await asyncio.sleep(pause)
                writer.write(answers[word])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()
