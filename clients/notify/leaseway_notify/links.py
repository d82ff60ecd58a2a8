"""The links of a message: where a reader unsubscribes, and with tracking, what tells of opening and clicking.

Owns which links a message has, and how their tokens are made: by a secret, so that every attempt at a delivery has the
same ones and its mail stays the same. What becomes of a token that is followed is the service's.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Literal
from urllib.parse import urljoin

from leaseway_notify.delivery import Notification
from leaseway_notify.message import Message
from leaseway_notify.policy import Policies
from leaseway_notify.profile import Channel
from leaseway_notify.settings import DAY
from leaseway_notify.stores.base import Token, TokenStore
from leaseway_notify.unsubscribe import Unsubscribe

_BUILT_IN: Final = Policies()
TOKEN_LENGTH: Final = 32
"""Hex digits of a token: 128 bits."""


@dataclass(frozen=True, slots=True)
class MessageLinks:
    """The links of one message, "" where there is none. `opened` is a picture that tells of the reading.

    `entries` lead to what each notification is about; with tracking, by way of the service.
    """

    unsubscribe: str
    preferences: str
    opened: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """`base_url` is the service's public address. `tracking` is off unless it is turned on.

    What the `policies` let nobody refuse has no link to unsubscribe by: it would promise what is not kept.
    `kept` is how long a token counts, of tracking and of preferences, `unsubscribe_kept` how long one may unsubscribe
    by an old message; ms.
    """

    base_url: str
    tracking: bool = False
    policies: Policies = _BUILT_IN
    kept: int = 30 * DAY
    unsubscribe_kept: int = 365 * DAY


class Links:
    """Makes the links of messages, and keeps their tokens."""

    def __init__(
        self,
        store: TokenStore,
        secret: bytes,
        options: LinkOptions,
        channel: Channel = "email",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._secret = secret
        self._options = options
        self._channel = channel
        self._clock = clock

    async def of(self, message: Message) -> MessageLinks:
        """The links of a message; with tracking, its tokens are kept when this returns. Raises `StoreAway`."""
        pages = tuple(self._url(one.url) if one.url else "" for one in message.notifications)
        options, kind = self._options, message.newest.type
        fixed = options.policies.urgent(kind)
        unsubscribe = "" if fixed else self._signed("u", message.newest, kind, options.unsubscribe_kept)
        # Who has this one may see and change more, so that it ends as other tokens do.
        preferences = self._signed("p", message.newest, "", options.kept)
        links = MessageLinks(unsubscribe, preferences, "", pages)
        return await self._tracked(message, links) if self._options.tracking else links

    async def _tracked(self, message: Message, links: MessageLinks) -> MessageLinks:
        until = int(self._clock() * 1000) + self._options.kept
        opened = self._token(message, until, "open")
        clicks = {page: self._token(message, until, "click", page) for page in links.entries if page}
        await self._store.add_tokens([opened, *clicks.values()])
        entries = tuple(self._url(f"c/{clicks[page].token}") if page else "" for page in links.entries)
        return replace(links, opened=self._url(f"o/{opened.token}"), entries=entries)

    def _signed(self, path: str, newest: Notification, kind: str, kept: int) -> str:
        """A link that holds until a day begins, some time after the message: every attempt at it says the same."""
        until = (newest.created_at + kept) // DAY * DAY
        return self._url(f"{path}/{Unsubscribe(newest.recipient, kind, self._channel, until).token(self._secret)}")

    def _token(self, message: Message, until: int, kind: Literal["open", "click"], target: str = "") -> Token:
        said = "\n".join((kind, message.id, target)).encode()
        newest = message.newest
        return Token(
            token=hmac.new(self._secret, said, sha256).hexdigest()[:TOKEN_LENGTH],
            kind=kind,
            delivery_id=message.id,
            recipient=newest.recipient,
            type=newest.type,
            channel=self._channel,
            expires_at=until,
            target=target,
        )

    def _url(self, path: str) -> str:
        """A page of the service's, or wherever a whole URL leads."""
        return urljoin(f"{self._options.base_url.rstrip('/')}/", path)
