"""What an unsubscribe link stands for: who wants no more of what. Pure.

It is signed: it needs no sign-in and no row in the store, and holds for as long as it says.

    <base64url of [recipient, type, channel, until]>.<HMAC-SHA256 of that, the first 128 bits>
"""

import hmac
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Self

import orjson

from leaseway_notify.base64url import from_base64, in_base64
from leaseway_notify.profile import Channel, Mute, Preferences


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A recipient's word that they want no more of this type on this channel. It may be said until then, in ms.

    Of no type it unsubscribes from nothing, and leads to the page of preferences.
    """

    recipient: str
    type: str
    channel: Channel
    until: int

    def token(self, secret: bytes) -> str:
        """What stands in the link."""
        said = in_base64(orjson.dumps([self.recipient, self.type, self.channel, self.until]))
        return f"{said}.{_mark(secret, said)}"

    @classmethod
    def read(cls, token: str, secret: bytes, now: int) -> Self | None:
        """What a token says; None where it is none of ours, or its time is over."""
        said, _, mark = token.partition(".")
        if not token.isascii() or not hmac.compare_digest(mark, _mark(secret, said)):
            return None
        found = cls(*orjson.loads(from_base64(said)))
        return found if now < found.until else None

    def mute(self, preferences: Preferences) -> Preferences:
        """The preferences with it; said twice it is as said once. For `ProfileStore.change_preferences`."""
        mute = Mute(type=self.type, channel=self.channel)
        if mute in preferences.mutes:
            return preferences
        return replace(preferences, mutes=(*preferences.mutes, mute))

    def unmute(self, preferences: Preferences) -> Preferences:
        """The preferences without it: who unsubscribed by mistake takes it back."""
        mute = Mute(type=self.type, channel=self.channel)
        return replace(preferences, mutes=tuple(one for one in preferences.mutes if one != mute))


def _mark(secret: bytes, said: str) -> str:
    return hmac.new(secret, said.encode(), sha256).hexdigest()[:32]
