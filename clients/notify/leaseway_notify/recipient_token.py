"""How a recipient proves who it is: a short-lived token that the application signs, and the service reads. Pure.

It is a JSON Web Token (RFC 7519) signed with HS256 by a secret that both have, so that an application in any language
makes one with what it has. `sub` is the recipient, `aud` is "leaseway-notify", `exp` is at most an hour away: a token
that got into wrong hands, or whose owner was signed out, is over soon.
"""

import hmac
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from leaseway_notify.base64url import from_base64, in_base64
from leaseway_notify.checks import check_name
from leaseway_notify.errors import Refused

AUDIENCE: Final = "leaseway-notify"
LONGEST: Final = 3_600
"""Seconds that a token may hold."""
SKEW: Final = 60
"""And so many that the clocks of two machines may differ."""
USUAL: Final = 900
LEAST_SECRET: Final = 32
"""Characters of the secret (RFC 7518 §3.2 wants 256 bits)."""


class BadToken(ValueError):
    """What was given is no token that holds; the text says why, and never repeats it."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who a token stands for, and until when: seconds since the epoch."""

    id: str
    until: int


def recipient_token(secret: str, recipient: str, lifetime: int = USUAL, now: float | None = None) -> str:
    """A token for this recipient that holds for so many seconds. Raises `ValueError` for more than an hour."""
    if not 0 < lifetime <= LONGEST:
        raise ValueError(f"a token holds for 1 to {LONGEST} seconds, and not for {lifetime}")
    until = int(time.time() if now is None else now) + lifetime
    said = f"{_HEAD}.{_encoded({'sub': recipient, 'aud': AUDIENCE, 'exp': until})}"
    return f"{said}.{_signature(secret, said)}"


def read_token(token: str, secret: str, now: float) -> Recipient:
    """Who it stands for; `now` in seconds since the epoch. Raises `BadToken`."""
    said, _, signature = token.rpartition(".")
    head, _, body = said.partition(".")
    if not token.isascii() or _decoded(head).get("alg") != "HS256":
        raise BadToken("the token is no JSON Web Token signed with HS256")
    if not hmac.compare_digest(signature, _signature(secret, said)):
        raise BadToken("the token's signature is not made with this service's secret")
    return _recipient(_decoded(body), now)


def _recipient(claims: dict[str, Any], now: float) -> Recipient:
    recipient, until, audience = claims.get("sub"), claims.get("exp"), claims.get("aud")
    if AUDIENCE not in (audience if isinstance(audience, list) else [audience]):
        raise BadToken(f'the token is not for this service: expected "aud": "{AUDIENCE}"')
    try:
        check_name("sub", recipient)
    except Refused as refused:
        raise BadToken(f'the token needs "sub", the recipient: {refused.message}') from None
    if type(until) is not int:
        raise BadToken('the token needs "exp", in whole seconds since the epoch')
    if until <= now:
        raise BadToken("the token's time is over; get another one from the application")
    if until > now + LONGEST + SKEW:
        raise BadToken(f"the token holds for too long: at most {LONGEST} seconds are taken")
    return Recipient(str(recipient), until)


def _signature(secret: str, said: str) -> str:
    return in_base64(hmac.new(secret.encode(), said.encode(), sha256).digest())


def _encoded(value: dict[str, Any]) -> str:
    return in_base64(orjson.dumps(value))


def _decoded(text: str) -> dict[str, Any]:
    """The object that stands there, empty where there is none."""
    try:
        found = orjson.loads(from_base64(text))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


_HEAD: Final = _encoded({"alg": "HS256", "typ": "JWT"})
