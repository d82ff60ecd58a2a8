"""A transport of mails: a provider's HTTP API, with a key under which it takes a mail once.

The body is that of Resend's `POST /emails`, which others understand too: from, to, subject, text, html, headers.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

import orjson

from leaseway_notify.channels.email import Mail
from leaseway_notify.classify import Kind, NotSent, http_kind, retry_after, told
from leaseway_notify.outbound import Answer, Outbound

OTHER_BODY: Final = "invalid_idempotent_request"
"""The name of an answer 409 by which the key was used for a mail that was not quite the same, such as before a name was
changed. No other attempt is taken either; any other 409 is about a call that is under way."""
_OWN: Final = frozenset({"from", "to", "subject", "date", "content-type", "mime-version"})
"""Headers that the body says by members of their own, or the provider by itself: what has a key stays the same."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The API's address and key; `timeout` bounds a call, `retry_after` what is waited at its word, seconds."""

    url: str
    api_key: str
    timeout: float = 10.0
    retry_after: float = 3 * 3600.0


class MailProvider:
    """Hands mails to a provider. `outbound` is open, and stays the caller's."""

    def __init__(self, provider: Provider, outbound: Outbound) -> None:
        self._provider = provider
        self._outbound = outbound

    async def send(self, mail: Mail) -> str:
        """The provider's id of the mail. Raises `NotSent`; an attempt that follows has the same idempotency key."""
        headers = {
            "Authorization": f"Bearer {self._provider.api_key}",
            "Content-Type": "application/json",
            "Idempotency-Key": mail.key,
        }
        answer = await self._outbound.post(self._provider.url, _body(mail), headers, self._provider.timeout)
        kind = http_kind(answer.status)
        if kind is None:
            return _id(answer)
        if kind is Kind.CONFLICT and _said(answer).get("name") == OTHER_BODY:
            kind = Kind.REFUSED
        wait = retry_after(answer.retry_after, time.time(), self._provider.retry_after)
        raise NotSent(kind, f"{answer.status} {told(answer.body)}", wait)


def _body(mail: Mail) -> bytes:
    message = mail.message
    return orjson.dumps(
        {
            "from": str(message["From"]),
            "to": [str(message["To"])],
            "subject": str(message["Subject"]),
            "text": mail.text,
            "html": mail.html,
            "headers": {name: str(value) for name, value in message.items() if name.lower() not in _OWN},
        }
    )


def _id(answer: Answer) -> str:
    """What the provider calls the mail; "" where it does not say. Whatever it says, the mail is taken."""
    return told(_said(answer).get("id", ""))


def _said(answer: Answer) -> dict[str, Any]:
    try:
        said = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return said if isinstance(said, dict) else {}
