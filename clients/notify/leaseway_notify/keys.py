"""Keys that are the same in every process, version and language: FNV-1a, 64 bit, in hex, over canonical JSON.

Canonical: UTF-8, no spaces, members in the order of their names' code points, and a whole number is written as one,
also where it came as 1.0. The golden values in the tests bind every later version.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from leaseway_notify.event import Event
from leaseway_notify.profile import Channel

_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1
_EXACT: Final = 2**53


def dedupe_key(event: Event) -> str:
    """What equal events share: recipient, actor, context, title, body and payload."""
    return key_of(event.recipient, event.actor, event.context, event.title, event.body, event.payload)


def batch_key(event: Event, channel: Channel) -> str:
    """What goes into one message: recipient, type, channel and context."""
    return key_of(event.recipient, event.type, channel, event.context)


def digest_key(recipient: str, kind: str, channel: Channel) -> str:
    """What goes into one digest: all of a type, whatever it is about."""
    return key_of("digest", recipient, kind, channel)


def group_key(event: Event) -> str:
    """What a client shows as one thread: recipient and context. "" where there is no context."""
    return key_of(event.recipient, event.context) if event.context else ""


def storm_key(recipient: str, channel: Channel) -> str:
    """What goes into the digest of a storm, whatever it is about."""
    return key_of("storm", recipient, channel)


def key_of(*parts: Any) -> str:
    """16 hex digits over an array of these JSON values."""
    return f"{fnv1a(canonical(list(parts)).encode()):016x}"


def fnv1a(data: bytes) -> int:
    """FNV-1a, 64 bit."""
    found = _BASIS
    for byte in data:
        found = (found ^ byte) * _PRIME & _MASK
    return found


def canonical(value: Any) -> str:
    """Canonical JSON. Raises `ValueError` for a number that is not finite."""
    return json.dumps(_whole(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def _whole(value: Any) -> Any:
    """The value with its whole numbers as such."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(member) for member in value]
    return value
