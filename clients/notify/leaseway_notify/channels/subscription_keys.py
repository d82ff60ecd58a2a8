"""The keys of a push subscription: whether a push can be encrypted for that browser. Encrypts nothing."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from leaseway_notify.base64url import from_base64
from leaseway_notify.classify import Kind, NotSent
from leaseway_notify.profile import PushSubscription

KEY_BYTES: Final = 65
AUTH_BYTES: Final = 16


def check_keys(subscription: PushSubscription) -> None:
    """Raises `NotSent` unless `p256dh` is an uncompressed point of P-256, and `auth` a secret (RFC 8291 §3.1, §3.2)."""
    try:
        point, secret = from_base64(subscription.p256dh), from_base64(subscription.auth)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        point = secret = b""
    if (len(point), len(secret)) != (KEY_BYTES, AUTH_BYTES):
        raise NotSent(Kind.BAD_ADDRESS, "the keys of a push subscription are none")
