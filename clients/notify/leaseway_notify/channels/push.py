"""The channel `push`: Web Push (RFC 8030), encrypted for each browser (RFC 8291) and signed (RFC 8292).

Owns what a push holds, and what push services' answers mean for a subscription. It is encrypted by pywebpush, but sent
by `outbound.py`, which looks at the address at connect. Only what sends pushes imports this: pywebpush is slow to load.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from pywebpush import WebPusher  # type: ignore[import-untyped]

from leaseway_notify.base64url import in_base64
from leaseway_notify.channels.subscription_keys import check_keys
from leaseway_notify.classify import Fault, NotSent, http_kind, retry_after, told
from leaseway_notify.message import Message, Notes, Skipped
from leaseway_notify.outbound import Answer, Outbound
from leaseway_notify.profile import Profile, PushSubscription
from leaseway_notify.vapid import VapidKey

PLAIN_BYTES: Final = 3_993
"""What fits, encrypted, into the 4,096 bytes that every push service takes (RFC 8030 §7.2, RFC 8291 §4)."""
BROWSERS: Final = "browsers"
"""Under this name those are noted that took a push."""
TOPIC_LENGTH: Final = 32
"""Characters of a topic (RFC 8030 §5.4)."""
_URGENCY: Final = {"immediate": "high", "normal": "normal", "low": "low"}
_APPLE: Final = ".push.apple.com"
_APPLE_GONE: Final = frozenset(
    {"BadDeviceToken", "DeviceTokenNotForTopic", "ExpiredToken", "Forbidden", "Unregistered"}
)
"""Why Apple will never again take a push to this subscription. Its other reasons, such as BadJwtToken, are about what
the sender said: there the subscription stays."""

Remove = Callable[[str], Awaitable[object]]


class Gone(Enum):
    """A push service's word for it: the subscription has ended."""

    GONE = "gone"


GONE: Final = Gone.GONE


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How pushes are sent. `timeout` bounds a call, `keep` is how long a service keeps a push for a browser that is
    away, `retry_after` what is waited at its word; all in seconds."""

    timeout: float = 10.0
    keep: int = 24 * 3600
    retry_after: float = 3 * 3600.0


class Push:
    """Sends a message to each of a recipient's browsers. `outbound` is open, and stays the caller's.

    `remove` takes the endpoint of a subscription that has ended.
    """

    def __init__(self, key: VapidKey, outbound: Outbound, remove: Remove, options: PushOptions) -> None:
        self._key = key
        self._outbound = outbound
        self._remove = remove
        self._options = options

    async def send(self, message: Message, to: Profile, notes: Notes) -> str:
        """Returns when every browser's service has taken it that takes pushes for it, with their number.

        Which ones have is noted, so that an attempt that follows sends to the others alone. Raises `Skipped` where no
        subscription is left, and `NotSent` where one of them has to be tried again, or where none can be.
        """
        done = notes.ids(BROWSERS)
        pending = [one for one in to.subscriptions if _name(one) not in done]
        outcomes = await asyncio.gather(*(self._one(message, one) for one in pending))
        sent = frozenset(_name(one) for one, outcome in zip(pending, outcomes, strict=True) if outcome is None)
        faults = [outcome for outcome in outcomes if isinstance(outcome, Fault)]
        await self._forget([one for one, outcome in zip(pending, outcomes, strict=True) if outcome is GONE])
        transient = [fault for fault in faults if fault.transient]
        if transient:
            if sent:
                await notes.note(BROWSERS, done | sent)
            raise _said(max(transient, key=lambda fault: fault.retry_after or 0.0))
        if not sent and not done:
            if faults:
                raise _said(faults[0])
            raise Skipped("push_subscription_revoked")
        return f"browsers: {len(done | sent)}"

    async def _one(self, message: Message, subscription: PushSubscription) -> Fault | Gone | None:
        """None where the service took it."""
        now = time.time()
        try:
            self._outbound.check(subscription.endpoint)
            body = encrypt(payload(message), subscription)
            headers = {
                "Authorization": self._key.authorization(subscription.endpoint, now),
                "Content-Encoding": "aes128gcm",
                "Content-Type": "application/octet-stream",
                "TTL": str(self._options.keep),
                "Topic": _topic(message.id),
                "Urgency": _URGENCY[message.priority],
            }
            answer = await self._outbound.post(subscription.endpoint, body, headers, self._options.timeout)
        except NotSent as error:
            return error.fault
        return outcome_of(subscription.endpoint, answer, now, self._options.retry_after)

    async def _forget(self, ended: Sequence[PushSubscription]) -> None:
        for subscription in ended:
            await self._remove(subscription.endpoint)


def outcome_of(endpoint: str, answer: Answer, now: float, cap: float) -> Fault | Gone | None:
    """What an answer means: the push was taken (None), the subscription has ended, or a fault. Pure."""
    kind = http_kind(answer.status)
    if kind is None:
        return None
    if answer.status in (404, 410) or (_is_apple(endpoint) and _reason(answer) in _APPLE_GONE):
        return GONE
    return Fault(kind, f"{answer.status} {told(answer.body)}", retry_after(answer.retry_after, now, cap))


def payload(message: Message) -> bytes:
    """What the page's service worker gets, as JSON; a body that is too long is cut.

    `tag` is the same in every attempt: a browser shows one notification of a tag.
    """
    newest = message.newest
    said: dict[str, Any] = {
        "id": message.id,
        "type": message.type,
        "tag": message.group or message.id,
        "title": newest.title,
        "body": newest.body,
        "url": newest.url or None,
        "at": newest.created_at,
        "total": message.total,
    }
    room = PLAIN_BYTES - len(orjson.dumps({**said, "body": ""}))
    if room < 0:
        said["url"] = None
        room = PLAIN_BYTES - len(orjson.dumps({**said, "body": ""}))
    said["body"] = _cut(newest.body, room)
    return orjson.dumps(said)


def encrypt(plain: bytes, subscription: PushSubscription) -> bytes:
    """The body of a push, for this browser alone. Raises `NotSent` where the subscription's keys are none."""
    check_keys(subscription)
    keys = {"p256dh": subscription.p256dh, "auth": subscription.auth}
    return bytes(WebPusher({"endpoint": subscription.endpoint, "keys": keys}).encode(plain)["body"])


def _cut(text: str, room: int) -> str:
    """As much of a text as takes so many bytes within JSON."""
    if len(orjson.dumps(text)) - 2 <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(orjson.dumps(f"{text[:middle]}…")) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]}…" if low else ""


def _said(fault: Fault) -> NotSent:
    return NotSent(fault.kind, fault.message, fault.retry_after)


def _name(subscription: PushSubscription) -> str:
    """An endpoint is a secret: what is noted of it tells nothing."""
    return sha256(subscription.endpoint.encode()).hexdigest()[:16]


def _topic(delivery_id: str) -> str:
    """What is not fetched yet is replaced by a push of the same topic: a repeated attempt doubles nothing."""
    return in_base64(sha256(delivery_id.encode()).digest())[:TOPIC_LENGTH]


def _is_apple(endpoint: str) -> bool:
    return f".{urlsplit(endpoint).hostname or ''}".endswith(_APPLE)


def _reason(answer: Answer) -> str:
    try:
        said = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return ""
    return str(said.get("reason", "")) if isinstance(said, dict) else ""
