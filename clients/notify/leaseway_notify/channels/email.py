"""The channel `email`: makes the mail, and hands it to a transport.

Owns the mail's headers and which links it has. The words are `templates.py`'s; how a mail leaves is `smtp.py`'s and
`mail_provider.py`'s, which are transports.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Protocol

from leaseway_notify.channels.url_header import MAIL
from leaseway_notify.classify import Kind, NotSent
from leaseway_notify.errors import Refused
from leaseway_notify.links import Links, MessageLinks
from leaseway_notify.mail_address import mail_address
from leaseway_notify.message import Message, Notes
from leaseway_notify.profile import Profile
from leaseway_notify.templates import Templates


@dataclass(frozen=True, slots=True)
class Entry:
    """A notification, as a template sees it. `at` is when it came about, ms since the epoch."""

    title: str
    body: str
    url: str
    at: int


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that is ready. `key` is the same in each attempt: a provider that has it takes the mail once."""

    key: str
    sender: str
    to: str
    message: EmailMessage
    text: str
    html: str


class Transport(Protocol):
    """How a mail leaves."""

    async def send(self, mail: Mail) -> str:
        """Returns when it was taken, with the taker's word for it. Raises `NotSent`."""


@dataclass(frozen=True, slots=True)
class From:
    """Who sends: `address` with `name`; `domain` is that of Message-IDs, `product` what mails call the whole."""

    address: str
    name: str = ""
    product: str = ""

    def __post_init__(self) -> None:
        """Raises `ValueError` for what no mail can come from. In the address the domain is in ASCII from here on."""
        try:
            object.__setattr__(self, "address", mail_address(self.address))
            Address(self.name, *self.address.rsplit("@", 1))
        except (Refused, ValueError, MessageError):
            raise ValueError(f"mails cannot be sent from {self.name!r} <{self.address}>") from None

    @property
    def domain(self) -> str:
        """The part of the address behind its last @."""
        return self.address.rpartition("@")[2]


class Email:
    """Sends a message as a mail."""

    def __init__(self, sender: From, templates: Templates, links: Links, transport: Transport) -> None:
        self._from = sender
        self._templates = templates
        self._links = links
        self._transport = transport

    async def send(self, message: Message, to: Profile, _notes: Notes) -> str:
        """Returns when the transport has taken the mail, with its word for it. Raises `NotSent`."""
        try:
            address = mail_address(to.address)
        except Refused as refused:
            raise NotSent(Kind.BAD_ADDRESS, f"the recipient's: {refused.message}") from None
        mail = self._mail(message, to, address, await self._links.of(message))
        return await self._transport.send(mail)

    def _mail(self, message: Message, to: Profile, address: str, links: MessageLinks) -> Mail:
        words = self._templates.render(message.type, self._values(message, to, links))
        mail = EmailMessage(MAIL)
        key = f"{message.id}@{self._from.domain}"
        try:
            mail["From"] = Address(self._from.name, *self._from.address.rsplit("@", 1))
            mail["To"] = Address(to.name, *address.rsplit("@", 1))
            mail["Subject"] = words.subject
            mail["Date"] = format_datetime(datetime.now(UTC))  # Who relays a mail need not add one (RFC 5322 §3.6).
            mail["Message-ID"] = f"<{key}>"
            mail["Auto-Submitted"] = "auto-generated"
            if links.unsubscribe:
                mail["List-Unsubscribe"] = f"<{links.unsubscribe}>"
                mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        except (ValueError, MessageError, IndexError) as error:  # Headers refuse a line's end: nothing can be put in.
            raise NotSent(Kind.BAD_MESSAGE, f"a header: {error}") from None
        mail.set_content(words.text)
        mail.add_alternative(words.html, subtype="html")
        return Mail(key, self._from.address, address, mail, words.text, words.html)

    def _values(self, message: Message, to: Profile, links: MessageLinks) -> dict[str, Any]:
        entries = [
            Entry(one.title, one.body, url, one.created_at)
            for one, url in zip(message.notifications, links.entries, strict=True)
        ]
        return {
            "type": message.type,
            "entries": entries,
            "newest": entries[-1],
            "total": message.total,
            "name": to.name,
            "zone": to.zone,
            "product": self._from.product,
            "unsubscribe": links.unsubscribe,
            "preferences": links.preferences,
            "opened": links.opened,
        }
