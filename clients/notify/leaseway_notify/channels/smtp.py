"""A transport of mails: an SMTP server, one connection for each mail.

Owns the connection and what the server's replies stand for.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

import aiosmtplib

from leaseway_notify.channels.email import Mail
from leaseway_notify.classify import Kind, NotSent, smtp_kind
from leaseway_notify.settings import Security

GOODBYE: Final = 1.0
"""Seconds that a server has to answer QUIT; the mail is taken by then."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where the server is, and how it is spoken to. `timeout` bounds a whole mail, seconds."""

    host: str
    port: int
    security: Security = "starttls"
    username: str | None = None
    password: str | None = None
    timeout: float = 20.0


class Smtp:
    """Hands mails to an SMTP server."""

    def __init__(self, server: SmtpServer) -> None:
        self._server = server

    async def send(self, mail: Mail) -> str:
        """The server's word for it. Raises `NotSent`.

        Where the time was over or the connection gone, the server may have taken the mail all the same: an attempt
        that follows carries the same Message-ID.
        """
        client = self._client()
        try:
            async with asyncio.timeout(self._server.timeout):
                await client.connect()
                _, word = await client.send_message(mail.message, sender=mail.sender, recipients=[mail.to])
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=GOODBYE)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise self._not_sent(error, mail) from error
        finally:
            client.close()
        return word

    def _client(self) -> aiosmtplib.SMTP:
        server = self._server
        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            timeout=server.timeout,
        )

    def _not_sent(self, error: Exception, mail: Mail) -> NotSent:
        match error:
            case TimeoutError():
                return NotSent(Kind.TIMEOUT, f"no answer within {self._server.timeout:g} s")
            case aiosmtplib.SMTPRecipientsRefused(recipients=[refused, *_]):
                return NotSent(smtp_kind(refused.code), f"{refused.code} {refused.message}")
            case aiosmtplib.SMTPSenderRefused(code=code) if code >= 500:
                return NotSent(Kind.BAD_CONFIGURATION, f"{code} {error.message}")
            case aiosmtplib.SMTPResponseException():
                return NotSent(smtp_kind(error.code), f"{error.code} {error.message}")
            case aiosmtplib.SMTPNotSupported():
                return NotSent(Kind.BAD_CONFIGURATION if mail.to.isascii() else Kind.BAD_ADDRESS, error)
            case OSError():
                return NotSent(Kind.CONNECTION, error)
        # No STARTTLS, or no logins, where the settings say that there are; or a password that cannot be said.
        return NotSent(Kind.BAD_CONFIGURATION, error)
