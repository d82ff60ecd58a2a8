"""Mail servers and TLS: neither a mail nor a password goes where it could be read, or to a server that is not the one.

The servers and the certificates are real; who is trusted is said by `SSL_CERT_FILE`, as an operator would.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from leaseway_notify.channels.email import Mail
from leaseway_notify.channels.smtp import Smtp, SmtpServer
from leaseway_notify.classify import Fault, Kind, NotSent
from leaseway_notify.settings import Security
from support.mail_server import Mailroom, mail_server, scripted_server

HOST = "127.0.0.1"
ENCRYPTED: tuple[Security, ...] = ("starttls", "tls")
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Signs the servers' certificates."""
    return trustme.CA()


@pytest.fixture(autouse=True)
def _trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine trusts that authority, and no other."""
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@dataclass
class Logins:
    """Who logged in at a server that lets everybody: the name, the password, and whether over TLS."""

    seen: list[tuple[bytes, bytes, bool]] = field(default_factory=list)

    def __call__(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, said: Any) -> AuthResult:
        """Called by the server."""
        assert isinstance(said, LoginPassword)
        assert server.transport is not None
        encrypted = server.transport.get_extra_info("sslcontext") is not None
        self.seen.append((said.login, said.password, encrypted))
        return AuthResult(success=True)


@asynccontextmanager
async def server_with(
    certificate: trustme.LeafCert | None, security: Security, logins: Logins
) -> AsyncIterator[Mailroom]:
    """A server that offers logins, over TLS or not, and TLS as `security` says."""
    options: dict[str, Any] = {"authenticator": logins, "auth_require_tls": False}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
        options["ssl" if security == "tls" else "tls_context"] = context
    async with mail_server(**options) as room:
        yield room


async def send(port: int, security: Security) -> str:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "bell@app.example", "ada@app.example", "Hello"
    mail = Mail("key", "bell@app.example", "ada@app.example", message, "", "")
    return await Smtp(SmtpServer(HOST, port, security, "bell", "geheim", timeout=5.0)).send(mail)


async def refused(port: int, security: Security) -> Fault:
    with pytest.raises(NotSent) as caught:
        await send(port, security)
    assert "geheim" not in str(caught.value)
    return caught.value.fault


@pytest.mark.parametrize("security", ENCRYPTED)
async def test_a_mail_and_its_password_go_over_tls(authority: trustme.CA, security: Security) -> None:
    logins = Logins()
    async with server_with(authority.issue_cert(HOST), security, logins) as room:
        assert await send(room.port, security) == "OK: taken"
    assert logins.seen == [(b"bell", b"geheim", True)]
    assert [mail["Subject"] for mail in room.mails] == ["Hello"]


@pytest.mark.parametrize("security", ENCRYPTED)
@pytest.mark.parametrize("flaw", ["of an authority that is not trusted", "of another server", "that is over"])
async def test_a_server_with_a_certificate_gets_nothing(authority: trustme.CA, security: Security, flaw: str) -> None:
    """A certificate can be renewed, so that the mail waits, and is tried again."""
    certificate = {
        "of an authority that is not trusted": lambda: trustme.CA().issue_cert(HOST),
        "of another server": lambda: authority.issue_cert("mail.example"),
        "that is over": lambda: authority.issue_cert(HOST, not_after=LONG_AGO),
    }[flaw]()
    logins = Logins()
    async with server_with(certificate, security, logins) as room:
        fault = await refused(room.port, security)
    assert (fault.kind, "certificate verify failed" in fault.message) == (Kind.CONNECTION, True)
    assert (logins.seen, room.mails) == ([], [])


async def test_a_server_that_offers_no_starttls_gets_nothing() -> None:
    logins = Logins()
    async with server_with(None, "none", logins) as room:
        assert (await refused(room.port, "starttls")).kind is Kind.BAD_CONFIGURATION
    assert (logins.seen, room.mails) == ([], [])


async def test_a_server_that_takes_starttls_back_gets_nothing() -> None:
    """Whoever stands between could say so too. It would take everything else."""
    takes = dict.fromkeys((b"MAIL", b"RCPT", b"."), b"250 OK\r\n") | {b"AUTH": b"235 OK\r\n", b"DATA": b"354 go\r\n"}
    offers = b"250-mail.test\r\n250-STARTTLS\r\n250 AUTH PLAIN LOGIN\r\n"
    async with scripted_server(
        b"220 mail.test\r\n", takes | {b"EHLO": offers, b"STARTTLS": b"454 not now\r\n"}
    ) as port:
        fault = await refused(port, "starttls")
    assert (fault.kind, fault.message) == (Kind.UNAVAILABLE, "454 not now")


async def test_a_server_without_tls_gets_nothing_where_tls_comes_first() -> None:
    logins = Logins()
    async with server_with(None, "none", logins) as room:
        assert (await refused(room.port, "tls")).kind is Kind.CONNECTION
    assert (logins.seen, room.mails) == ([], [])


async def test_a_password_goes_in_plain_text_only_where_that_was_said(authority: trustme.CA) -> None:
    logins = Logins()
    async with server_with(authority.issue_cert(HOST), "starttls", logins) as room:
        assert await send(room.port, "none") == "OK: taken"
    assert logins.seen == [(b"bell", b"geheim", False)]
